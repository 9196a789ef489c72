//! Values of disjoint ranges: what is put later replaces what it covers, byte by byte.

use std::collections::BTreeMap;

/// A value of a range, of which a part can be kept.
pub(crate) trait Part {
    /// The value of the part that begins `skip` bytes in and is `length` bytes long.
    fn part(&self, skip: u64, length: u64) -> Self;

    /// Bytes of memory that it keeps.
    fn bytes(&self) -> usize;
}

/// Values of disjoint ranges, by the offset at which they begin.
#[derive(Debug)]
pub(crate) struct Extents<T> {
    entries: BTreeMap<u64, (u64, T)>,
    bytes: usize,
}

impl<T> Default for Extents<T> {
    fn default() -> Self {
        Self {
            entries: BTreeMap::new(),
            bytes: 0,
        }
    }
}

impl<T: Part> Extents<T> {
    /// Gives `[offset, end)` a value, in place of those that it had.
    pub(crate) fn put(&mut self, offset: u64, end: u64, value: T) {
        assert!(offset < end, "a value has a range");
        self.carve(offset, end);
        self.bytes += value.bytes();
        self.entries.insert(offset, (end, value));
    }

    /// Takes the values of `[offset, end)` away.
    pub(crate) fn carve(&mut self, offset: u64, end: u64) {
        let hit: Vec<u64> = self.hits(offset, end).map(|(start, ..)| start).collect();
        for start in hit {
            let Some((stop, value)) = self.entries.remove(&start) else {
                continue;
            };
            self.bytes -= value.bytes();
            if start < offset {
                self.keep(&value, start, start, offset);
            }
            if stop > end {
                self.keep(&value, start, end, stop);
            }
        }
    }

    /// Puts the part `[from, to)` of a value that began at `start` back.
    fn keep(&mut self, value: &T, start: u64, from: u64, to: u64) {
        let part = value.part(from - start, to - from);
        self.bytes += part.bytes();
        self.entries.insert(from, (to, part));
    }

    /// Begin, end and value of those that have something in common with `[offset, end)`.
    pub(crate) fn hits(&self, offset: u64, end: u64) -> impl Iterator<Item = (u64, u64, &T)> {
        let before = self.entries.range(..offset).next_back();
        let first = match before {
            Some((start, (stop, _))) if *stop > offset => *start,
            _ => offset,
        };
        let hits = self.entries.range(first..end);
        hits.map(|(start, (stop, value))| (*start, *stop, value))
    }

    /// Keeps the values for which this holds.
    pub(crate) fn retain(&mut self, mut keeps: impl FnMut(&T) -> bool) {
        self.entries.retain(|_, (_, value)| keeps(value));
        let kept = self.entries.values();
        self.bytes = kept.map(|(_, value)| value.bytes()).sum();
    }

    /// Begin, end and value of each.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, u64, &T)> {
        let entries = self.entries.iter();
        entries.map(|(start, (end, value))| (*start, *end, value))
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Bytes of memory that the values keep.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}
