//! Group commit of changes to the segment table.
//!
//! Entries get tickets in the order in which they are queued. One batch is on its way at a
//! time; while it is, new entries gather for the next. A batch is one durable write of whole
//! pages. [`Journal::durable`] is the ticket up to which everything survives a crash.
//!
//! Most entries can wait (trusting slots, opening segments). Some are waited for: before the
//! origin is written the old copy must be durably distrusted, and before a segment is written
//! over it must be durably freed. Those make the commit urgent.

use crate::guard::{Guard, holds};
use crate::limits::{JOURNAL_BATCH_PAGES_MAX, JOURNAL_EAGER_ENTRIES, PASSED_ENTRIES_MAX};
use crate::ports::{Ports, Tag};
use flash_format::{Geometry, JOURNAL_ENTRIES_PER_PAGE, JournalEntry, JournalPage, SegmentIndex};
use std::collections::VecDeque;
use std::slice::Chunks;
use units::{Duration, Instant};

/// Position of an entry in the order of all entries since the cache was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(u64);

/// An entry and, for entries about slots, the generation of their segment when it was queued.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queued {
    pub(crate) entry: JournalEntry,
    pub(crate) generation: u64,
}

/// A batch that is ready to be written.
pub(crate) struct Batch {
    pub(crate) first_sequence: u64,
    /// How many pages it has.
    pub(crate) pages: usize,
}

struct InFlight {
    first_sequence: u64,
    entries: Vec<Queued>,
}

impl InFlight {
    fn pages(&self) -> Chunks<'_, Queued> {
        self.entries.chunks(JOURNAL_ENTRIES_PER_PAGE)
    }
}

/// The journal's queue and its place in the ring.
pub struct Journal {
    ring_pages: u64,
    checkpoint_due: u64,
    /// How long entries that can wait do so.
    delay: Duration,
    next_sequence: u64,
    /// First page that a recovery would replay.
    replay_from: u64,
    queue: VecDeque<Queued>,
    queued: Ticket,
    durable: Ticket,
    urgent: bool,
    waiting_since: Option<Instant>,
    in_flight: Option<InFlight>,
}

impl Journal {
    /// A journal with nothing to replay, whose next page is `next_sequence`. Entries that can wait do so
    /// for `delay`.
    pub(crate) fn new(geometry: &Geometry, delay: Duration, next_sequence: u64) -> Self {
        Self {
            ring_pages: geometry.journal_pages(),
            checkpoint_due: geometry.checkpoint_due(),
            delay,
            next_sequence,
            replay_from: next_sequence,
            queue: VecDeque::new(),
            queued: Ticket(0),
            durable: Ticket(0),
            urgent: false,
            waiting_since: None,
            in_flight: None,
        }
    }

    /// Queues an entry; its ticket becomes durable in order. Runs of neighbouring slots that are
    /// queued one after the other become one entry.
    pub(crate) fn push(&mut self, entry: JournalEntry, generation: u64, now: Instant) -> Ticket {
        if let Some(last) = self.queue.back_mut()
            && last.generation == generation
            && extend(&mut last.entry, entry)
        {
            return self.queued;
        }
        self.queue.push_back(Queued { entry, generation });
        self.waiting_since.get_or_insert(now);
        self.queued = Ticket(self.queued.0 + 1);
        self.queued
    }

    /// Queues an entry, and asks to be looked at when it has waited long enough.
    pub(crate) fn queue<T: Tag>(
        &mut self,
        ports: &mut Ports<T>,
        entry: JournalEntry,
        generation: u64,
    ) -> Ticket {
        ports.wake_at(ports.now() + self.delay);
        self.push(entry, generation, ports.now())
    }

    /// Queues the entry that frees a segment. It waits for others, or for a hurry.
    pub(crate) fn free(&mut self, segment: SegmentIndex, generation: u64, now: Instant) -> Ticket {
        let entry = JournalEntry::Free {
            segment,
            generation,
        };
        self.push(entry, generation, now)
    }

    /// Asks for everything queued to be committed as soon as may be.
    pub fn hurry(&mut self) {
        self.urgent |= !self.queue.is_empty();
    }

    /// Somebody goes on before what it has queued is durable. False if too much is queued by now.
    pub fn pass(&mut self) -> bool {
        self.hurry();
        self.queue.len() <= PASSED_ENTRIES_MAX
    }

    /// The ticket of the entry queued last.
    pub fn last(&self) -> Ticket {
        self.queued
    }

    /// Everything up to this ticket survives a crash.
    #[inline]
    pub(crate) fn durable(&self) -> Ticket {
        self.durable
    }

    /// Entries that are not durable yet, the latest first.
    pub(crate) fn pending(&self) -> impl Iterator<Item = &Queued> {
        let in_flight = self.in_flight.iter().flat_map(|batch| &batch.entries);
        self.queue.iter().rev().chain(in_flight.rev())
    }

    /// Whether everything up to this ticket survives a crash.
    pub fn is_durable(&self, ticket: Ticket) -> bool {
        self.durable >= ticket
    }

    /// Whether everything that was queued is durable.
    pub fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.in_flight.is_none()
    }

    /// When entries that can wait have waited long enough.
    #[inline]
    pub(crate) fn due(&self) -> Option<Instant> {
        self.waiting_since.map(|since| since + self.delay)
    }

    pub(crate) fn next_sequence(&self) -> u64 {
        self.next_sequence
    }

    /// The first page that may not be durable.
    pub(crate) fn durable_end(&self) -> u64 {
        let in_flight = self.in_flight.as_ref();
        in_flight.map_or(self.next_sequence, |batch| batch.first_sequence)
    }

    /// Where a checkpoint that starts now must be replayed from: the first page whose entries
    /// may not be durable yet.
    pub(crate) fn checkpoint_start(&self) -> u64 {
        let in_flight = self.in_flight.as_ref();
        let in_flight = in_flight.filter(|_| holds(Guard::CheckpointStart));
        in_flight.map_or(self.next_sequence, |batch| batch.first_sequence)
    }

    /// A checkpoint is complete: pages before `sequence` may be written over.
    pub(crate) fn truncate(&mut self, sequence: u64) {
        assert!(
            sequence >= self.replay_from && sequence <= self.next_sequence,
            "a checkpoint moves forward"
        );
        self.replay_from = sequence;
    }

    /// Whether so much of the ring is in use that a checkpoint should start.
    #[inline]
    pub(crate) fn wants_checkpoint(&self) -> bool {
        self.next_sequence - self.replay_from > self.checkpoint_due
    }

    /// Whether something is committed now if the ring has room.
    #[inline]
    pub(crate) fn goes(&self, now: Instant) -> bool {
        if self.queue.is_empty() || self.in_flight.is_some() {
            return false;
        }
        let is_due = self.due().is_some_and(|due| now >= due);
        self.urgent || is_due || self.queue.len() >= JOURNAL_EAGER_ENTRIES
    }

    /// The next batch, if there is something to commit, no batch is on its way, and the ring
    /// has room.
    pub(crate) fn start_batch(&mut self, now: Instant) -> Option<Batch> {
        if !self.goes(now) {
            return None;
        }
        let room = self.ring_pages - (self.next_sequence - self.replay_from);
        let to_ring_end = self.ring_pages - self.next_sequence % self.ring_pages;
        let pages_max = room.min(to_ring_end).min(JOURNAL_BATCH_PAGES_MAX);
        let entries_max =
            usize::try_from(pages_max).expect("at most 64") * JOURNAL_ENTRIES_PER_PAGE;
        let taken = self.queue.len().min(entries_max);
        if taken == 0 {
            return None;
        }
        let entries: Vec<Queued> = self.queue.drain(..taken).collect();
        let first_sequence = self.next_sequence;
        let batch = InFlight {
            first_sequence,
            entries,
        };
        let pages = batch.pages().len();
        self.next_sequence += pages as u64;
        self.in_flight = Some(batch);
        if self.queue.is_empty() {
            self.urgent = false;
            self.waiting_since = None;
        }
        Some(Batch {
            first_sequence,
            pages,
        })
    }

    /// The pages of the batch on its way.
    pub(crate) fn pages(&self) -> impl Iterator<Item = JournalPage> {
        self.in_flight.iter().flat_map(|batch| {
            let first = batch.first_sequence;
            (first..)
                .zip(batch.pages())
                .map(move |(sequence, entries)| JournalPage {
                    sequence,
                    batch: first,
                    entries: entries.iter().map(|queued| queued.entry).collect(),
                })
        })
    }

    /// The batch on its way is durable; its entries, in order.
    pub(crate) fn batch_durable(&mut self) -> Vec<Queued> {
        let batch = self.in_flight.take().expect("a batch was on its way");
        self.durable = Ticket(self.durable.0 + batch.entries.len() as u64);
        batch.entries
    }
}

/// Makes `entry` cover `next` too, if they do the same to neighbouring slots.
fn extend(entry: &mut JournalEntry, next: JournalEntry) -> bool {
    let (first, count, more, length) = match (entry, next) {
        (
            JournalEntry::Trust { first, count },
            JournalEntry::Trust {
                first: more,
                count: length,
            },
        )
        | (
            JournalEntry::Distrust { first, count },
            JournalEntry::Distrust {
                first: more,
                count: length,
            },
        ) => (*first, count, more, length),
        _ => return false,
    };
    let follows = first.advance(*count) == more;
    if follows {
        *count += length;
    }
    follows
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::{Bytes, FlashSlot};

    fn journal() -> Journal {
        let geometry = Geometry::new(Bytes::mib(16), Bytes::kib(256)).unwrap();
        Journal::new(&geometry, DELAY, 10)
    }

    fn free(n: u32) -> JournalEntry {
        JournalEntry::Free {
            segment: SegmentIndex::new(n),
            generation: 1,
        }
    }

    const DELAY: Duration = Duration::from_secs(1);

    #[test]
    fn entries_that_can_wait_wait() {
        let mut journal = journal();
        let now = Instant::ZERO;
        journal.push(free(1), 1, now);
        assert!(journal.start_batch(now).is_none());
        assert!(journal.start_batch(now + DELAY).is_some());
    }

    #[test]
    fn a_ticket_is_durable_when_its_batch_is() {
        let mut journal = journal();
        let now = Instant::ZERO;
        let first = journal.push(free(1), 1, now);
        journal.hurry();
        let batch = journal.start_batch(now).unwrap();
        assert_eq!((batch.first_sequence, batch.pages), (10, 1));
        let second = journal.push(free(2), 1, now);
        journal.hurry();
        assert!(journal.start_batch(now).is_none(), "one batch at a time");
        assert!(journal.durable() < first);
        journal.batch_durable();
        assert!(journal.durable() >= first && journal.durable() < second);
        assert!(journal.start_batch(now).is_some());
    }

    #[test]
    fn a_full_ring_waits_for_a_checkpoint() {
        let mut journal = journal();
        let now = Instant::ZERO;
        for round in 0..journal.ring_pages {
            journal.push(free(u32::try_from(round).unwrap()), 1, now);
            journal.hurry();
            journal.start_batch(now).unwrap();
            journal.batch_durable();
        }
        assert!(journal.wants_checkpoint());
        journal.push(free(0), 1, now);
        journal.hurry();
        assert!(journal.start_batch(now).is_none());
        journal.truncate(journal.next_sequence());
        assert!(journal.start_batch(now).is_some());
    }

    #[test]
    fn neighbouring_slots_share_an_entry() {
        let mut journal = journal();
        let now = Instant::ZERO;
        let slot = FlashSlot::new(100);
        let first = journal.push(
            JournalEntry::Distrust {
                first: slot,
                count: 1,
            },
            1,
            now,
        );
        assert_eq!(
            journal.push(
                JournalEntry::Distrust {
                    first: slot.advance(1),
                    count: 1
                },
                1,
                now
            ),
            first
        );
        assert!(
            journal.push(
                JournalEntry::Trust {
                    first: slot.advance(2),
                    count: 1
                },
                1,
                now
            ) > first
        );
        assert!(
            journal.push(
                JournalEntry::Trust {
                    first: slot.advance(3),
                    count: 1
                },
                2,
                now
            ) > first
        );
        journal.hurry();
        assert_eq!(journal.start_batch(now).unwrap().pages, 1);
        assert_eq!(journal.pages().next().unwrap().entries.len(), 3);
    }
}
