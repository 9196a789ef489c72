//! Changes that an origin has given up, and may still carry out: what the contract of `origin` allows.
//!
//! ```text
//!   change ─► given up ─► its error ─────────────► over
//!             may land from here on, each sector once or never
//!                            └ whatever is asked of its range from here on waits ┘
//! ```
//!
//! What was asked before the error goes on beside it. The end of a session makes no difference: the far
//! side goes on, and the host's next session waits for it. Another host knows nothing of it.
//!
//! What has landed is durable when a flush succeeds that was submitted later. The first read of it before
//! that says so; no session says it of what landed before it began.

use crate::verbs::{Piece, pieces_of, range_of};
use block_io::{IoError, OriginDone, OriginVerb, Token};
use std::collections::BTreeMap;
use std::ops::Range;
use units::{Bytes, Duration, Instant, Offset, Prng, SECTOR_BYTES};

/// Given-up changes of one origin.
#[derive(Debug)]
pub(crate) struct Late {
    /// One change in so many is given up; 0 for none.
    rate: u64,
    /// Sectors that landed after the error of their change.
    landed: u64,
    /// Those of them that landed while another host used the origin.
    strange: u64,
    /// Operations that waited for a change that was given up.
    waited: u64,
    dice: Prng,
    /// Those whose error is not told yet: when it is, by which token, and to whom.
    unanswered: BTreeMap<(Instant, Token, Asker), Change>,
    /// Those that may still land.
    unsettled: Vec<Change>,
    /// Operations that wait for them, in the order in which they came.
    behind: Vec<(Asker, Token, OriginVerb)>,
    /// Sectors of changes that are over, by their place: how many flushes had been submitted then.
    /// Nobody has read them since, and no flush vouches for them.
    volatile: BTreeMap<Offset, u64>,
    /// Flushes that were submitted.
    flushes: u64,
}

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Asker {
    /// Which session.
    pub session: u64,
    /// Which host.
    pub host: usize,
}

/// A change that was given up.
#[derive(Debug)]
struct Change {
    host: usize,
    start: Offset,
    end: Offset,
    /// What of it lands at once with its error.
    early: Vec<Piece>,
    /// What of it lands when it is over.
    late: Vec<Piece>,
    over: Instant,
}

impl Late {
    /// Nothing is given up yet.
    pub(crate) fn new(dice: Prng) -> Self {
        Self {
            rate: 0,
            landed: 0,
            strange: 0,
            waited: 0,
            dice,
            unanswered: BTreeMap::new(),
            unsettled: Vec::new(),
            behind: Vec::new(),
            volatile: BTreeMap::new(),
            flushes: 0,
        }
    }

    /// One change in so many is given up from now on; 0 for none.
    pub(crate) fn give_up_one_in(&mut self, count: u64) {
        self.rate = count;
    }

    /// Sectors that have landed after the error of their change, and operations that have waited for
    /// a change that was given up, since this was asked last.
    pub(crate) fn take_counts(&mut self) -> (u64, u64) {
        (
            std::mem::take(&mut self.landed),
            std::mem::take(&mut self.waited),
        )
    }

    /// Sectors of one host's changes that have landed while another one used the origin, since this was
    /// asked last.
    pub(crate) fn take_strange(&mut self) -> u64 {
        std::mem::take(&mut self.strange)
    }

    /// An operation comes. It goes on if it is given back: else it waits, or is given up.
    pub(crate) fn admit(
        &mut self,
        asker: Asker,
        token: Token,
        verb: OriginVerb,
        now: Instant,
    ) -> Option<OriginVerb> {
        if self.must_wait(asker, &verb) {
            self.waited += 1;
            self.behind.push((asker, token, verb));
            return None;
        }
        let Some(pieces) = pieces_of(&verb).filter(|_| self.dice.one_in(self.rate)) else {
            return Some(verb);
        };
        let answered = now + Duration::from_micros(1 + self.dice.below(3_000));
        let after = [300, 30_000, 5_000_000][below(&mut self.dice, 3)];
        let over = answered + Duration::from_micros(1 + self.dice.below(after));
        let change = self.give_up(asker.host, pieces, over);
        self.unanswered.insert((answered, token, asker), change);
        None
    }

    fn give_up(&mut self, host: usize, pieces: Vec<Piece>, over: Instant) -> Change {
        let start = pieces.first().map_or(Offset::ZERO, |piece| piece.offset);
        let end = start + Bytes::new(pieces.len() as u64 * SECTOR_BYTES);
        let (mut early, mut late) = (Vec::new(), Vec::new());
        // All of it comes late, or what the dice say of each sector.
        let whole = self.dice.one_in(2);
        for piece in pieces {
            match self.dice.below(3) {
                _ if whole => late.push(piece),
                0 => late.push(piece),
                1 => early.push(piece),
                _ => {}
            }
        }
        Change {
            host,
            start,
            end,
            early,
            late,
            over,
        }
    }

    /// The errors that one is told now, and what lands.
    pub(crate) fn poll(
        &mut self,
        asker: Asker,
        now: Instant,
        done: &mut Vec<OriginDone>,
    ) -> Vec<Piece> {
        let mut landing = Vec::new();
        let told = self
            .unanswered
            .extract_if(.., |(at, _, of), _| *at <= now && *of == asker);
        for ((_, token, _), mut change) in told.collect::<Vec<_>>() {
            landing.append(&mut change.early);
            self.unsettled.push(change);
            let result = Err([IoError::TimedOut, IoError::Disconnected][below(&mut self.dice, 2)]);
            let buf = None;
            done.push(OriginDone {
                token,
                buf,
                result,
                volatile: false,
                passes: false,
            });
        }
        for mut change in self.unsettled.extract_if(.., |change| change.over <= now) {
            let landed = change.late.len() as u64;
            self.landed += landed;
            if change.host != asker.host {
                self.strange += landed;
            }
            landing.append(&mut change.late);
            let mut place = change.start;
            while place < change.end {
                self.volatile.insert(place, self.flushes);
                place += Bytes::new(SECTOR_BYTES);
            }
        }
        landing
    }

    /// A flush is submitted. Gives its number.
    pub(crate) fn flush_submitted(&mut self) -> u64 {
        self.flushes += 1;
        self.flushes
    }

    /// The flush of this number has succeeded.
    pub(crate) fn flushed(&mut self, number: u64) {
        self.volatile.retain(|_, flushes| *flushes >= number);
    }

    /// A read of this range has ended well: whether it brings what no flush vouches for.
    pub(crate) fn read(&mut self, start: Offset, end: Offset) -> bool {
        let found = self.volatile.extract_if(start..end, |_, _| true);
        found.count() > 0
    }

    /// A session begins.
    pub(crate) fn session_begins(&mut self) {
        self.volatile.clear();
    }

    /// Operations of one that have waited and need not any more.
    pub(crate) fn take_released(&mut self, asker: Asker) -> Vec<(Token, OriginVerb)> {
        let behind = std::mem::take(&mut self.behind);
        let (released, waiting) = behind
            .into_iter()
            .partition::<Vec<_>, _>(|(of, _, verb)| *of == asker && !self.must_wait(asker, verb));
        self.behind = waiting;
        let operation = |(_, token, verb)| (token, verb);
        released.into_iter().map(operation).collect()
    }

    /// Its process has died. The far side goes on with what it has; what waits was never sent.
    pub(crate) fn kill(&mut self, asker: Asker) {
        let ended = self.unanswered.extract_if(.., |(_, _, of), _| *of == asker);
        for (_, mut change) in ended {
            change.late.append(&mut change.early);
            self.unsettled.push(change);
        }
        self.behind.retain(|(of, _, _)| *of != asker);
    }

    /// It is all over: of each change nothing lands any more but what is given back.
    pub(crate) fn settle(&mut self) -> Vec<Piece> {
        let mut landing = Vec::new();
        for change in std::mem::take(&mut self.unsettled) {
            if !self.dice.one_in(3) {
                landing.extend(change.late);
            }
        }
        self.landed += landing.len() as u64;
        landing
    }

    /// What may still land.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = &Piece> {
        let changes = self.unanswered.values().chain(&self.unsettled);
        changes.flat_map(|change| change.early.iter().chain(&change.late))
    }

    /// The ranges below `end` in which nothing that was given up may still land.
    pub(crate) fn settled(&self, end: Offset) -> Vec<Range<Offset>> {
        let mut places: Vec<Offset> = self.pieces().map(|piece| piece.offset).collect();
        places.sort_unstable();
        let mut runs = Vec::new();
        let mut from = Offset::ZERO;
        for place in places {
            if from < place {
                runs.push(from..place);
            }
            from = place + Bytes::new(SECTOR_BYTES);
        }
        if from < end {
            runs.push(from..end);
        }
        runs
    }

    /// When something lands, or one is told something or goes on next.
    pub(crate) fn next_deadline(&self, asker: Asker) -> Option<Instant> {
        let goes_on = |(of, _, verb): &(Asker, Token, OriginVerb)| {
            *of == asker && !self.must_wait(asker, verb)
        };
        if self.behind.iter().any(goes_on) {
            return Some(Instant::ZERO);
        }
        let of_session = self.unanswered.keys().filter(|(_, _, of)| *of == asker);
        let told = of_session.map(|(at, _, _)| *at);
        let over = self.unsettled.iter().map(|change| change.over);
        told.chain(over).min()
    }

    fn must_wait(&self, asker: Asker, verb: &OriginVerb) -> bool {
        let Some((start, end)) = range_of(verb) else {
            return false;
        };
        let changes = self.unsettled.iter();
        let mut changes = changes.filter(|change| change.host == asker.host);
        changes.any(|change| change.start < end && start < change.end)
    }
}

fn below(dice: &mut Prng, bound: u64) -> usize {
    usize::try_from(dice.below(bound)).expect("an index")
}
