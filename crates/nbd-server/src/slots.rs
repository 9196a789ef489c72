//! Requests taken from a client and not answered yet.

use frontend::RequestKey;
use nbd_protocol::Cookie;
use units::Bytes;

/// How a request is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// With this much data from there.
    Data { offset: Bytes, length: u32 },
    /// With success or failure.
    Word,
    /// With success or failure, but a flush comes first.
    WordAfterFlush,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    pub(crate) cookie: Cookie,
    pub(crate) answer: Answer,
    /// Payload, either way, or the weight of a range: what counts against the connection's limit.
    pub(crate) bytes: u64,
    /// What it takes of the memory budget.
    pub(crate) memory: u64,
}

/// A table of requests in flight. Keys are reused.
#[derive(Default)]
pub(crate) struct Slots {
    table: Vec<Option<Slot>>,
    free: Vec<u32>,
    bytes: u64,
    memory: u64,
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
    pub(crate) fn memory(&self) -> u64 {
        self.memory
    }

    pub(crate) fn insert(&mut self, slot: Slot) -> RequestKey {
        self.bytes += slot.bytes;
        self.memory += slot.memory;
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
        self.memory -= slot.memory;
        slot
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(bytes: u64) -> Slot {
        Slot {
            cookie: Cookie(bytes),
            answer: Answer::Word,
            bytes,
            memory: 2 * bytes,
        }
    }

    #[test]
    fn keys_are_reused_and_bytes_add_up() {
        let mut slots = Slots::default();
        let first = slots.insert(slot(10));
        let second = slots.insert(slot(20));
        assert_eq!((slots.len(), slots.bytes(), slots.memory()), (2, 30, 60));
        assert_eq!(slots.remove(first).cookie, Cookie(10));
        assert_eq!((slots.len(), slots.bytes()), (1, 20));
        assert_eq!(slots.insert(slot(5)), first);
        assert_eq!(slots.remove(second).bytes, 20);
    }

    #[test]
    #[should_panic(expected = "answered once")]
    fn a_second_answer_is_a_bug() {
        let mut slots = Slots::default();
        let key = slots.insert(slot(1));
        slots.remove(key);
        slots.remove(key);
    }
}
