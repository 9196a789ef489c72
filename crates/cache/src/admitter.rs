//! What enters the flash: verdicts asked, and carried out.
//!
//! ```text
//!   a fill has come ───────────┐            ┌─ Admit ──► appended to the log
//!   a write of whole blocks,   ├─► verdict ─┼─ Stage ──► its bytes wait in memory
//!   acknowledged (if allowed) ─┘            └─ Refuse ─► nothing is kept; the reason is counted
//! ```
//!
//! The crate [`admission`] gives the verdicts and has what is staged; without tenants every fill enters
//! and no write does. Only bytes that surely equal the origin's are asked about: of a fill that crossed
//! no write to its blocks, or of a write that was alone on them. Each staged block has a buffer of its
//! own: a slice of the fill's would pin up to 1 MiB.
//!
//! - A read that joined a fill is an access of its own: the block was read twice.
//! - A prefetch is explicit, so no policy is asked; the write budgets are. It is not demand.
//! - A guest may want a block of its own kept out, or say that it will want it again: that is one access more.
//! - What a verdict of Admit could not carry out (no free segment, a full write buffer, no place in
//!   the index) is counted there and given back.

use crate::disks::Disks;
use crate::fills::Fill;
use crate::guard::{Guard, holds};
use crate::ports::Ports;
use crate::request::Span;
use crate::under_way::{Read, Reads};
use admission::{AdmissionControl, Hint, Key};
use block_io::{PAGE_BYTES, Slice};
use block_store::Store;
use policy::admission::{Reason, Verdict};
use segment_log::Source;
use tenancy::Arrival;
use units::{BLOCK_BYTES, BlockIndex, DiskSlot, Instant};

/// The parts of a cache that let blocks enter its flash.
pub(crate) struct Admitter<'a> {
    admission: &'a mut Admission,
    flash: Option<&'a mut Store>,
    disks: &'a mut Disks,
    ports: &'a mut Ports,
}

/// The admission of a cache, with the bytes of what is staged.
pub(crate) type Admission = AdmissionControl<Key, Slice>;

/// Tells the admission of a write of data, but for the part that is never cached.
pub(crate) fn write_arrives(
    admission: &mut Admission,
    disks: &Disks,
    now: Instant,
    span: &Span,
) -> Option<Arrival> {
    let Span {
        disk, vm, offset, ..
    } = *span;
    let end = span.end().get().min(disks.cached_end(disk));
    if admission.is_open() || offset.get() >= end {
        return None;
    }
    let first = BlockIndex::containing(offset);
    let request = tenancy::Request {
        vm,
        tenant: disks.tenant_of(disk)?,
        disk,
        first,
        count: end.div_ceil(BLOCK_BYTES) - first.get(),
        write: true,
        now,
    };
    admission.arrives(&request, true)
}

/// Who asked, and how, for a block whose bytes are at hand.
#[derive(Clone, Copy)]
struct Asker {
    arrival: Option<Arrival>,
    prefetch: bool,
    source: Source,
}

impl<'a> Admitter<'a> {
    /// For one event.
    #[inline]
    pub(crate) fn new(
        admission: &'a mut Admission,
        flash: Option<&'a mut Store>,
        disks: &'a mut Disks,
        ports: &'a mut Ports,
    ) -> Self {
        Self {
            admission,
            flash,
            disks,
            ports,
        }
    }

    /// The blocks of a fill are at hand.
    pub(crate) fn admit_fill(&mut self, fill: &Fill, bytes: &Slice, reads: &Reads) {
        if fill.killed && holds(Guard::KilledFillStaysOut) {
            self.ports.stats.killed_fills += 1;
            return;
        }
        for (number, waiter) in fill.waiters.iter().enumerate() {
            // Nobody is asked, so who else waited does not matter.
            if number > 0 && self.admission.is_open() {
                break;
            }
            let asker = self.asker_of(reads.get(waiter.read));
            let first = waiter.skip / PAGE_BYTES;
            let end = (waiter.skip + waiter.length).div_ceil(PAGE_BYTES);
            let pages = bytes.chunks_exact(PAGE_BYTES).enumerate();
            for (at, page) in pages.take(end).skip(first) {
                let block = fill.first.advance(at as u64);
                if number == 0 || !self.is_kept(asker, fill.disk, block) {
                    self.offer(asker, fill.disk, block, page);
                }
            }
        }
    }

    fn asker_of(&self, read: &Read) -> Asker {
        Asker {
            arrival: self.admission.still(read.arrival().copied()),
            prefetch: read.is_prefetch(),
            source: Source::Fill,
        }
    }

    /// Another one who waited for a fill asks for a block of it: true if it is on flash or staged
    /// since the first one did.
    fn is_kept(&mut self, asker: Asker, disk: DiskSlot, block: BlockIndex) -> bool {
        let Some(flash) = self.flash.as_deref() else {
            return true;
        };
        let Some(arrival) = asker.arrival.filter(|_| !asker.prefetch) else {
            return true;
        };
        if flash.facts().has_copy(disk, block) {
            self.admission.hits(&arrival, [Key::new(disk, block)]);
            return true;
        }
        let is_staged = self.admission.staged(Key::new(disk, block)).is_some();
        if is_staged {
            self.staged_hit(&arrival, disk, block);
        }
        is_staged
    }

    /// A block that is not on flash, and whose bytes are at hand: a guest reads it from memory, where it is hot or was
    /// prefetched (a fill), or has written all of it and the origin has acknowledged that (an update).
    pub(crate) fn offer_at_hand(
        &mut self,
        arrival: Option<Arrival>,
        source: Source,
        (disk, block): (DiskSlot, BlockIndex),
        page: &[u8],
    ) {
        let asker = Asker {
            arrival: self.admission.still(arrival),
            prefetch: false,
            source,
        };
        self.offer(asker, disk, block, page);
    }

    /// Asks what becomes of a block that is neither on flash nor staged, and does it.
    fn offer(&mut self, asker: Asker, disk: DiskSlot, block: BlockIndex, page: &[u8]) {
        let key = Key::new(disk, block);
        let hint = self.disks.hints().of(disk, block);
        // An operator who asks for a block wants it whatever its guest says.
        let hint = hint.filter(|_| !asker.prefetch);
        if hint == Some(Hint::KeepOut) {
            self.disks.stats(disk).kept_out_blocks += 1;
            return;
        }
        if self.admission.is_open() {
            if asker.source == Source::Fill {
                self.append(disk, block, asker.source, page);
            }
            return;
        }
        let (admission, pool) = (&mut self.admission, self.ports.pool());
        let verdict = asker.arrival.and_then(|arrival| {
            if asker.prefetch {
                admission.asked_for(&arrival, key)
            } else {
                admission.missed(&arrival, key, || pool.copy_of(page))
            }
        });
        let verdict = match (verdict, asker.arrival, hint) {
            (Some(verdict), Some(arrival), Some(Hint::Wanted)) => {
                self.once_more(verdict, &arrival, key, page)
            }
            (verdict, ..) => verdict,
        };
        self.let_in_unstaged();
        match verdict {
            Some(Verdict::Admit) => self.let_in(disk, block, asker.source, page),
            Some(Verdict::Stage) => {}
            Some(Verdict::Refuse(reason)) => {
                self.ports.stats.not_admitted.refused.add(reason);
                if !holds(Guard::RefusedStaysOut) {
                    self.append(disk, block, asker.source, page);
                }
            }
            None => self.ports.stats.not_admitted.settings += 1,
        }
        self.keep_hot(asker, disk, block, page);
    }

    /// The verdict on a block that the guest says it will want again: an access more than there was. What would wait in
    /// memory for that access goes to flash.
    fn once_more(
        &mut self,
        verdict: Verdict,
        arrival: &Arrival,
        key: Key,
        page: &[u8],
    ) -> Option<Verdict> {
        let (admission, pool) = (&mut self.admission, self.ports.pool());
        match verdict {
            Verdict::Stage => {
                admission.change(arrival.tenant, key);
                admission.asked_for(arrival, key)
            }
            Verdict::Refuse(Reason::FirstTouch | Reason::TooCold) => {
                admission.missed(arrival, key, || pool.copy_of(page))
            }
            Verdict::Admit | Verdict::Refuse(_) => Some(verdict),
        }
    }

    /// A block that was read may have a frame, unless it is staged.
    fn keep_hot(&mut self, asker: Asker, disk: DiskSlot, block: BlockIndex, page: &[u8]) {
        let Some(tenant) = self.disks.tenant_of(disk) else {
            return;
        };
        if asker.source == Source::Fill
            && !asker.prefetch
            && self.admission.frames().keeps_hot(tenant)
        {
            let (admission, pool) = (&mut self.admission, self.ports.pool());
            let frames = admission.frames_mut();
            frames.read(tenant, Key::new(disk, block), || pool.copy_of(page));
        }
    }

    /// Appends a block that was let in, and gives it back if that cannot be done.
    fn let_in(&mut self, disk: DiskSlot, block: BlockIndex, source: Source, page: &[u8]) {
        if self.append(disk, block, source, page) {
            self.ports.stats.writes_allocated += u64::from(source == Source::Update);
            return;
        }
        self.give_back(disk, Key::new(disk, block));
    }

    /// A block was let in, and does not enter.
    fn give_back(&mut self, disk: DiskSlot, key: Key) {
        if let Some(tenant) = self.disks.tenant_of(disk) {
            self.admission.withheld(tenant, key);
        }
    }

    /// Appends a block. True if it is in the cache now.
    pub(crate) fn append(
        &mut self,
        disk: DiskSlot,
        block: BlockIndex,
        source: Source,
        page: &[u8],
    ) -> bool {
        let Some(flash) = self.flash.as_deref_mut() else {
            return false;
        };
        let entered = flash.admit(&mut self.ports.store, disk, block, source, page);
        self.account();
        entered
    }

    /// A staged block is read: its bytes were served.
    pub(crate) fn staged_hit(&mut self, arrival: &Arrival, disk: DiskSlot, block: BlockIndex) {
        self.admission.staged_hit(arrival, Key::new(disk, block));
        self.let_in_unstaged();
    }

    /// Appends what has left staging for flash.
    pub(crate) fn let_in_unstaged(&mut self) {
        while let Some((key, bytes)) = self.admission.next_let_in() {
            let (disk, block) = (key.disk(), key.block());
            if self.disks.hints().of(disk, block) == Some(Hint::KeepOut) {
                self.disks.stats(disk).kept_out_blocks += 1;
                self.give_back(disk, key);
            } else {
                self.let_in(disk, block, Source::Fill, &bytes);
            }
        }
    }

    /// Tells disks and admission what was written to flash, and what reclaim dropped.
    pub(crate) fn account(&mut self) {
        for (disk, written) in self.ports.store.take_written() {
            let tenant = disk.and_then(|disk| self.disks.tenant_of(disk));
            if let Some(disk) = disk {
                let blocks = written.fill + written.update + written.reclaim;
                self.disks.stats(disk).flash_written_bytes += blocks;
            }
            self.admission.charge(tenant, written);
        }
        for (disk, block) in self.ports.store.take_evicted() {
            if let Some(tenant) = self.disks.tenant_of(disk) {
                self.admission.evicted(tenant, Key::new(disk, block));
            }
        }
    }
}
