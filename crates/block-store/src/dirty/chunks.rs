//! The chunks of a dirty log: how far each has come, and so how far the log would survive a power cut.

use crate::limits::DURABLE_WRITES_MAX;
use dirty_log::RecordNumber;
use flash_format::Position;
use std::collections::VecDeque;

/// How far a chunk has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// On its way; it is durable when it has come, or not.
    Writing { durable: bool },
    /// On flash, but a power cut may take it.
    Written,
    /// It stays.
    Durable,
}

#[derive(Clone, Copy, Debug)]
struct LogChunk {
    /// The number behind its last record.
    end: RecordNumber,
    last: Position,
    state: State,
}

/// The chunk that is gathered.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenChunk {
    /// Its place in retained memory.
    pub(super) place: u32,
    /// The record before its first one.
    pub(super) follows: Position,
    pub(super) begins_interval: bool,
    /// A flush waits for it: it ends an interval, and is written durably.
    pub(super) wanted: bool,
}

/// The chunks of a log that are not known to be durable, oldest first.
#[derive(Debug, Default)]
pub(super) struct Chunks {
    sealed: VecDeque<LogChunk>,
    open: Option<OpenChunk>,
    /// Everything before this number is durable ...
    durable: RecordNumber,
    /// ... which is up to here.
    durable_at: Position,
    /// Everything before this number is to become durable.
    wanted: RecordNumber,
    /// A flush of the flash is on its way; it covers chunks before this number.
    flushing: Option<RecordNumber>,
}

impl Chunks {
    /// Another record was found on flash: whether it is durable there is not known.
    pub(super) fn found(&mut self, end: RecordNumber, last: Position) {
        let state = State::Written;
        self.sealed.clear();
        self.sealed.push_back(LogChunk { end, last, state });
    }

    /// The chunk that is gathered, if there is one.
    pub(super) fn open(&self) -> Option<OpenChunk> {
        self.open
    }

    /// A chunk is gathered from now on.
    pub(super) fn begin(&mut self, chunk: OpenChunk) {
        self.open = Some(chunk);
    }

    /// The chunk that was gathered is on its way, durably if a flush waits for it; `end` is behind its
    /// last record, which is at `last`.
    ///
    /// # Panics
    /// If there is none.
    pub(super) fn seal(&mut self, end: RecordNumber, last: Position) -> OpenChunk {
        let open = self.open.take().expect("what is sealed was open");
        let state = State::Writing {
            durable: open.wanted,
        };
        self.sealed.push_back(LogChunk { end, last, state });
        open
    }

    /// The chunk that ends here has been written.
    ///
    /// # Panics
    /// If it was written before, or was never sealed.
    pub(super) fn written(&mut self, end: RecordNumber) {
        let chunk = self.sealed.iter_mut().find(|chunk| chunk.end == end);
        let chunk = chunk.expect("a chunk that was written was sealed");
        chunk.state = match chunk.state {
            State::Writing { durable: true } => State::Durable,
            State::Writing { durable: false } => State::Written,
            State::Written | State::Durable => panic!("a chunk is written once"),
        };
    }

    /// Records before this number survive a power cut.
    pub(super) fn durable(&self) -> RecordNumber {
        self.durable
    }

    /// Where the last record is that survives a power cut.
    pub(super) fn durable_at(&self) -> Position {
        self.durable_at
    }

    /// Records before this number are on flash, durably or not.
    pub(super) fn written_end(&self) -> RecordNumber {
        let is_written = |chunk: &&LogChunk| !matches!(chunk.state, State::Writing { .. });
        let written = self.sealed.iter().take_while(is_written);
        written.last().map_or(self.durable, |chunk| chunk.end)
    }

    /// Whether a flush waits for records that are not durable.
    pub(super) fn wants_durability(&self) -> bool {
        self.durable < self.wanted
    }

    /// Everything before `end` is to become durable. True if the chunk that is gathered will end the
    /// interval: what comes into it until it is sealed was accepted before the flush is answered.
    pub(super) fn flush(&mut self, end: RecordNumber) -> bool {
        self.wanted = end;
        if let Some(open) = &mut self.open {
            open.wanted = true;
        }
        self.open.is_some()
    }

    /// Whether a flush has to be waited for until everything before `to` may be durable.
    pub(super) fn needs_flush(&self, to: RecordNumber) -> bool {
        to > self.sealed_end() && self.wanted < to
    }

    /// Everything before `to`, but for what is in the open chunk, is to become durable. True if that is
    /// news.
    pub(super) fn want_sealed(&mut self, to: RecordNumber) -> bool {
        let to = to.min(self.sealed_end());
        let is_news = self.wanted < to;
        self.wanted = self.wanted.max(to);
        is_news
    }

    fn sealed_end(&self) -> RecordNumber {
        self.sealed.back().map_or(self.durable, |chunk| chunk.end)
    }

    /// Counts what has become durable, from the oldest chunk on; records from `known` on lie where a
    /// recovery may not look.
    pub(super) fn count_durable(&mut self, known: RecordNumber) {
        while let Some(chunk) = self.sealed.front()
            && chunk.state == State::Durable
            && chunk.end <= known
        {
            self.durable = chunk.end;
            self.durable_at = chunk.last;
            self.sealed.pop_front();
        }
    }

    /// Whether the flash is to be flushed now: chunks are written, none is on its way plainly, and no
    /// flush is. It covers what is written.
    pub(super) fn starts_flush(&mut self) -> bool {
        let plain = |chunk: &LogChunk| chunk.state == State::Writing { durable: false };
        let mut written = self.sealed.iter();
        let written = written.rfind(|chunk| chunk.state == State::Written);
        let starts = self.flushing.is_none() && !self.sealed.iter().any(plain);
        let Some(end) = written.filter(|_| starts).map(|chunk| chunk.end) else {
            return false;
        };
        self.flushing = Some(end);
        true
    }

    /// The flush of the flash has ended.
    pub(super) fn flushed(&mut self) {
        let Some(end) = self.flushing.take() else {
            return;
        };
        for chunk in &mut self.sealed {
            if chunk.end <= end && chunk.state == State::Written {
                chunk.state = State::Durable;
            }
        }
    }

    /// Whether the chunk that is gathered is to be sealed: a flush waits for it, and not too many durable
    /// writes are on their way.
    pub(super) fn is_to_be_sealed(&self) -> bool {
        let durable = |chunk: &&LogChunk| chunk.state == State::Writing { durable: true };
        self.open.is_some_and(|open| open.wanted)
            && self.sealed.iter().filter(durable).count() < DURABLE_WRITES_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEHIND_ALL: RecordNumber = RecordNumber::BEHIND_ALL;

    /// A number with so many before it.
    fn nth(before: u32) -> RecordNumber {
        RecordNumber::FIRST.advance(before.into())
    }

    fn at(page: u32) -> Position {
        Position::of_page(1, page)
    }

    fn begin(chunks: &mut Chunks) {
        chunks.begin(OpenChunk {
            place: 0,
            follows: Position::START,
            begins_interval: false,
            wanted: false,
        });
    }

    /// Seals a chunk with the record before `end`, durably if a flush waits for it.
    fn seal(chunks: &mut Chunks, end: u32, flushed: bool) {
        begin(chunks);
        if flushed {
            assert!(chunks.flush(nth(end)));
        }
        let open = chunks.seal(nth(end), at(end));
        assert_eq!(open.wanted, flushed);
    }

    #[test]
    fn a_chunk_that_a_flush_waits_for_is_durable_when_it_is_written() {
        let mut chunks = Chunks::default();
        seal(&mut chunks, 1, true);
        assert!(chunks.wants_durability());
        chunks.written(nth(1));
        chunks.count_durable(BEHIND_ALL);
        assert_eq!((chunks.durable(), chunks.durable_at()), (nth(1), at(1)));
        assert!(!chunks.wants_durability());
    }

    #[test]
    fn a_flush_of_the_flash_covers_what_was_written_before_it() {
        let mut chunks = Chunks::default();
        seal(&mut chunks, 1, false);
        assert!(!chunks.starts_flush(), "a plain write is on its way");
        chunks.written(nth(1));
        assert!(chunks.starts_flush());
        seal(&mut chunks, 2, false);
        chunks.written(nth(2));
        assert!(!chunks.starts_flush(), "one flush at a time");
        chunks.flushed();
        chunks.count_durable(BEHIND_ALL);
        assert_eq!((chunks.durable(), chunks.written_end()), (nth(1), nth(2)));
        assert!(chunks.starts_flush());
    }

    #[test]
    fn the_chunk_that_gathers_waits_while_two_durable_writes_are_on_their_way() {
        let mut chunks = Chunks::default();
        seal(&mut chunks, 1, true);
        begin(&mut chunks);
        assert!(chunks.flush(nth(2)));
        assert!(chunks.is_to_be_sealed());
        chunks.seal(nth(2), at(2));
        begin(&mut chunks);
        assert!(chunks.flush(nth(3)));
        assert!(!chunks.is_to_be_sealed());
        chunks.written(nth(1));
        assert!(chunks.is_to_be_sealed());
    }

    #[test]
    fn nothing_counts_as_durable_where_a_recovery_may_not_look() {
        let mut chunks = Chunks::default();
        for end in 1..=2 {
            seal(&mut chunks, end, true);
            chunks.written(nth(end));
        }
        chunks.count_durable(nth(1));
        assert_eq!(chunks.durable(), nth(1));
        chunks.count_durable(BEHIND_ALL);
        assert_eq!(chunks.durable(), nth(2));
    }

    #[test]
    fn what_is_wanted_without_a_hurry_is_what_is_sealed() {
        let mut chunks = Chunks::default();
        seal(&mut chunks, 1, false);
        begin(&mut chunks);
        assert!(
            chunks.needs_flush(nth(2)),
            "its record is in the open chunk"
        );
        assert!(chunks.want_sealed(nth(2)));
        assert!(!chunks.want_sealed(nth(2)));
        assert!(!chunks.needs_flush(nth(1)));
    }
}
