//! A set of bytes of a file, as ranges that neither touch nor overlap.

use crate::limits::RANGES_MAX;
use std::collections::BTreeMap;
use std::ops::Range;

/// Bytes of a file. Of more than [`RANGES_MAX`] ranges it takes the gaps in, too.
#[derive(Debug, Default)]
pub(super) struct Ranges {
    /// Begin and end of each.
    ends: BTreeMap<u64, u64>,
}

impl Ranges {
    pub(super) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.ends.clear();
    }

    pub(super) fn insert(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let Range { mut start, mut end } = range;
        while let Some((first, last)) = self.last_before(end.saturating_add(1)) {
            if last < start {
                break;
            }
            self.ends.remove(&first);
            start = start.min(first);
            end = end.max(last);
        }
        self.ends.insert(start, end);
        if self.ends.len() > RANGES_MAX {
            self.take_gaps_in();
        }
    }

    pub(super) fn remove(&mut self, range: &Range<u64>) {
        if range.is_empty() {
            return;
        }
        while let Some((first, last)) = self.last_before(range.end) {
            if last <= range.start {
                break;
            }
            self.ends.remove(&first);
            if last > range.end {
                self.ends.insert(range.end, last);
            }
            if first < range.start {
                self.ends.insert(first, range.start);
            }
        }
    }

    /// Moves all of `other` into this.
    pub(super) fn append(&mut self, other: &mut Self) {
        for (start, end) in std::mem::take(&mut other.ends) {
            self.insert(start..end);
        }
    }

    /// The last range that begins before `end`.
    fn last_before(&self, end: u64) -> Option<(u64, u64)> {
        let (first, last) = self.ends.range(..end).next_back()?;
        Some((*first, *last))
    }

    fn take_gaps_in(&mut self) {
        let first = self.ends.first_key_value().map(|(first, _)| *first);
        let last = self.ends.last_key_value().map(|(_, last)| *last);
        self.ends.clear();
        self.ends.extend(first.zip(last));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use units::Prng;

    fn bytes(ranges: &Ranges) -> BTreeSet<u64> {
        let mut before = None;
        for (start, end) in &ranges.ends {
            assert!(start < end && before.is_none_or(|before| before < *start));
            before = Some(*end);
        }
        let all = ranges.ends.iter();
        all.flat_map(|(start, end)| *start..*end).collect()
    }

    #[test]
    fn ranges_hold_what_a_set_of_bytes_holds() {
        for seed in 0..200 {
            let mut dice = Prng::new(seed);
            let (mut ranges, mut model) = (Ranges::default(), BTreeSet::new());
            for _ in 0..60 {
                let start = dice.below(60);
                let range = start..start + dice.below(12);
                if dice.below(3) == 0 {
                    ranges.remove(&range);
                    model.retain(|byte| !range.contains(byte));
                } else {
                    ranges.insert(range.clone());
                    model.extend(range);
                }
                assert_eq!(bytes(&ranges), model, "seed {seed}");
                assert_eq!(ranges.is_empty(), model.is_empty());
            }
        }
    }

    #[test]
    fn too_many_ranges_become_one_that_covers_them() {
        let mut ranges = Ranges::default();
        for at in 0..=RANGES_MAX as u64 {
            ranges.insert(at * 10..at * 10 + 1);
        }
        assert_eq!(ranges.ends.len(), 1);
        assert_eq!(ranges.last_before(1), Some((0, RANGES_MAX as u64 * 10 + 1)));
    }
}
