//! The places that retained memory has for chunks ([`RetainedUpdate`]).

use crate::guard::{Guard, holds};
use crate::journal::Ticket;
use crate::ports::{Payload, Ports, Tag};
use crate::retained::RetainedUpdate;
use flash_format::{DirtyChunkHeader, DirtyRecord};

/// Which places no chunk has.
#[derive(Debug)]
pub(super) struct Places {
    free: Vec<u32>,
    /// Those of chunks that are on flash, in segments of which the journal does not say yet that
    /// they belong to a log: a recovery would not look there.
    held: Vec<(Ticket, u32)>,
}

impl Places {
    pub(super) fn new(count: u32) -> Self {
        // The lowest first: memory that was never used stays so.
        Self {
            free: (0..count).rev().collect(),
            held: Vec::new(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.free.is_empty()
    }

    /// Takes a place for a chunk.
    ///
    /// # Panics
    /// If there is none.
    pub(super) fn begin<T: Tag>(&mut self, ports: &mut Ports<T>, chunk: &DirtyChunkHeader) -> u32 {
        let place = self.free.pop().expect("it was looked whether there is one");
        let head = chunk.retained_head();
        retain(ports, RetainedUpdate::Begin { place, head });
        place
    }

    /// The chunk is on flash. It is found there when the journal has become durable up to `opened`,
    /// and is so up to `durable`.
    pub(super) fn written<T: Tag>(
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
    pub(super) fn clear<T: Tag>(&mut self, ports: &mut Ports<T>, durable: Ticket) {
        let known =
            |held: &mut (Ticket, u32)| held.0 <= durable || !holds(Guard::OpenBeforeForgotten);
        for (_, place) in self.held.extract_if(.., known) {
            retain(ports, RetainedUpdate::Clear { place });
            self.free.push(place);
        }
    }
}

/// Another record of the chunk in a place.
pub(super) fn push<T: Tag>(
    ports: &mut Ports<T>,
    place: u32,
    record: &DirtyRecord,
    page: Option<(u32, <T::Payload as Payload>::Page)>,
) {
    if holds(Guard::AcceptedOutlivesProcess) {
        T::Payload::retain(ports, place, record.to_bytes(), page);
    }
}

fn retain<T: Tag>(ports: &mut Ports<T>, update: RetainedUpdate) {
    if holds(Guard::AcceptedOutlivesProcess) {
        ports.retain(update);
    }
}
