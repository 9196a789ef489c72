//! What a process has open of a storage: its operations in flight, and what goes wrong with them. It ends
//! with the process.

use super::Storage;
use super::late::Asker;
use crate::verbs::{overlap, shifted, shifted_back, write_offset};
use block_io::{
    BounceBuffers, FlashDone, FlashOp, FlashVerb, IoError, OriginDone, OriginVerb, Token,
};
use medium::{Injector, Session, WriteMark};
use std::collections::BTreeMap;
use std::ops::Range;
use units::{Bytes, Duration, Instant, Map, Offset, Set};

/// After so long the system ends an operation that the device does not: a read into a guest's
/// memory cannot be abandoned before.
const SYSTEM_PATIENCE: Duration = Duration::from_secs(30);

/// A read or write that has not ended.
#[derive(Clone, Copy, Debug)]
struct Flight {
    /// Where it begins.
    offset: Offset,
    /// Where it ends.
    end: Offset,
    /// Whether it writes.
    writes: bool,
}

impl Flight {
    fn place(&self) -> Range<Offset> {
        self.offset..self.end
    }
}

/// See the module's header.
pub(crate) struct Handle {
    host: usize,
    session: Session,
    error_injector: Injector,
    lie_injector: Injector,
    /// Where each read and write that has not ended begins.
    in_flight: Map<Token, Flight>,
    /// Writes that are not lied about.
    honest: Set<Token>,
    /// Where writes that have gone astray are on their way to.
    astray: Map<Token, Range<Offset>>,
    /// Writes that nobody lies about and wait until one of those has ended.
    behind: Vec<(Token, OriginVerb)>,
    /// Reads into memory of guests, and when the system ends one that the device does not.
    bounce_buffers: BounceBuffers,
    direct_read_ends: BTreeMap<Token, Instant>,
    /// Flushes that have not ended: what they cover, and their numbers.
    flushes: Map<Token, (WriteMark, u64)>,
    /// Flushes of the latest poll that have failed and taken along what they would have made durable.
    forgotten: Set<Token>,
}

impl Handle {
    pub(super) fn new(storage: &Storage, host: usize) -> Self {
        let Storage {
            capacity,
            sector,
            lies_from,
            ..
        } = *storage;
        let behind = Bytes::new(capacity.get() - lies_from.get());
        Self {
            host,
            error_injector: Injector::new(storage.errors.clone(), capacity, sector),
            lie_injector: Injector::new(storage.lies.clone(), behind, sector),
            session: storage.medium.open_beside(),
            in_flight: Map::default(),
            honest: Set::default(),
            astray: Map::default(),
            behind: Vec::new(),
            bounce_buffers: BounceBuffers::default(),
            direct_read_ends: BTreeMap::new(),
            flushes: Map::default(),
            forgotten: Set::default(),
        }
    }

    /// Who asks by it.
    pub(super) fn asker(&self) -> Asker {
        Asker {
            session: self.session.number(),
            host: self.host,
        }
    }

    /// Whether this flush of the latest poll has failed so that it has taken along what it would have
    /// made durable.
    pub(crate) fn has_forgotten(&self, flush: Token) -> bool {
        self.forgotten.contains(&flush)
    }

    /// Takes an operation.
    pub(crate) fn submit(
        &mut self,
        storage: &mut Storage,
        token: Token,
        verb: OriginVerb,
        now: Instant,
    ) {
        match &verb {
            OriginVerb::Write { data, offset, .. } => {
                storage.written_bytes += data.len() as u64;
                self.depart(storage, token, *offset, data.len(), true);
            }
            OriginVerb::Read { offset, length, .. } => {
                self.depart(storage, token, *offset, length.to_usize(), false);
            }
            OriginVerb::Flush => {
                let mark = storage.medium.with_image(|image| image.mark());
                let number = storage.late.flush_submitted();
                self.flushes.insert(token, (mark, number));
            }
            OriginVerb::Discard { .. } | OriginVerb::WriteZeroes { .. } => {}
        }
        if let Some(verb) = storage.late.admit(self.asker(), token, verb, now) {
            self.submit_to_injector(storage, token, verb, now);
        }
    }

    fn submit_to_injector(
        &mut self,
        storage: &mut Storage,
        token: Token,
        verb: OriginVerb,
        now: Instant,
    ) {
        if let Some(verb) = self.error_injector.inject(token, verb, now) {
            self.submit_to_liar(storage, token, verb, now);
        }
    }

    /// Takes a flash operation. Nobody lies about an `honest` one.
    pub(crate) fn submit_flash(
        &mut self,
        storage: &mut Storage,
        op: FlashOp,
        honest: bool,
        now: Instant,
    ) {
        if storage.lies_about_durability && storage.dice.one_in(storage.persists) {
            storage.medium.with_image(|image| image.flush(image.mark()));
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
        self.submit(storage, op.token, verb, now);
    }

    fn submit_to_liar(
        &mut self,
        storage: &mut Storage,
        token: Token,
        verb: OriginVerb,
        now: Instant,
    ) {
        let honest = self.honest.remove(&token);
        if honest && self.goes_astray_to(&verb) {
            self.behind.push((token, verb));
            return;
        }
        let verb = match shifted(verb, storage.lies_from) {
            Ok(verb) if honest => Some(shifted_back(verb, storage.lies_from)),
            Ok(verb) => {
                let asked = write_offset(&verb);
                let verb = self.lie_injector.inject(token, verb, now);
                let verb = verb.map(|verb| shifted_back(verb, storage.lies_from));
                let asked = asked.map(|offset| offset + storage.lies_from.from_start());
                verb.map(|verb| self.lead_back(storage, token, asked, verb))
            }
            Err(verb) => Some(verb),
        };
        if let Some(verb) = verb {
            self.session.submit(token, verb, now);
        }
    }

    /// A write that has gone astray to where it must not goes where it was asked to.
    fn lead_back(
        &mut self,
        storage: &Storage,
        token: Token,
        asked: Option<Offset>,
        verb: OriginVerb,
    ) -> OriginVerb {
        match (asked, verb) {
            (Some(asked), OriginVerb::Write { offset, data, fua }) if offset != asked => {
                let place = offset..offset + Bytes::new(data.len() as u64);
                let is_hit = storage.spared.iter().any(|spared| overlap(spared, &place));
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
    pub(crate) fn poll(&mut self, storage: &mut Storage, now: Instant, done: &mut Vec<OriginDone>) {
        while let Some((token, verb)) = self.error_injector.due(now) {
            self.submit_to_liar(storage, token, verb, now);
        }
        let mut ended = Vec::new();
        let landing = storage.late.poll(self.asker(), now, &mut ended);
        storage.land(&landing);
        for (token, verb) in storage.late.take_released(self.asker()) {
            self.submit_to_injector(storage, token, verb, now);
        }
        self.forgotten.clear();
        let mut failed_flushes = Vec::new();
        self.session.poll(now, &mut ended);
        ended.extend(self.end_hopeless_direct_reads(now));
        ended.extend(self.error_injector.take_answered());
        ended.extend(self.lie_injector.take_answered());
        for ended in ended {
            let ended = self.lie_injector.returned(ended);
            let mut ended = self.error_injector.returned(ended);
            let flight = self.in_flight.remove(&ended.token);
            match (self.flushes.remove(&ended.token), ended.result) {
                (Some((mark, _)), Err(_)) if storage.forgets => {
                    failed_flushes.push((mark, ended));
                    continue;
                }
                (Some((_, number)), Ok(())) => storage.late.flushed(number),
                (Some(_), Err(_)) | (None, _) => {}
            }
            self.astray.remove(&ended.token);
            let rotting = |range: &Range<Offset>| flight.is_some_and(|f| range.contains(&f.offset));
            if storage.rotting.iter().any(rotting)
                && let Some(buf) = &mut ended.buf
                && storage.dice.one_in(storage.rot)
            {
                let at = usize::try_from(storage.dice.below(buf.len() as u64)).expect("an index");
                buf[at] ^= 1 << storage.dice.below(8);
            }
            if let Some(flight) = flight
                && !flight.writes
                && storage
                    .unreadable
                    .iter()
                    .any(|place| overlap(place, &flight.place()))
            {
                ended.result = Err(IoError::Failed);
            }
            if let (Some(flight), Ok(())) = (flight.filter(|flight| !flight.writes), ended.result) {
                ended.volatile = storage.late.read(flight.offset, flight.end);
            }
            done.push(ended);
        }
        // Last, because what was read at this instant was read before.
        for (mark, ended) in failed_flushes {
            if storage.medium.with_image(|image| image.fail_flush(mark)) {
                self.forgotten.insert(ended.token);
            }
            done.push(ended);
        }
        for (token, verb) in std::mem::take(&mut self.behind) {
            self.honest.insert(token);
            self.submit_to_liar(storage, token, verb, now);
        }
    }

    fn depart(
        &mut self,
        storage: &mut Storage,
        token: Token,
        offset: Offset,
        length: usize,
        writes: bool,
    ) {
        let end = offset + Bytes::new(length as u64);
        let flight = Flight {
            offset,
            end,
            writes,
        };
        if writes {
            // What is written anew can be read again.
            let apart = |range: &Range<Offset>| end <= range.start || range.end <= offset;
            storage.unreadable.retain(apart);
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
            passes: false,
        };
        tokens.into_iter().map(failed).collect()
    }

    /// An outcome in the words of flash.
    pub(crate) fn flash_done(&mut self, done: OriginDone) -> FlashDone {
        self.direct_read_ends.remove(&done.token);
        self.bounce_buffers.end(medium::flash_done(done))
    }

    /// Where the writes that have not ended begin.
    pub(crate) fn writes_in_flight(&self) -> Vec<Offset> {
        let writes = self.in_flight.values().filter(|flight| flight.writes);
        let mut offsets: Vec<Offset> = writes.map(|flight| flight.offset).collect();
        offsets.sort_unstable();
        offsets
    }

    /// When something ends next.
    pub(crate) fn next_deadline(&self, storage: &Storage) -> Option<Instant> {
        [
            self.direct_read_ends.values().min().copied(),
            storage.late.next_deadline(self.asker()),
            self.session.next_deadline(),
            self.error_injector.next_deadline(),
            self.lie_injector.next_deadline(),
        ]
        .into_iter()
        .flatten()
        .min()
    }
}
