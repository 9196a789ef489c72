//! Flash and origins: media that lose, tear, stall and fail by the seed.
//!
//! ```text
//!  submit ─► injector of errors and stalls ─┬─► medium ─► completions, out of order
//!            (all operations)               │
//!            injector of lies ──────────────┘
//!            (reads of segments, writes of segments that are not asked to be durable)
//! ```
//!
//! A lie is a lost or misdirected write, a misdirected read, or rot that the device reports as
//! success. The cache must see through every one on blocks and their descriptors. It is not told
//! lies about writes that it asked to be durable: a device that acknowledges the newest journal
//! page and loses it leaves no trace that anybody could find; the book says so under what is
//! assumed of the medium. For the same reason it is not lied to about chunks of dirty logs, which may
//! be written plainly and flushed; and as long as nothing durable says that such a chunk is durable,
//! no other write is led astray over it, one that was led there before ends first, and a recovery
//! reads it as it is.

use crate::late::Late;
use crate::verbs::{Piece, shifted, shifted_back, write_offset};
use block_io::{
    BounceBuffers, FlashDone, FlashOp, FlashVerb, IoError, OriginDone, OriginVerb, Token,
};
use medium::{Faults, Injector, Medium, MediumOptions, Session, WriteMark};
use std::collections::BTreeMap;
use std::ops::Range;
use units::{Bytes, Duration, Instant, Map, Prng, SECTOR_BYTES, Set};

/// After so long the system ends an operation that the device does not: a read into a guest's
/// memory cannot be abandoned before.
const SYSTEM_PATIENCE: Duration = Duration::from_secs(30);

/// How long operations take.
#[derive(Clone, Copy, Debug)]
pub struct Latency {
    /// At least.
    pub least: Duration,
    /// At most.
    pub most: Duration,
}

/// A medium with its faults and one open session.
pub(crate) struct Storage {
    medium: Medium,
    session: Option<Session>,
    /// Errors, stalls and delays of anything.
    errors: Faults,
    /// Lies about what may be lied about.
    lies: Faults,
    error_injector: Injector,
    lie_injector: Injector,
    /// Changes that it gives up and may still carry out.
    late: Late,
    /// Where lies begin: before it are superblocks, journal and checkpoints.
    lies_from: Bytes,
    capacity: Bytes,
    /// The unit in which failed writes are torn.
    sector: Bytes,
    /// Where each read and write that has not ended begins.
    in_flight: Map<Token, Flight>,
    /// Writes that are not lied about.
    honest: Set<Token>,
    /// What no write that goes astray hits.
    spared: Vec<Range<Bytes>>,
    /// Where writes that have gone astray are on their way to.
    astray: Map<Token, Range<Bytes>>,
    /// Writes that nobody lies about and wait until one of those has ended.
    behind: Vec<(Token, OriginVerb)>,
    /// One read that begins in `rotting` in so many comes back with a bit flipped; 0 for none.
    rot: u64,
    /// Where reads may come back rotten beside what `lies` does.
    rotting: Vec<Range<Bytes>>,
    /// What cannot be read, until it is cleared.
    unreadable: Vec<Range<Bytes>>,
    dice: Prng,
    /// Reads into memory of guests, and when the system ends one that the device does not.
    bounce_buffers: BounceBuffers,
    direct_read_ends: BTreeMap<Token, Instant>,
    /// A flush that fails takes along what it would have made durable.
    forgets: bool,
    /// Flushes that have not ended: what they cover, and their numbers.
    flushes: Map<Token, (WriteMark, u64)>,
    /// Flushes of the latest poll that have failed so.
    forgotten: Set<Token>,
    /// It acknowledges durable writes and flushes that are neither.
    lies_about_durability: bool,
    /// Then it makes everything durable by itself, once in so many operations.
    persists: u64,
    /// Bytes of all writes that were submitted.
    written_bytes: u64,
}

/// An operation that has not ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flight {
    /// Where it begins.
    pub offset: Bytes,
    /// Where it ends.
    pub end: Bytes,
    /// Whether it writes.
    pub writes: bool,
}

impl Storage {
    /// A medium of zeroes. Lies are told at and behind `lies_from` only.
    pub(crate) fn new(
        capacity: Bytes,
        sector: Bytes,
        lies_from: Bytes,
        latency: Latency,
        dice: &mut Prng,
    ) -> Self {
        // Not from the dice themselves: the worlds without late changes are the older ones.
        let late = Late::new(dice.clone().fork());
        let mut options = MediumOptions::new(capacity, dice.u64());
        options.latency_least = latency.least;
        options.latency_most = latency.most;
        let medium = Medium::new(options);
        let errors = Faults::new(dice.u64());
        let lies = Faults::new(dice.u64());
        let behind = Bytes::new(capacity.get() - lies_from.get());
        Self {
            error_injector: Injector::new(errors.clone(), capacity, sector),
            lie_injector: Injector::new(lies.clone(), behind, sector),
            medium,
            session: None,
            errors,
            lies,
            late,
            lies_from,
            capacity,
            sector,
            in_flight: Map::default(),
            honest: Set::default(),
            spared: Vec::new(),
            astray: Map::default(),
            behind: Vec::new(),
            rot: 0,
            rotting: Vec::new(),
            unreadable: Vec::new(),
            dice: dice.fork(),
            bounce_buffers: BounceBuffers::default(),
            direct_read_ends: BTreeMap::new(),
            forgets: false,
            flushes: Map::default(),
            forgotten: Set::default(),
            lies_about_durability: false,
            persists: 0,
            written_bytes: 0,
        }
    }

    /// Begins a session.
    pub(crate) fn open(&mut self) {
        let behind = Bytes::new(self.capacity.get() - self.lies_from.get());
        self.error_injector = Injector::new(self.errors.clone(), self.capacity, self.sector);
        self.lie_injector = Injector::new(self.lies.clone(), behind, self.sector);
        self.session = Some(self.medium.open());
        self.in_flight.clear();
        self.honest.clear();
        self.astray.clear();
        self.behind.clear();
        self.bounce_buffers = BounceBuffers::default();
        self.direct_read_ends.clear();
        self.flushes.clear();
        self.forgotten.clear();
    }

    /// Errors, stalls and delays of anything.
    pub(crate) fn errors(&self) -> &Faults {
        &self.errors
    }

    /// Lies about what may be lied about.
    pub(crate) fn lies(&self) -> &Faults {
        &self.lies
    }

    /// One read that begins in a rotting place in so many comes back with a bit flipped; 0 for none.
    pub(crate) fn rot_one_in(&mut self, count: u64) {
        self.rot = count;
    }

    /// Where reads may come back rotten beside what lies do.
    pub(crate) fn set_rotting(&mut self, places: Vec<Range<Bytes>>) {
        self.rotting = places;
    }

    /// A place cannot be read until it is written anew.
    pub(crate) fn make_unreadable(&mut self, place: Range<Bytes>) {
        self.unreadable.push(place);
    }

    /// Every place can be read.
    pub(crate) fn make_readable(&mut self) {
        self.unreadable.clear();
    }

    /// No write that goes astray hits these places from now on.
    pub(crate) fn spare(&mut self, places: Vec<Range<Bytes>>) {
        self.spared = places;
    }

    /// Whether a flush that fails takes along what it would have made durable.
    pub(crate) fn set_forgets(&mut self, forgets: bool) {
        self.forgets = forgets;
    }

    /// Whether this flush of the latest poll has failed so.
    pub(crate) fn has_forgotten(&self, flush: Token) -> bool {
        self.forgotten.contains(&flush)
    }

    /// Bytes of all writes that were submitted.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    /// Changes that it gives up and may still carry out.
    pub(crate) fn late(&self) -> &Late {
        &self.late
    }

    /// The same, to change how many there are.
    pub(crate) fn late_mut(&mut self) -> &mut Late {
        &mut self.late
    }

    /// Whether it says of everything that it is durable, and a power cut may take it all the same.
    pub(crate) fn lies_about_durability(&self) -> bool {
        self.lies_about_durability
    }

    /// The process that used it has died.
    pub(crate) fn kill(&mut self) {
        self.session = None;
        self.medium.kill();
        self.late.kill();
    }

    /// From now on it says of everything that it is durable, and a power cut may take it all the same.
    pub(crate) fn lie_about_durability(&mut self, persists: u64) {
        self.persists = persists;
        self.lies_about_durability = true;
        self.medium.lie_about_durability(true);
    }

    /// What is there from `from` to `to` is durable, whatever it lies about.
    pub(crate) fn make_durable(&self, from: Bytes, to: Bytes) {
        let mut bytes = vec![0; (to - from).to_usize()];
        self.peek(from, &mut bytes);
        self.poke(from, &bytes);
    }

    /// Its power was cut.
    pub(crate) fn cut_power(&mut self) {
        self.session = None;
        self.late.kill();
        self.settle_late();
        self.medium.crash();
    }

    /// What was given up is over: whoever looks at the bytes past the cache looks after that.
    pub(crate) fn settle_late(&mut self) {
        let landing = self.late.settle();
        self.land(&landing);
    }

    fn land(&self, pieces: &[Piece]) {
        self.medium.with_image(|image| {
            for piece in pieces {
                image.write(piece.offset, &piece.bytes);
            }
        });
    }

    /// The bytes that a reader would see now.
    pub(crate) fn peek(&self, offset: Bytes, into: &mut [u8]) {
        self.medium.with_image(|image| image.read(offset, into));
    }

    /// Shows every content that a power cut now could leave in a sector.
    pub(crate) fn fates(&self, mut show: impl FnMut(usize, &[u8])) {
        for piece in self.late.pieces() {
            let sector = piece.offset.get() / SECTOR_BYTES;
            show(
                usize::try_from(sector).expect("media are small"),
                &piece.bytes,
            );
        }
        self.medium.fates(show);
    }

    /// Changes bytes behind everybody's back, durably.
    pub(crate) fn poke(&self, offset: Bytes, bytes: &[u8]) {
        self.medium
            .with_image(|image| image.write_durable(offset, bytes));
    }

    /// Takes an operation.
    pub(crate) fn submit(&mut self, token: Token, verb: OriginVerb, now: Instant) {
        match &verb {
            OriginVerb::Write { data, offset, .. } => {
                self.written_bytes += data.len() as u64;
                self.depart(token, *offset, data.len(), true);
            }
            OriginVerb::Read { offset, length, .. } => {
                self.depart(token, *offset, length.to_usize(), false);
            }
            OriginVerb::Flush => {
                let mark = self.medium.with_image(|image| image.mark());
                let number = self.late.flush_submitted();
                self.flushes.insert(token, (mark, number));
            }
            OriginVerb::Discard { .. } | OriginVerb::WriteZeroes { .. } => {}
        }
        if let Some(verb) = self.late.admit(token, verb, now) {
            self.submit_to_injector(token, verb, now);
        }
    }

    fn submit_to_injector(&mut self, token: Token, verb: OriginVerb, now: Instant) {
        if let Some(verb) = self.error_injector.inject(token, verb, now) {
            self.submit_to_liar(token, verb, now);
        }
    }

    /// Takes a flash operation. Nobody lies about an `honest` one.
    pub(crate) fn submit_flash(&mut self, op: FlashOp, honest: bool, now: Instant) {
        if self.lies_about_durability && self.dice.one_in(self.persists) {
            self.medium.with_image(|image| image.flush(image.mark()));
        }
        if matches!(op.verb, FlashVerb::ReadInto { .. }) {
            self.direct_read_ends
                .insert(op.token, now + SYSTEM_PATIENCE);
        }
        let op = self.bounce_buffers.begin(op);
        let verb = medium::medium_verb(op.verb);
        if honest {
            self.honest.insert(op.token);
        }
        self.submit(op.token, verb, now);
    }

    fn submit_to_liar(&mut self, token: Token, verb: OriginVerb, now: Instant) {
        let honest = self.honest.remove(&token);
        if honest && self.goes_astray_to(&verb) {
            self.behind.push((token, verb));
            return;
        }
        let verb = match shifted(verb, self.lies_from) {
            Ok(verb) if honest => Some(shifted_back(verb, self.lies_from)),
            Ok(verb) => {
                let asked = write_offset(&verb);
                let verb = self.lie_injector.inject(token, verb, now);
                let verb = verb.map(|verb| shifted_back(verb, self.lies_from));
                let asked = asked.map(|offset| offset + self.lies_from);
                verb.map(|verb| self.lead_back(token, asked, verb))
            }
            Err(verb) => Some(verb),
        };
        if let (Some(verb), Some(session)) = (verb, &mut self.session) {
            session.submit(token, verb, now);
        }
    }

    /// A write that has gone astray to where it must not goes where it was asked to.
    fn lead_back(&mut self, token: Token, asked: Option<Bytes>, verb: OriginVerb) -> OriginVerb {
        match (asked, verb) {
            (Some(asked), OriginVerb::Write { offset, data, fua }) if offset != asked => {
                let place = offset..offset + Bytes::new(data.len() as u64);
                let is_hit = self.spared.iter().any(|spared| overlap(spared, &place));
                let offset = if is_hit { asked } else { offset };
                if !is_hit {
                    self.astray.insert(token, place);
                }
                OriginVerb::Write { offset, data, fua }
            }
            (_, verb) => verb,
        }
    }

    /// Whether a write that has gone astray is on its way to where this one goes.
    fn goes_astray_to(&self, verb: &OriginVerb) -> bool {
        let OriginVerb::Write { offset, data, .. } = verb else {
            return false;
        };
        let place = *offset..*offset + Bytes::new(data.len() as u64);
        self.astray.values().any(|astray| overlap(astray, &place))
    }

    /// What has ended.
    pub(crate) fn poll(&mut self, now: Instant, done: &mut Vec<OriginDone>) {
        while let Some((token, verb)) = self.error_injector.due(now) {
            self.submit_to_liar(token, verb, now);
        }
        let mut ended = Vec::new();
        let landing = self.late.poll(now, &mut ended);
        self.land(&landing);
        for (token, verb) in self.late.take_released() {
            self.submit_to_injector(token, verb, now);
        }
        self.forgotten.clear();
        let mut failed_flushes = Vec::new();
        if let Some(session) = &mut self.session {
            session.poll(now, &mut ended);
        }
        ended.extend(self.end_hopeless_direct_reads(now));
        ended.extend(self.error_injector.take_answered());
        ended.extend(self.lie_injector.take_answered());
        for ended in ended {
            let ended = self.lie_injector.returned(ended);
            let mut ended = self.error_injector.returned(ended);
            let flight = self.in_flight.remove(&ended.token);
            match (self.flushes.remove(&ended.token), ended.result) {
                (Some((mark, _)), Err(_)) if self.forgets => {
                    failed_flushes.push((mark, ended));
                    continue;
                }
                (Some((_, number)), Ok(())) => self.late.flushed(number),
                (Some(_), Err(_)) | (None, _) => {}
            }
            self.astray.remove(&ended.token);
            let rotting = |range: &Range<Bytes>| flight.is_some_and(|f| range.contains(&f.offset));
            if self.rotting.iter().any(rotting)
                && let Some(buf) = &mut ended.buf
                && self.dice.one_in(self.rot)
            {
                let at = usize::try_from(self.dice.below(buf.len() as u64)).expect("an index");
                buf[at] ^= 1 << self.dice.below(8);
            }
            if let Some(flight) = flight
                && !flight.writes
                && self.is_unreadable(flight)
            {
                ended.result = Err(IoError::Failed);
            }
            if let (Some(flight), Ok(())) = (flight.filter(|flight| !flight.writes), ended.result) {
                ended.volatile = self.late.read(flight.offset, flight.end);
            }
            done.push(ended);
        }
        // Last, because what was read at this instant was read before.
        for (mark, ended) in failed_flushes {
            if self.medium.with_image(|image| image.fail_flush(mark)) {
                self.forgotten.insert(ended.token);
            }
            done.push(ended);
        }
        for (token, verb) in std::mem::take(&mut self.behind) {
            self.honest.insert(token);
            self.submit_to_liar(token, verb, now);
        }
    }

    fn is_unreadable(&self, flight: Flight) -> bool {
        let bad = |range: &Range<Bytes>| flight.offset < range.end && range.start < flight.end;
        self.unreadable.iter().any(bad)
    }

    fn depart(&mut self, token: Token, offset: Bytes, length: usize, writes: bool) {
        let end = offset + Bytes::new(length as u64);
        let flight = Flight {
            offset,
            end,
            writes,
        };
        if writes {
            // What is written anew can be read again.
            let apart = |range: &Range<Bytes>| end <= range.start || range.end <= offset;
            self.unreadable.retain(apart);
        }
        self.in_flight.insert(token, flight);
    }

    /// What is stalled now is so for good: the system resets the device, and whoever waited is told.
    fn end_hopeless_direct_reads(&mut self, now: Instant) -> Vec<OriginDone> {
        let due = self.direct_read_ends.extract_if(.., |_, end| *end <= now);
        let tokens: Vec<Token> = due.map(|(token, _)| token).collect();
        let failed = |token| OriginDone {
            token,
            buf: None,
            result: Err(IoError::Failed),
            volatile: false,
        };
        tokens.into_iter().map(failed).collect()
    }

    /// An outcome in the words of flash.
    pub(crate) fn flash_done(&mut self, done: OriginDone) -> FlashDone {
        self.direct_read_ends.remove(&done.token);
        self.bounce_buffers.end(medium::flash_done(done))
    }

    /// Where the writes that have not ended begin.
    pub(crate) fn writes_in_flight(&self) -> Vec<Bytes> {
        let writes = self.in_flight.values().filter(|flight| flight.writes);
        let mut offsets: Vec<Bytes> = writes.map(|flight| flight.offset).collect();
        offsets.sort_unstable();
        offsets
    }

    /// When something ends next.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let session = self.session.as_ref().and_then(Session::next_deadline);
        [
            self.direct_read_ends.values().min().copied(),
            self.late.next_deadline(),
            session,
            self.error_injector.next_deadline(),
            self.lie_injector.next_deadline(),
        ]
        .into_iter()
        .flatten()
        .min()
    }
}

/// Whether two places have something in common.
pub(crate) fn overlap(a: &Range<Bytes>, b: &Range<Bytes>) -> bool {
    a.start < b.end && b.start < a.end
}
