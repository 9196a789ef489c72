//! A table of so many rows that is taken when it is built: a new row takes the place of the oldest one.
//!
//! ```text
//!   buckets  [ 3 | - | 0 | - | 1 ]      hash of the key ─► first row of the bucket ─► chain of rows
//!   rows     newest ⇄ ... ⇄ oldest      the order in which they were added, or touched
//! ```
//!
//! Nothing grows: neither rows nor buckets, whatever keys come. So a miner's memory is what it was built with.

use units::{Bytes, hash_of};

const NONE: u32 = u32::MAX;

#[derive(Clone, Debug)]
struct Row<T> {
    key: u64,
    /// The next row of the bucket, or of those that are free.
    chain: u32,
    newer: u32,
    older: u32,
    value: T,
}

/// Rows with a key each.
#[derive(Clone, Debug)]
pub(crate) struct Rows<T> {
    slots: Vec<Row<T>>,
    buckets: Vec<u32>,
    newest: u32,
    oldest: u32,
    free: u32,
}

impl<T: Copy> Rows<T> {
    /// Bytes of a row, its bucket included.
    pub(crate) const ROW_BYTES: u64 = (size_of::<Row<T>>() + size_of::<u32>()) as u64;

    /// As many rows as fit into so much memory, two at least.
    pub(crate) fn within(memory: Bytes) -> Self {
        Self::new((memory.get() / Self::ROW_BYTES).max(2))
    }

    /// So many rows.
    ///
    /// # Panics
    /// If they are 2^32 or more.
    pub(crate) fn new(rows: u64) -> Self {
        let rows = u32::try_from(rows).expect("a table has less than 2^32 rows") as usize;
        Self {
            slots: Vec::with_capacity(rows),
            buckets: vec![NONE; rows],
            newest: NONE,
            oldest: NONE,
            free: NONE,
        }
    }

    /// What it takes, full or empty.
    pub(crate) fn memory(&self) -> Bytes {
        let bytes = self.slots.capacity() * size_of::<Row<T>>() + self.buckets.capacity() * 4;
        Bytes::new(bytes as u64)
    }

    /// The value of a key.
    pub(crate) fn get(&self, key: u64) -> Option<&T> {
        self.find(key).map(|at| &self.slots[at as usize].value)
    }

    /// The value of a key, to be changed.
    pub(crate) fn get_mut(&mut self, key: u64) -> Option<&mut T> {
        let at = self.find(key)?;
        Some(&mut self.slots[at as usize].value)
    }

    /// Makes the row of a key the newest, if there is one.
    pub(crate) fn touch(&mut self, key: u64) {
        if let Some(at) = self.find(key)
            && at != self.newest
        {
            self.unlink(at);
            self.link_newest(at);
        }
    }

    /// Adds a row for a key that has none, in place of the oldest if all are taken: what was in that.
    pub(crate) fn insert(&mut self, key: u64, value: T) -> Option<(u64, T)> {
        assert!(self.find(key).is_none(), "a key has one row");
        let mut left = None;
        if self.free == NONE && self.slots.len() == self.buckets.len() {
            let oldest = &self.slots[self.oldest as usize];
            let key = oldest.key;
            left = self.remove(key).map(|value| (key, value));
        }
        let row = Row {
            key,
            chain: NONE,
            newer: NONE,
            older: NONE,
            value,
        };
        let at = if self.free == NONE {
            self.slots.push(row);
            u32::try_from(self.slots.len() - 1).expect("there are less than 2^32 rows")
        } else {
            let at = self.free;
            self.free = self.slots[at as usize].chain;
            self.slots[at as usize] = row;
            at
        };
        let bucket = self.bucket(key);
        self.slots[at as usize].chain = self.buckets[bucket];
        self.buckets[bucket] = at;
        self.link_newest(at);
        left
    }

    /// Takes a row out: its value.
    pub(crate) fn remove(&mut self, key: u64) -> Option<T> {
        let at = self.find(key)?;
        self.unlink(at);
        let after = self.slots[at as usize].chain;
        let bucket = self.bucket(key);
        if self.buckets[bucket] == at {
            self.buckets[bucket] = after;
        } else {
            let mut before = self.buckets[bucket];
            while self.slots[before as usize].chain != at {
                before = self.slots[before as usize].chain;
            }
            self.slots[before as usize].chain = after;
        }
        self.slots[at as usize].chain = self.free;
        self.free = at;
        Some(self.slots[at as usize].value)
    }

    /// The oldest row's key and value.
    pub(crate) fn oldest(&self) -> Option<(u64, &T)> {
        let row = self.slots.get(self.oldest as usize)?;
        Some((row.key, &row.value))
    }

    fn bucket(&self, key: u64) -> usize {
        let wide = u128::from(hash_of(key)) * self.buckets.len() as u128;
        usize::try_from(wide >> 64).expect("it is below the number of buckets")
    }

    fn find(&self, key: u64) -> Option<u32> {
        let mut at = self.buckets[self.bucket(key)];
        while at != NONE {
            let row = &self.slots[at as usize];
            if row.key == key {
                return Some(at);
            }
            at = row.chain;
        }
        None
    }

    fn unlink(&mut self, at: u32) {
        let (newer, older) = {
            let row = &self.slots[at as usize];
            (row.newer, row.older)
        };
        match self.slots.get_mut(newer as usize) {
            Some(row) => row.older = older,
            None => self.newest = older,
        }
        match self.slots.get_mut(older as usize) {
            Some(row) => row.newer = newer,
            None => self.oldest = newer,
        }
    }

    fn link_newest(&mut self, at: u32) {
        let before = self.newest;
        self.slots[at as usize].newer = NONE;
        self.slots[at as usize].older = before;
        match self.slots.get_mut(before as usize) {
            Some(row) => row.newer = at,
            None => self.oldest = at,
        }
        self.newest = at;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Copy, Debug)]
    enum Do {
        Insert(u64),
        Touch(u64),
        Remove(u64),
    }

    fn steps() -> impl Strategy<Value = Vec<Do>> {
        let key = 0..12_u64;
        let one = prop_oneof![
            3 => key.clone().prop_map(Do::Insert),
            1 => key.clone().prop_map(Do::Touch),
            1 => key.prop_map(Do::Remove),
        ];
        prop::collection::vec(one, 0..200)
    }

    proptest! {
        /// Beside a list that is searched: the same rows, the same that leaves, the same memory throughout.
        #[test]
        fn rows_are_a_short_list_found_fast(steps in steps(), size in 2..9_u64) {
            let mut rows = Rows::new(size);
            let memory = rows.memory();
            let mut model: Vec<u64> = Vec::new();
            for step in steps {
                match step {
                    Do::Insert(key) if model.contains(&key) => {
                        prop_assert_eq!(rows.get(key), Some(&(key * 2)));
                    }
                    Do::Insert(key) => {
                        let full = model.len() as u64 == size;
                        let left = full.then(|| model.remove(0));
                        model.push(key);
                        prop_assert_eq!(rows.insert(key, key * 2), left.map(|key| (key, key * 2)));
                    }
                    Do::Touch(key) => {
                        rows.touch(key);
                        if let Some(at) = model.iter().position(|one| *one == key) {
                            model.remove(at);
                            model.push(key);
                        }
                    }
                    Do::Remove(key) => {
                        let at = model.iter().position(|one| *one == key);
                        prop_assert_eq!(rows.remove(key), at.map(|at| model.remove(at) * 2));
                    }
                }
                prop_assert_eq!(rows.oldest().map(|(key, _)| key), model.first().copied());
                for key in 0..12 {
                    prop_assert_eq!(rows.get(key).is_some(), model.contains(&key));
                }
                prop_assert_eq!(rows.memory(), memory);
            }
        }
    }
}
