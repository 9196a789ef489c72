//! Requests taken from rings and not answered yet.

use crate::memory::Memory;
use frontend::RequestKey;
use std::rc::Rc;
use vhost_protocol::{GuestAddress, Segments};

/// How a request is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// With data, into the slot's segments.
    Data,
    /// With success or failure.
    Word,
    /// With success or failure, but a flush comes first.
    WordAfterFlush,
}

/// A request in flight. It keeps the memory that it names mapped.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) queue: usize,
    pub(crate) head: u16,
    pub(crate) status: GuestAddress,
    pub(crate) memory: Rc<Memory>,
    /// Where a read's data goes; empty for others.
    pub(crate) data: Segments,
    pub(crate) answer: Answer,
    /// Payload, either way, or the weight of a range: what counts against the connection's limit.
    pub(crate) bytes: u64,
    /// What it takes of the memory budget.
    pub(crate) budget: u64,
}

/// A table of requests in flight. Keys are reused.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    table: Vec<Option<Slot>>,
    free: Vec<u32>,
    bytes: u64,
    budget: u64,
}

impl Slots {
    pub(crate) fn len(&self) -> usize {
        self.table.len() - self.free.len()
    }

    /// Payload of all of them.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What all of them take of the memory budget.
    pub(crate) fn budget(&self) -> u64 {
        self.budget
    }

    pub(crate) fn insert(&mut self, slot: Slot) -> RequestKey {
        self.bytes += slot.bytes;
        self.budget += slot.budget;
        if let Some(index) = self.free.pop() {
            self.table[index as usize] = Some(slot);
            return RequestKey::from_number(index);
        }
        let index = u32::try_from(self.table.len()).expect("requests are limited");
        self.table.push(Some(slot));
        RequestKey::from_number(index)
    }

    /// The request, which stays in flight.
    ///
    /// # Panics
    /// If it is not in flight: it was answered twice.
    pub(crate) fn get_mut(&mut self, key: RequestKey) -> &mut Slot {
        self.table[key.get() as usize]
            .as_mut()
            .expect("a request in flight")
    }

    /// The request, if it is in flight.
    pub(crate) fn get(&self, key: RequestKey) -> Option<&Slot> {
        self.table.get(key.get() as usize)?.as_ref()
    }

    /// Ends the request.
    ///
    /// # Panics
    /// If it is not in flight: it was answered twice.
    pub(crate) fn remove(&mut self, key: RequestKey) -> Slot {
        let slot = self.table[key.get() as usize]
            .take()
            .expect("a request is answered once");
        self.free.push(key.get());
        self.bytes -= slot.bytes;
        self.budget -= slot.budget;
        slot
    }
}
