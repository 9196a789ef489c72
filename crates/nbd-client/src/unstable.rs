//! What the server may still forget.
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
//!
//!   failed ────────► doubt ───┬── a read of it succeeded ──────► what it saw is recorded
//!                             └── flush, newer change ─────────► gone, as above
//! ```
//!
//! # Changes that failed
//! A change that failed, or ran out of time and can happen no more, has left each sector old or
//! new. What is recorded of older changes there stays: they were acknowledged, and must not get
//! lost. But if somebody has seen the newer bytes, a repetition of the older ones would take
//! them back, and copies of them would be wrong. Therefore the range is in *doubt*: what a read
//! finds there is recorded before the reader gets it, as if it had been written then. So a
//! repetition restores what was seen, and where nothing was seen, what was acknowledged.
//! Neither the server's failure nor ours makes a sector change its mind. What former sessions have left
//! (`late.rs`) is in doubt, too, when it is over. The reader is told that no flush vouches for such
//! bytes: a copy of them may outlive this memory.
//! A flush vouches for what was carried out of a failed change as for the rest of the server's
//! memory. Only if a flush failed meanwhile the server may have given that up: such a doubt is *sour*,
//! no flush ends it, and what is seen there is written again, by a repetition.
//!
//! Invariant: the recorded ranges are disjoint; of two changes to a byte the newer one is
//! kept. Hence repeating them needs no order, and can never bring an older byte back over one
//! that was acknowledged later.

use crate::extents::{Extents, Part};
use crate::guard::{Guard, holds};
use crate::limits;
use block_io::{BufPool, PAGE_BYTES, Slice};

/// What a change did to its range.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Write(Slice),
    Zeroes { may_unmap: bool },
    Discard,
}

#[derive(Debug)]
struct Entry {
    change: Change,
    /// The count of flushes sent when it was acknowledged.
    era: u64,
}

impl Part for Entry {
    fn part(&self, skip: u64, length: u64) -> Self {
        Self {
            change: self.change.part(skip, length),
            era: self.era,
        }
    }

    fn bytes(&self) -> usize {
        self.change.bytes()
    }
}

/// The count of flushes sent when a change had failed; [`Doubt::SOUR`] if a flush has failed since it
/// was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Doubt(u64);

impl Doubt {
    const SOUR: Self = Self(u64::MAX);
}

impl Part for Doubt {
    fn part(&self, _: u64, _: u64) -> Self {
        *self
    }

    fn bytes(&self) -> usize {
        0
    }
}

/// The changes that may be forgotten, and the ranges in doubt.
#[derive(Debug, Default)]
pub(crate) struct Unstable {
    changes: Extents<Entry>,
    doubts: Extents<Doubt>,
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
        let era = self.era;
        self.changes.put(offset, end, Entry { change, era });
        self.doubts.carve(offset, end);
    }

    /// Forgets what was recorded of `[offset, end)`, because something durable replaced it.
    pub(crate) fn carve(&mut self, offset: u64, end: u64) {
        if holds(Guard::DurableReplacesUnstable) {
            self.changes.carve(offset, end);
        }
        self.doubts.carve(offset, end);
    }

    /// Notes that a change of `[offset, end)` has failed, and can happen no more. It is `sour` if a
    /// flush has failed since it was sent.
    pub(crate) fn doubt(&mut self, offset: u64, end: u64, sour: bool) {
        if !holds(Guard::FailedLeavesDoubt) {
            return;
        }
        let doubt = if sour { Doubt::SOUR } else { Doubt(self.era) };
        let before = self.doubts_of(offset, end);
        self.doubts.put(offset, end, doubt);
        // What was sour stays so: this change may not have touched it.
        for (start, stop, older) in before {
            self.doubts.put(start, stop, older.max(doubt));
        }
        if self.doubts.len() > limits::DOUBTS_MAX {
            self.doubt_all();
        }
    }

    /// Makes one doubt of all, over what lies between them too: more than enough is remembered there.
    fn doubt_all(&mut self) {
        let begin = self.doubts.iter().map(|(start, ..)| start).min();
        let end = self.doubts.iter().map(|(_, end, _)| end).max();
        let worst = self.doubts.iter().map(|(.., doubt)| *doubt).max();
        if let (Some(begin), Some(end), Some(worst)) = (begin, end, worst) {
            self.doubts.put(begin, end, worst);
        }
    }

    /// Notes that a flush has failed: the server may have given up what it could not write, and the
    /// next flush does not know.
    pub(crate) fn flush_failed(&mut self) {
        for (start, end, _) in self.doubts_of(0, u64::MAX) {
            self.doubts.put(start, end, Doubt::SOUR);
        }
    }

    /// The doubts within `[offset, end)`.
    fn doubts_of(&self, offset: u64, end: u64) -> Vec<(u64, u64, Doubt)> {
        let hits = self.doubts.hits(offset, end);
        let clipped = hits.map(|(start, stop, doubt)| (start.max(offset), stop.min(end), *doubt));
        clipped.collect()
    }

    /// Whether what is read of `[offset, end)` has to be [recorded](Unstable::seen).
    pub(crate) fn is_in_doubt(&self, offset: u64, end: u64) -> bool {
        self.doubts.hits(offset, end).next().is_some()
    }

    /// Notes what a reader is about to get of the bytes from `offset` on. True if it has to be
    /// repeated before a flush can vouch for it.
    pub(crate) fn seen(&mut self, offset: u64, bytes: &[u8], pool: &BufPool) -> bool {
        let end = offset + bytes.len() as u64;
        let hits = self.doubts_of(offset, end);
        let index = |at: u64| usize::try_from(at - offset).expect("an index of the bytes");
        for (start, stop, _) in &hits {
            let (start, stop) = (*start, *stop);
            let seen = pool.copy_of(&bytes[index(start)..index(stop)]);
            self.record(start, stop, Change::Write(seen));
        }
        hits.iter().any(|(.., doubt)| *doubt == Doubt::SOUR)
    }

    /// Says that a flush is sent now; its success vouches for everything recorded so far.
    pub(crate) fn flush_sent(&mut self) -> u64 {
        self.era += 1;
        self.era
    }

    /// Says that the flush of [`Unstable::flush_sent`] succeeded.
    pub(crate) fn flushed(&mut self, mark: u64) {
        let mark = if holds(Guard::FlushVouchesForEarlier) {
            mark
        } else {
            u64::MAX
        };
        self.changes.retain(|entry| entry.era >= mark);
        self.doubts.retain(|doubt| doubt.0 >= mark);
    }

    /// Whether it is time to flush on our own.
    pub(crate) fn wants_flush(&self) -> bool {
        self.changes.bytes() >= limits::UNSTABLE_BYTES_SOFT
            || self.changes.len() >= limits::UNSTABLE_COUNT_SOFT
    }

    /// Whether further changes have to wait.
    pub(crate) fn is_full(&self) -> bool {
        self.changes.bytes() >= limits::UNSTABLE_BYTES_HARD
            || self.changes.len() >= limits::UNSTABLE_COUNT_HARD
    }

    /// Whether nothing is to be repeated.
    pub(crate) fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Begin, end and change of each entry.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, u64, &Change)> {
        let entries = self.changes.iter();
        entries.map(|(start, end, entry)| (start, end, &entry.change))
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
                assert_eq!(unstable.changes.bytes(), bytes);
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
