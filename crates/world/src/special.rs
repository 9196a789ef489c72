//! What befalls flash in worlds of a kind: rot at rest, lies about what is durable; and keys that change.

use crate::host::Software;
use crate::settings::{Special, pick};
use crate::world::World;
use block_io::BlockCipher;
use cache::Committed;
use flash_format::{DirtyChunkHeader, JournalPage, PAGE_BYTES, SUPERBLOCK_OFFSETS};
use std::num::NonZeroU64;
use units::{BlockIndex, Bytes, Prng};

/// A chunk of a dirty log that is on flash.
struct OnFlash {
    header: DirtyChunkHeader,
    offset: Bytes,
}

impl World {
    /// Between two lives: something befalls a page of a dirty log.
    pub(crate) fn rot_at_rest(&mut self) {
        self.flash.unreadable.clear();
        if self.run.special() != Special::Rotten || !self.run.one_in(2) {
            return;
        }
        if self.run.one_in(3) {
            self.journal_rots();
            return;
        }
        let chunks = self.chunks_on_flash();
        if chunks.is_empty() {
            return;
        }
        let chosen = pick(self.run.dice(), &chunks);
        let pages = 1 + u64::from(chosen.header.blocks()).min(1);
        let page = Bytes::new(self.run.below(pages) * PAGE_BYTES as u64);
        let at = chosen.offset + page;
        let named = chunks.iter().any(|other| {
            other.header.disk == chosen.header.disk
                && other.header.durable >= chosen.header.last()
                && self.host.accepted.is_known(&other.header)
        });
        // What nothing behind it says was durable passes for torn if it rots.
        if named && self.run.one_in(2) {
            self.run.hit("dirty log rots");
            let mut bytes = [0; PAGE_BYTES];
            self.flash.peek(at, &mut bytes);
            let byte = usize::try_from(self.run.below(PAGE_BYTES as u64)).expect("an index");
            bytes[byte] ^= 1 << self.run.below(8);
            self.flash.poke(at, &bytes);
        } else {
            self.run.hit("dirty log cannot be read");
            self.flash
                .unreadable
                .push(at..at + Bytes::new(PAGE_BYTES as u64));
        }
        self.host.suspect = true;
        self.run.event(&[24, at.get()], || {
            format!("the flash's page at {at} is spoilt")
        });
    }

    /// A page of the journal that is not the newest rots: the newest would leave no trace.
    fn journal_rots(&mut self) {
        let mut pages = journal_pages(self);
        let mut bytes = [0; PAGE_BYTES];
        let Some((_, newest)) = pages.pop() else {
            return;
        };
        // Older ones are in the checkpoint.
        let recent = &pages[pages.len().saturating_sub(6)..];
        if recent.is_empty() {
            return;
        }
        let (_, at) = *pick(self.run.dice(), recent);
        self.run.hit("journal rots");
        self.host.suspect = true;
        // A power cut must not take the newest page, if it is not durable, and the trace with it.
        self.flash.peek(newest, &mut bytes);
        self.flash.poke(newest, &bytes);
        self.flash.peek(at, &mut bytes);
        bytes[PAGE_BYTES / 2] ^= 1;
        self.flash.poke(at, &bytes);
        self.run.event(&[25, at.get()], || {
            format!("the journal's page at {at} rots")
        });
    }

    /// Every chunk of a dirty log that is whole on flash and not known to be at its origin.
    fn chunks_on_flash(&self) -> Vec<OnFlash> {
        let geometry = self.run.settings().geometry();
        let mut found = Vec::new();
        for header in self.host.accepted.waiting(&geometry) {
            let offset = geometry.segment_offset(header.segment)
                + Bytes::new(u64::from(header.page) * PAGE_BYTES as u64);
            let mut bytes = [0; PAGE_BYTES];
            self.flash.peek(offset, &mut bytes);
            let (segment, generation, page) = (header.segment, header.generation, header.page);
            let uuid = self.host.uuid;
            let there =
                DirtyChunkHeader::decode(&bytes, &geometry, uuid, segment, generation, page);
            if let Ok(header) = there {
                found.push(OnFlash { header, offset });
            }
        }
        found
    }

    /// The key that a disk comes with: now and then another than it had.
    pub(crate) fn draw_key(&mut self, number: usize) -> Option<NonZeroU64> {
        let key = self.disks[number].key;
        if self.run.special() != Special::Commanded
            || self.run.is_last_life()
            || !self.run.one_in(4)
        {
            return key;
        }
        self.run.hit("key drawn");
        *pick(
            self.run.dice(),
            &[None, NonZeroU64::new(1), NonZeroU64::new(2)],
        )
    }
}

/// The host records how far the tables on flash are durable, as far as the flash says.
pub(crate) fn note_committed(world: &mut World) {
    if let (Special::Lying { .. }, Some(committed)) = (world.run.special(), committed(world)) {
        world.host.committed = committed;
    }
}

fn committed(world: &World) -> Option<Committed> {
    match &world.host.software {
        Software::Cache(cache) => cache.committed(),
        Software::Down | Software::Recovery(_) => None,
    }
}

/// The power of flash that lies is about to be cut. What it loses then has to be found out, so it keeps
/// what leaves no trace: the newest superblock and the newest page of the journal, unless the host has
/// recorded them, and chunks of dirty logs of which nobody says that they are durable.
pub(crate) fn spare_what_leaves_no_trace(world: &mut World) {
    world.host.suspect = true;
    let page = Bytes::new(PAGE_BYTES as u64);
    let recorded = world.host.committed;
    if committed(world) != Some(recorded) {
        for at in SUPERBLOCK_OFFSETS {
            world.flash.make_durable(at, at + page);
        }
    }
    // The process may have died before it knew of the newest page: the host has not recorded that.
    match journal_pages(world).pop() {
        Some((number, newest)) if number >= recorded.journal => {
            world.run.hit("lying flash spares the newest page");
            world.flash.make_durable(newest, newest + page);
        }
        _ => world.run.hit("lying flash spares nothing"),
    }
    for chunk in world.host.accepted.unnamed() {
        world.flash.make_durable(chunk.start, chunk.end);
    }
}

/// The pages of the journal that are whole, by their numbers, and where they lie.
fn journal_pages(world: &World) -> Vec<(u64, Bytes)> {
    let geometry = world.run.settings().geometry();
    let mut bytes = [0; PAGE_BYTES];
    let mut pages = Vec::new();
    for number in 0..geometry.journal_pages() {
        let offset = geometry.journal_page_offset(number);
        world.flash.peek(offset, &mut bytes);
        if let Ok(page) = JournalPage::decode(&bytes, world.host.uuid) {
            pages.push((page.sequence, offset));
        }
    }
    pages.sort_unstable();
    pages
}

/// A cipher that tells keys and blocks apart, and keeps no secret.
pub(crate) struct Toy(pub NonZeroU64);

impl Toy {
    fn mix(&self, block: BlockIndex, bytes: &mut [u8]) {
        let mut stream = Prng::new(self.0.get() << 32 | block.get());
        for word in bytes.chunks_exact_mut(8) {
            for (byte, key) in word.iter_mut().zip(stream.u64().to_le_bytes()) {
                *byte ^= key;
            }
        }
    }
}

impl BlockCipher for Toy {
    fn encrypt(&self, block: BlockIndex, bytes: &mut [u8]) {
        self.mix(block, bytes);
    }

    fn decrypt(&self, block: BlockIndex, bytes: &mut [u8]) {
        self.mix(block, bytes);
    }

    fn tag(&self) -> NonZeroU64 {
        self.0
    }
}
