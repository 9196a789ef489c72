//! Changes that the server has acknowledged and may still forget.
//!
//! A server may keep writes in volatile memory until a flush. If it crashes and comes back,
//! they are gone, and a flush sent to the new one would vouch for writes that it never saw.
//! So each change stays here until a flush that was sent after its acknowledgement succeeds,
//! and a reconnect repeats what is here before anything else.
//!
//! ```text
//!   acknowledged ──► record ──┬── flush sent later succeeded ──► gone
//!                             ├── newer change over it ────────► carved
//!                             └── connection lost ─────────────► repeated, and kept
//! ```
//!
//! Invariant: the recorded ranges are disjoint; of two changes to a byte the newer one is
//! kept. Hence repeating them needs no order, and can never bring an older byte back over one
//! that was acknowledged later.

use crate::limits;
use block_io::{BufPool, PAGE_BYTES, Slice};
use std::collections::BTreeMap;

/// What a change did to its range.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Write(Slice),
    Zeroes { may_unmap: bool },
    Discard,
}

#[derive(Debug)]
struct Entry {
    end: u64,
    change: Change,
    /// The count of flushes sent when it was acknowledged.
    era: u64,
}

/// The changes, by the offset at which they begin.
#[derive(Debug, Default)]
pub(crate) struct Unstable {
    entries: BTreeMap<u64, Entry>,
    bytes: usize,
    era: u64,
}

impl Change {
    /// Bytes of memory that it keeps.
    fn bytes(&self) -> usize {
        match self {
            Self::Write(data) => data.len(),
            Self::Zeroes { .. } | Self::Discard => 0,
        }
    }

    /// The part of it that begins `skip` bytes in and is `length` bytes long.
    fn part(&self, skip: u64, length: u64) -> Self {
        match self {
            Self::Write(data) => {
                let index = |n| usize::try_from(n).expect("a part of a slice fits in memory");
                Self::Write(data.slice(index(skip)..index(skip + length)))
            }
            other => other.clone(),
        }
    }

    /// Data of its `length` bytes from `at`, if it has data.
    pub(crate) fn payload(&self, at: u64, length: u32) -> Option<Slice> {
        match self.part(at, u64::from(length)) {
            Self::Write(data) => Some(data),
            Self::Zeroes { .. } | Self::Discard => None,
        }
    }

    /// The same without keeping a large buffer for a small part of it.
    pub(crate) fn compact(self, pool: &BufPool) -> Self {
        match self {
            Self::Write(data) if data.pinned_bytes() > 2 * data.len().max(PAGE_BYTES) => {
                Self::Write(pool.copy_of(&data))
            }
            other => other,
        }
    }
}

impl Unstable {
    /// Notes that a change of `[offset, end)` was acknowledged.
    pub(crate) fn record(&mut self, offset: u64, end: u64, change: Change) {
        assert!(offset < end, "a change has a range");
        self.carve(offset, end);
        self.bytes += change.bytes();
        let era = self.era;
        self.entries.insert(offset, Entry { end, change, era });
    }

    /// Forgets what was recorded of `[offset, end)`, because something durable replaced it.
    pub(crate) fn carve(&mut self, offset: u64, end: u64) {
        let before = self.entries.range(..offset).next_back();
        let first = match before {
            Some((start, entry)) if entry.end > offset => *start,
            _ => offset,
        };
        let hit: Vec<u64> = self.entries.range(first..end).map(|(s, _)| *s).collect();
        for start in hit {
            let Some(entry) = self.entries.remove(&start) else {
                continue;
            };
            self.bytes -= entry.change.bytes();
            if start < offset {
                self.keep(&entry, start, start, offset);
            }
            if entry.end > end {
                self.keep(&entry, start, end, entry.end);
            }
        }
    }

    /// Puts the part `[from, to)` of an entry that began at `start` back.
    fn keep(&mut self, entry: &Entry, start: u64, from: u64, to: u64) {
        let change = entry.change.part(from - start, to - from);
        self.bytes += change.bytes();
        let kept = Entry {
            end: to,
            change,
            era: entry.era,
        };
        self.entries.insert(from, kept);
    }

    /// Says that a flush is sent now; its success vouches for everything recorded so far.
    pub(crate) fn flush_sent(&mut self) -> u64 {
        self.era += 1;
        self.era
    }

    /// Says that the flush of [`Unstable::flush_sent`] succeeded.
    pub(crate) fn flushed(&mut self, mark: u64) {
        self.entries.retain(|_, entry| entry.era >= mark);
        let kept = self.entries.values();
        self.bytes = kept.map(|entry| entry.change.bytes()).sum();
    }

    /// Whether it is time to flush on our own.
    pub(crate) fn wants_flush(&self) -> bool {
        self.bytes >= limits::UNSTABLE_BYTES_SOFT
            || self.entries.len() >= limits::UNSTABLE_COUNT_SOFT
    }

    /// Whether further changes have to wait.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes >= limits::UNSTABLE_BYTES_HARD
            || self.entries.len() >= limits::UNSTABLE_COUNT_HARD
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Begin, end and change of each entry.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, u64, &Change)> {
        let entries = self.entries.iter();
        entries.map(|(start, entry)| (*start, entry.end, &entry.change))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Prng;

    /// What would be repeated, byte by byte.
    fn repeated(unstable: &Unstable, size: usize) -> Vec<Option<u8>> {
        let mut bytes = vec![None; size];
        for (start, end, change) in unstable.iter() {
            for at in start..end {
                let index = usize::try_from(at).unwrap();
                assert_eq!(bytes[index], None, "ranges are disjoint");
                bytes[index] = Some(match change {
                    Change::Write(data) => data[usize::try_from(at - start).unwrap()],
                    Change::Zeroes { .. } | Change::Discard => 0,
                });
            }
        }
        bytes
    }

    #[test]
    fn the_newest_change_of_a_byte_is_the_one_that_is_repeated() {
        const SIZE: usize = 64;
        let pool = BufPool::new();
        for seed in 0..200 {
            let mut dice = Prng::new(seed);
            let mut unstable = Unstable::default();
            let mut model: Vec<Option<(u8, u64)>> = vec![None; SIZE];
            let (mut sent, mut marks) = (0, Vec::new());
            for _ in 0..60 {
                let start = dice.below(SIZE as u64 - 1);
                let end = start + 1 + dice.below(SIZE as u64 - start - 1);
                let range = usize::try_from(start).unwrap()..usize::try_from(end).unwrap();
                match dice.below(6) {
                    0 => {
                        unstable.carve(start, end);
                        model[range].fill(None);
                    }
                    1 => {
                        unstable.record(start, end, Change::Zeroes { may_unmap: true });
                        model[range].fill(Some((0, sent)));
                    }
                    2 => {
                        marks.push(unstable.flush_sent());
                        sent += 1;
                    }
                    3 if !marks.is_empty() => {
                        let mark = marks.remove(0);
                        unstable.flushed(mark);
                        for byte in &mut model {
                            *byte = byte.filter(|(_, era)| *era >= mark);
                        }
                    }
                    _ => {
                        let mut data = vec![0; range.len()];
                        dice.fill(&mut data);
                        let change = Change::Write(pool.copy_of(&data));
                        unstable.record(start, end, change);
                        for (byte, new) in model[range].iter_mut().zip(data) {
                            *byte = Some((new, sent));
                        }
                    }
                }
                let expected: Vec<_> = model.iter().map(|b| b.map(|(byte, _)| byte)).collect();
                assert_eq!(repeated(&unstable, SIZE), expected, "seed {seed}");
                let bytes: usize = unstable.iter().map(|(_, _, c)| c.bytes()).sum();
                assert_eq!(unstable.bytes, bytes);
            }
        }
    }

    #[test]
    fn a_flush_vouches_only_for_what_was_acknowledged_before_it_was_sent() {
        let mut unstable = Unstable::default();
        unstable.record(0, 10, Change::Discard);
        let mark = unstable.flush_sent();
        unstable.record(20, 30, Change::Discard);
        unstable.flushed(mark);
        let left: Vec<_> = unstable
            .iter()
            .map(|(start, end, _)| (start, end))
            .collect();
        assert_eq!(left, [(20, 30)]);
    }

    #[test]
    fn many_changes_ask_for_a_flush_and_then_hold_back() {
        let mut unstable = Unstable::default();
        for n in 0..limits::UNSTABLE_COUNT_HARD as u64 {
            assert!(!unstable.is_full());
            unstable.record(n * 512, (n + 1) * 512, Change::Discard);
            let many = n + 1 >= limits::UNSTABLE_COUNT_SOFT as u64;
            assert_eq!(unstable.wants_flush(), many);
        }
        assert!(unstable.is_full());
    }
}
