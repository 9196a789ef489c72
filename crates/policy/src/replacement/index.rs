//! From a block's key to its place in a policy's table.

use std::hash::Hash;

use units::Map;

/// Where a policy keeps what it knows of a block: a number below 2^32 - 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place(pub(crate) u32);

impl Place {
    /// The number, as an index.
    pub const fn to_usize(self) -> usize {
        self.0 as usize
    }
}

/// Finds places by keys. A policy inserts a key once and removes it before it inserts it again.
pub trait Index<K> {
    /// The place of `key`, if it has one.
    fn get(&self, key: K) -> Option<Place>;
    /// From now on `key`, which had none, has this place.
    fn insert(&mut self, key: K, place: Place);
    /// `key` has no place any more.
    fn remove(&mut self, key: K);
    /// Bytes of memory that it holds.
    fn memory_bytes(&self) -> usize;
}

/// An array of places for keys that are numbers from 0 upwards: 4 bytes for each key up to the
/// greatest.
#[derive(Clone, Debug, Default)]
pub struct Dense {
    places: Vec<u32>,
}

const NOWHERE: u32 = u32::MAX;

impl Dense {
    /// No key.
    pub fn new() -> Self {
        Self::default()
    }

    /// Room for the key: an eighth more at a time, because what is reserved in vain counts as well,
    /// and large arrays grow without being copied.
    #[cold]
    #[inline(never)]
    fn grow(&mut self, key: u32) {
        let length = key as usize + 1;
        let target = length
            .max(self.places.len() + self.places.len() / 8)
            .max(1024);
        self.places.reserve_exact(target - self.places.len());
        self.places.resize(target, NOWHERE);
    }
}

impl Index<u32> for Dense {
    #[inline]
    fn get(&self, key: u32) -> Option<Place> {
        match self.places.get(key as usize) {
            None | Some(&NOWHERE) => None,
            Some(&place) => Some(Place(place)),
        }
    }

    #[inline]
    fn insert(&mut self, key: u32, place: Place) {
        if key as usize >= self.places.len() {
            self.grow(key);
        }
        self.places[key as usize] = place.0;
    }

    #[inline]
    fn remove(&mut self, key: u32) {
        self.places[key as usize] = NOWHERE;
    }

    fn memory_bytes(&self) -> usize {
        self.places.capacity() * size_of::<u32>()
    }
}

/// A hash table of places, with a fixed seed, for any key.
#[derive(Clone, Debug)]
pub struct Hashed<K> {
    places: Map<K, u32>,
}

impl<K> Hashed<K> {
    /// No key.
    pub fn new() -> Self {
        Self::default()
    }
}

impl<K> Default for Hashed<K> {
    fn default() -> Self {
        Self {
            places: Map::default(),
        }
    }
}

impl<K: Copy + Eq + Hash> Index<K> for Hashed<K> {
    fn get(&self, key: K) -> Option<Place> {
        self.places.get(&key).map(|place| Place(*place))
    }

    fn insert(&mut self, key: K, place: Place) {
        let before = self.places.insert(key, place.0);
        assert!(before.is_none(), "a key has one place");
    }

    fn remove(&mut self, key: K) {
        self.places.remove(&key);
    }

    fn memory_bytes(&self) -> usize {
        self.places.allocation_size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_indexes_find_what_was_inserted_until_it_is_removed() {
        fn check(mut index: impl Index<u32>) {
            assert_eq!(index.get(9), None);
            index.insert(9, Place(0));
            index.insert(5000, Place(7));
            assert_eq!(index.get(9), Some(Place(0)));
            assert_eq!(index.get(5000), Some(Place(7)));
            assert_eq!(index.get(10), None);
            index.remove(9);
            assert_eq!(index.get(9), None);
        }
        check(Dense::new());
        check(Hashed::new());
    }

    #[test]
    fn a_dense_index_reserves_an_eighth_too_much_at_most() {
        let mut index = Dense::new();
        for key in 0..100_000 {
            index.insert(key, Place(key));
        }
        assert!(index.memory_bytes() <= 100_000 * 4 * 9 / 8 + 8);
    }
}
