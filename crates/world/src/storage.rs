//! Flash and origins: media that lose, tear, stall and fail by the seed. What a process has open of one, and
//! what ends with the process, is its [`Handle`].
//!
//! ```text
//!  submit ─► injector of errors and stalls ─┬─► medium ─► completions, out of order
//!            (all operations)               │
//!            injector of lies ──────────────┘
//!            (reads of segments, writes of segments that are not asked to be durable)
//! ```
//!
//! A lie is a lost or misdirected write, a misdirected read, or rot that the device reports as
//! success. The cache must see through every one on blocks and their descriptors. It is not told
//! lies about writes that it asked to be durable: a device that acknowledges the newest journal
//! page and loses it leaves no trace that anybody could find; the book says so under what is
//! assumed of the medium. For the same reason it is not lied to about chunks of dirty logs, which may
//! be written plainly and flushed; and as long as nothing durable says that such a chunk is durable,
//! no other write is led astray over it, one that was led there before ends first, and a recovery
//! reads it as it is.

mod handle;
mod late;

pub(crate) use handle::Handle;

use self::late::Late;
use crate::verbs::Piece;
use medium::{Faults, Medium, MediumOptions};
use std::ops::Range;
use units::{Bytes, Duration, Offset, Prng, SECTOR_BYTES};

/// How long operations take.
#[derive(Clone, Copy, Debug)]
pub struct Latency {
    /// At least.
    pub least: Duration,
    /// At most.
    pub most: Duration,
}

/// A medium with its faults.
pub(crate) struct Storage {
    medium: Medium,
    /// Errors, stalls and delays of anything.
    errors: Faults,
    /// Lies about what may be lied about.
    lies: Faults,
    /// Changes that it gives up and may still carry out.
    late: Late,
    /// Where lies begin: before it are superblocks, journal and checkpoints.
    lies_from: Offset,
    capacity: Bytes,
    /// The unit in which failed writes are torn.
    sector: Bytes,
    /// What no write that goes astray hits.
    spared: Vec<Range<Offset>>,
    /// One read that begins in `rotting` in so many comes back with a bit flipped; 0 for none.
    rot: u64,
    /// Where reads may come back rotten beside what `lies` does.
    rotting: Vec<Range<Offset>>,
    /// What cannot be read, until it is cleared.
    unreadable: Vec<Range<Offset>>,
    dice: Prng,
    /// A flush that fails takes along what it would have made durable.
    forgets: bool,
    /// It acknowledges durable writes and flushes that are neither.
    lies_about_durability: bool,
    /// Then it makes everything durable by itself, once in so many operations.
    persists: u64,
    /// Bytes of all writes that were submitted.
    written_bytes: u64,
}

impl Storage {
    /// A medium of zeroes. Lies are told at and behind `lies_from` only.
    pub(crate) fn new(
        capacity: Bytes,
        sector: Bytes,
        lies_from: Offset,
        latency: Latency,
        dice: &mut Prng,
    ) -> Self {
        // Not from the dice themselves: the worlds without late changes are the older ones.
        let late = Late::new(dice.clone().fork());
        let mut options = MediumOptions::new(capacity, dice.u64());
        options.latency_least = latency.least;
        options.latency_most = latency.most;
        let medium = Medium::new(options);
        let errors = Faults::new(dice.u64());
        let lies = Faults::new(dice.u64());
        Self {
            medium,
            errors,
            lies,
            late,
            lies_from,
            capacity,
            sector,
            spared: Vec::new(),
            rot: 0,
            rotting: Vec::new(),
            unreadable: Vec::new(),
            dice: dice.fork(),
            forgets: false,
            lies_about_durability: false,
            persists: 0,
            written_bytes: 0,
        }
    }

    /// A process of this host begins to use it.
    pub(crate) fn open(&self, host: usize) -> Handle {
        Handle::new(self, host)
    }

    /// Errors, stalls and delays of anything.
    pub(crate) fn errors(&self) -> &Faults {
        &self.errors
    }

    /// Lies about what may be lied about.
    pub(crate) fn lies(&self) -> &Faults {
        &self.lies
    }

    /// One read that begins in a rotting place in so many comes back with a bit flipped; 0 for none.
    pub(crate) fn rot_one_in(&mut self, count: u64) {
        self.rot = count;
    }

    /// Where reads may come back rotten beside what lies do.
    pub(crate) fn set_rotting(&mut self, places: Vec<Range<Offset>>) {
        self.rotting = places;
    }

    /// A place cannot be read until it is written anew.
    pub(crate) fn make_unreadable(&mut self, place: Range<Offset>) {
        self.unreadable.push(place);
    }

    /// Every place can be read.
    pub(crate) fn make_readable(&mut self) {
        self.unreadable.clear();
    }

    /// No write that goes astray hits these places from now on.
    pub(crate) fn spare(&mut self, places: Vec<Range<Offset>>) {
        self.spared = places;
    }

    /// Whether a flush that fails takes along what it would have made durable.
    pub(crate) fn set_forgets(&mut self, forgets: bool) {
        self.forgets = forgets;
    }

    /// Bytes of all writes that were submitted.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    /// Changes that it gives up and may still carry out.
    pub(crate) fn late(&self) -> &Late {
        &self.late
    }

    /// The same, to change how many there are.
    pub(crate) fn late_mut(&mut self) -> &mut Late {
        &mut self.late
    }

    /// Whether it says of everything that it is durable, and a power cut may take it all the same.
    pub(crate) fn lies_about_durability(&self) -> bool {
        self.lies_about_durability
    }

    /// The process that used it has died; with `power_cut` its power was cut, too.
    pub(crate) fn end(&mut self, handle: Handle, power_cut: bool) {
        self.late.kill(handle.asker());
        drop(handle);
        if power_cut {
            self.settle_late();
            self.medium.crash();
        }
    }

    /// From now on it says of everything that it is durable, and a power cut may take it all the same.
    pub(crate) fn lie_about_durability(&mut self, persists: u64) {
        self.persists = persists;
        self.lies_about_durability = true;
        self.medium.lie_about_durability(true);
    }

    /// What is there from `from` to `to` is durable, whatever it lies about.
    pub(crate) fn make_durable(&self, from: Offset, to: Offset) {
        let mut bytes = vec![0; (to - from).to_usize()];
        self.peek(from, &mut bytes);
        self.poke(from, &bytes);
    }

    /// What was given up is over: whoever looks at the bytes past the cache looks after that.
    pub(crate) fn settle_late(&mut self) {
        let landing = self.late.settle();
        self.land(&landing);
    }

    fn land(&self, pieces: &[Piece]) {
        self.medium.with_image(|image| {
            for piece in pieces {
                image.write(piece.offset, &piece.bytes);
            }
        });
    }

    /// The bytes that a reader would see now.
    pub(crate) fn peek(&self, offset: Offset, into: &mut [u8]) {
        self.medium.with_image(|image| image.read(offset, into));
    }

    /// Shows every content that a power cut now could leave in a sector.
    pub(crate) fn fates(&self, mut show: impl FnMut(usize, &[u8])) {
        for piece in self.late.pieces() {
            let sector = piece.offset.get() / SECTOR_BYTES;
            show(
                usize::try_from(sector).expect("media are small"),
                &piece.bytes,
            );
        }
        self.medium.fates(show);
    }

    /// Changes bytes behind everybody's back, durably.
    pub(crate) fn poke(&self, offset: Offset, bytes: &[u8]) {
        self.medium
            .with_image(|image| image.write_durable(offset, bytes));
    }
}
