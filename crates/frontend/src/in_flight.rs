//! Requests that a connection has taken from its client and not answered yet.

use crate::request::RequestKey;
use slab::Slab;

/// What a request weighs on its connection until it is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weight {
    /// Bytes of payload, either way, or the [weight of a range](crate::limits::weight_of_range): what
    /// counts against [`ConnectionLimits::bytes`](crate::limits::ConnectionLimits::bytes).
    pub bytes: u64,
    /// Bytes that it takes of the memory budget.
    pub memory: u64,
}

/// A connection's table of requests: what the front end must know to answer each. Keys are reused.
#[derive(Debug)]
pub struct InFlight<T> {
    requests: Slab<(T, Weight)>,
    total: Weight,
}

impl<T> Default for InFlight<T> {
    fn default() -> Self {
        Self {
            requests: Slab::new(),
            total: Weight::default(),
        }
    }
}

impl<T> InFlight<T> {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.requests.len()
    }

    /// Whether every request was answered.
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// What all of them weigh.
    pub fn weight(&self) -> Weight {
        self.total
    }

    /// Adds a request that was taken.
    ///
    /// # Panics
    /// If there are 2^32 of them; connections are limited to fewer.
    pub fn insert(&mut self, request: T, weight: Weight) -> RequestKey {
        self.total.bytes += weight.bytes;
        self.total.memory += weight.memory;
        let index = self.requests.insert((request, weight));
        RequestKey::from_number(u32::try_from(index).expect("requests are limited"))
    }

    /// The request, if it is in flight.
    pub fn get(&self, key: RequestKey) -> Option<&T> {
        self.requests
            .get(key.get() as usize)
            .map(|(request, _)| request)
    }

    /// The request, which stays in flight.
    ///
    /// # Panics
    /// If it is not in flight: it was answered twice.
    pub fn get_mut(&mut self, key: RequestKey) -> &mut T {
        let entry = self.requests.get_mut(key.get() as usize);
        &mut entry.expect("a request in flight").0
    }

    /// Ends the request.
    ///
    /// # Panics
    /// If it is not in flight: it was answered twice.
    pub fn remove(&mut self, key: RequestKey) -> T {
        let entry = self.requests.try_remove(key.get() as usize);
        let (request, weight) = entry.expect("a request is answered once");
        self.total.bytes -= weight.bytes;
        self.total.memory -= weight.memory;
        request
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weight(bytes: u64) -> Weight {
        Weight {
            bytes,
            memory: 2 * bytes,
        }
    }

    #[test]
    fn keys_are_reused_and_weights_add_up() {
        let mut requests = InFlight::default();
        let first = requests.insert("first", weight(10));
        let second = requests.insert("second", weight(20));
        assert_eq!((requests.len(), requests.weight()), (2, weight(30)));
        assert_eq!(requests.remove(first), "first");
        assert_eq!((requests.len(), requests.weight()), (1, weight(20)));
        assert_eq!(requests.get(first), None);
        assert_eq!(requests.insert("third", weight(5)), first);
        assert_eq!(requests.remove(second), "second");
        assert_eq!(requests.weight(), weight(5));
        assert!(!requests.is_empty());
    }

    #[test]
    #[should_panic(expected = "answered once")]
    fn a_second_answer_is_a_bug() {
        let mut requests = InFlight::default();
        let key = requests.insert((), weight(1));
        requests.remove(key);
        requests.remove(key);
    }
}
