//! Hash maps whose order depends on nothing but their content's history.

use foldhash::fast::FixedState;
use std::hash::{BuildHasher, Hash};

/// A hash map with a fixed seed: the same run twice is the same run.
///
/// For keys that a guest or a peer cannot choose freely, or tables that are bounded anyway.
pub type Map<K, V> = hashbrown::HashMap<K, V, FixedState>;

/// A hash set with a fixed seed.
pub type Set<K> = hashbrown::HashSet<K, FixedState>;

/// A hash table of whatever finds its own keys: a place in an array, for example, at five bytes a place.
pub type Table<T> = hashbrown::HashTable<T>;

/// The hash of a key, for a [`Table`].
#[inline]
pub fn hash_of<K: Hash>(key: K) -> u64 {
    FixedState::default().hash_one(key)
}
