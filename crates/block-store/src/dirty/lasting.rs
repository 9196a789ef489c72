//! What of a dirty log is not on flash yet, told to memory that outlives the process.
//!
//! To a guest an accepted write is in its disk's cache, which does not lose its power when our
//! process ends. So each record is told, before the write is answered, to memory that a later
//! process finds again ([`Lasting`]); when its chunk is on flash its place is free again.
//!
//! ```text
//!  chunk opened: Begin ─► each record: Push ─► ... ─► chunk written: Clear
//! ```

use crate::guard::{Guard, holds};
use crate::journal::Ticket;
use crate::ports::{Ports, Tag};
use block_io::Slice;
use flash_format::{DirtyChunkHeader, DirtyRecord, LASTING_HEAD_BYTES, RECORD_BYTES};

/// What memory that outlives the process is told. It is carried out at once, before any reply
/// that comes behind it is sent.
#[derive(Clone, Debug)]
pub enum Lasting {
    /// A chunk begins in a place; nothing of what was there before counts.
    Begin {
        /// Which place: below [`crate::Config::lasting_places`].
        place: u32,
        /// What it is.
        head: [u8; LASTING_HEAD_BYTES],
    },
    /// Another record.
    Push {
        /// Of the chunk in this place.
        place: u32,
        /// What it is.
        record: [u8; RECORD_BYTES],
        /// The 4 KiB of the block, and which of the chunk's blocks it is, from 0.
        page: Option<(u32, Slice)>,
    },
    /// The chunk is on flash: nothing in the place counts any more.
    Clear {
        /// Which place.
        place: u32,
    },
}

/// Which places no chunk has.
#[derive(Debug)]
pub(crate) struct Places {
    free: Vec<u32>,
    /// Those of chunks that are on flash, in segments of which the journal does not say yet that
    /// they belong to a log: a recovery would not look there.
    held: Vec<(Ticket, u32)>,
}

impl Places {
    pub(crate) fn new(count: u32) -> Self {
        // The lowest first: memory that was never used stays so.
        Self {
            free: (0..count).rev().collect(),
            held: Vec::new(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.free.is_empty()
    }

    /// Takes a place for a chunk.
    ///
    /// # Panics
    /// If there is none.
    pub(super) fn begin<T: Tag>(&mut self, ports: &mut Ports<T>, chunk: &DirtyChunkHeader) -> u32 {
        let place = self.free.pop().expect("it was looked whether there is one");
        let head = chunk.lasting_head();
        tell(ports, Lasting::Begin { place, head });
        place
    }

    /// The chunk is on flash. It is found there when the journal has become durable up to `opened`,
    /// and is so up to `durable`.
    pub(crate) fn written<T: Tag>(
        &mut self,
        ports: &mut Ports<T>,
        place: u32,
        opened: Ticket,
        durable: Ticket,
    ) {
        self.held.push((opened, place));
        self.clear(ports, durable);
    }

    /// Clears what is found on flash now that the journal is durable up to `durable`.
    pub(crate) fn clear<T: Tag>(&mut self, ports: &mut Ports<T>, durable: Ticket) {
        let known =
            |held: &mut (Ticket, u32)| held.0 <= durable || !holds(Guard::OpenBeforeForgotten);
        for (_, place) in self.held.extract_if(.., known) {
            tell(ports, Lasting::Clear { place });
            self.free.push(place);
        }
    }
}

/// Another record of the chunk in a place.
pub(super) fn push<T: Tag>(
    ports: &mut Ports<T>,
    place: u32,
    record: &DirtyRecord,
    page: Option<(u32, Slice)>,
) {
    let record = record.to_bytes();
    tell(
        ports,
        Lasting::Push {
            place,
            record,
            page,
        },
    );
}

fn tell<T: Tag>(ports: &mut Ports<T>, what: Lasting) {
    if holds(Guard::AcceptedOutlivesProcess) {
        ports.tell(what);
    }
}
