//! What the flash has brought for a guest: verified, or had from elsewhere.
//!
//! Whole blocks go directly to where the guest wants them. Its memory can change while we look, so
//! a block that is not right there says nothing of the flash, nor does a read that failed: it is
//! read once more, into a buffer of ours, and that is believed.
//!
//! ```text
//!  read into the guest's memory ─► copied out, verified ─┬─ right ─► part
//!                                    wrong, failed ──────┴─► read into a buffer ─┐
//!  read into a buffer ◄──────────────────────────────────────────────────────────┘
//!          └─► verified ─┬─ right ─► part
//!                        └─ wrong, failed, late ─► origin ─► part
//! ```
//!
//! Invariants:
//! - Nothing is answered as read that was not verified, here or by an origin.
//! - A read is not answered while the flash may still write into the guest's memory: one that takes
//!   too long has its bytes from the origin, and is answered when the flash has ended, too. Until
//!   it has, everybody else's reads go through buffers, which can be abandoned.

use super::GuestReads;
use crate::purpose::Hit;
use crate::under_way::ReadId;
use block_io::{Buf, IoError, PAGE_BYTES, Place};
use std::ops::Range;
use units::BLOCK_BYTES;

/// What a read has filled.
pub(crate) enum Filled {
    /// A buffer, if the device gave it back.
    Ours(Option<Buf>),
    /// Where the guest wanted the bytes.
    Theirs(Place),
}

impl GuestReads<'_> {
    /// Where these bytes of a read can be put directly: whole blocks, as they lie on flash, while
    /// no other such read is stuck.
    #[inline(never)]
    pub(super) fn place_for(&self, id: ReadId, bytes: &Range<u64>) -> Option<Place> {
        let read = self.state.reads.get(id);
        let whole =
            bytes.start.is_multiple_of(BLOCK_BYTES) && bytes.end.is_multiple_of(BLOCK_BYTES);
        if !whole || self.ports.stranded > 0 {
            return None;
        }
        let place = read.place(bytes)?;
        let flash = self.flash.as_ref()?;
        (!flash.is_encrypted(read.disk())).then_some(place)
    }

    /// A read from flash takes too long, and the guest's bytes come from elsewhere; but if they may
    /// still come into its memory, it has to wait for that.
    pub(super) fn hold_in_place(&mut self, hit: &Hit) {
        if hit.in_place {
            self.ports.stranded += 1;
            self.state.reads.hold(hit.read);
        }
    }

    /// A run from flash has come, or has failed to. What is not surely right comes from the origin.
    #[inline]
    pub(crate) fn hit_done(&mut self, hit: &Hit, filled: Filled, result: Result<(), IoError>) {
        match filled {
            Filled::Ours(buf) => self.buffer_filled(hit, buf, result),
            Filled::Theirs(place) => self.place_filled(hit, &place, result),
        }
    }

    fn place_filled(&mut self, hit: &Hit, place: &Place, result: Result<(), IoError>) {
        let flash = self.flash.source_mut(hit.dirty);
        if hit.abandoned {
            if let Some(flash) = flash {
                flash.unpin(hit.slot);
            }
            self.ports.stranded -= 1;
            return self.let_go(hit.read);
        }
        let Some(flash) = flash else {
            return self.refetch(hit);
        };
        let ports = &mut self.ports.store;
        if result.is_ok() && flash.is_whole_in(ports, hit.slot, hit.count, place) {
            flash.succeeded();
            flash.unpin(hit.slot);
            self.ports.stats.in_place_bytes += place.len() as u64;
            let ended = self.state.reads.filled_in_place(hit.read);
            return self.end_read(ended);
        }
        // Pinned anew before it is let go, so that the slot stays what it is.
        self.ports.stats.reads_repeated += 1;
        let again = Hit {
            in_place: false,
            ..hit.clone()
        };
        again.read(flash, self.ports, None);
        flash.unpin(hit.slot);
    }

    #[inline]
    fn buffer_filled(&mut self, hit: &Hit, mut buf: Option<Buf>, result: Result<(), IoError>) {
        let mut whole = false;
        // What has failed still has what is nowhere else.
        let flash = self.flash.source_mut(hit.dirty);
        if let Some(flash) = flash {
            flash.unpin(hit.slot);
            match (&result, &mut buf) {
                (Ok(()), Some(buf)) => {
                    flash.succeeded();
                    let pages = &buf[..hit.count as usize * PAGE_BYTES];
                    let ports = &mut self.ports.store;
                    whole = flash.verify(ports, hit.disk, hit.first, hit.slot, pages);
                    flash.show(hit.disk, hit.first, buf, hit.count);
                }
                _ => flash.failed(&mut self.ports.store),
            }
        }
        if hit.abandoned {
            return;
        }
        match buf {
            Some(buf) if whole => {
                let bytes = buf.freeze().slice(hit.skip..hit.skip + hit.length);
                self.fill_part(hit.read, hit.part, bytes);
            }
            _ if hit.dirty && self.is_lost(hit) => {
                self.ports.stats.dirty_unreadable += 1;
                self.fail_part(hit.read, IoError::Failed);
            }
            _ => self.refetch(hit),
        }
    }
}
