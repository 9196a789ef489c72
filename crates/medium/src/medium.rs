//! A medium that is operated: operations wait for their time, take effect when it comes, and
//! a crash finds them half done.
//!
//! A [`Medium`] outlives whoever uses it, as a disk outlives a host's boot; a [`Session`] is
//! one use of it. Several may be open at a time, as hosts have shared storage open. An operation takes effect at the moment that it completes, so a read that
//! is in flight together with a write sees either.

use crate::Image;
use crate::image::WriteMark;
use block_io::{IoError, OriginDone, OriginGeometry, OriginVerb, Token};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;
use units::{Bytes, Duration, Instant, Offset, Prng};

const SECTOR: usize = 512;
const _: () = assert!(SECTOR as u64 == units::SECTOR_BYTES);

/// What a medium is like.
#[derive(Clone, Copy, Debug)]
pub struct MediumOptions {
    /// Size, a multiple of the sector.
    pub capacity: Bytes,
    /// Alignment that it asks for: 512 or 4096 bytes.
    pub sector: Bytes,
    /// The shortest time that an operation takes.
    pub latency_least: Duration,
    /// The longest. When it is longer than the shortest, operations complete out of order.
    pub latency_most: Duration,
    /// Whether writes are refused.
    pub read_only: bool,
    /// Decides everything random.
    pub seed: u64,
}

impl MediumOptions {
    /// A writable medium of this size with sectors of 512 bytes and no latency.
    pub const fn new(capacity: Bytes, seed: u64) -> Self {
        Self {
            capacity,
            sector: Bytes::new(units::SECTOR_BYTES),
            latency_least: Duration::ZERO,
            latency_most: Duration::ZERO,
            read_only: false,
            seed,
        }
    }

    /// The same in the words of an origin.
    pub const fn geometry(&self) -> OriginGeometry {
        OriginGeometry {
            size: self.capacity,
            sector: self.sector,
            read_only: self.read_only,
            can_discard: !self.read_only,
        }
    }
}

/// The medium itself. Cloning shares it.
#[derive(Clone)]
pub struct Medium(Rc<RefCell<State>>);

/// One use of a medium, from opening it to a crash, the next [`Medium::open`] or the session's drop.
pub struct Session {
    medium: Medium,
    number: u64,
}

struct State {
    options: MediumOptions,
    image: Image,
    /// Sessions that are open, by number.
    sessions: Vec<u64>,
    sessions_begun: u64,
    pending: BTreeMap<(Instant, u64), Pending>,
    submitted: u64,
    /// Flushes and durable writes are acknowledged, and are neither.
    lies: bool,
    dice: Prng,
}

struct Pending {
    session: u64,
    token: Token,
    verb: OriginVerb,
    /// For a flush: what it covers.
    mark: WriteMark,
    valid: Result<(), IoError>,
}

impl Medium {
    /// A medium of zeroes.
    ///
    /// # Panics
    /// If the capacity is not a multiple of the sector, or the latencies are the wrong way
    /// round.
    pub fn new(options: MediumOptions) -> Self {
        assert!(
            options.capacity.is_multiple_of(options.sector.get()),
            "a medium has whole sectors"
        );
        assert!(
            options.latency_least <= options.latency_most,
            "the longest latency is not below the shortest"
        );
        let mut dice = Prng::new(options.seed);
        Self(Rc::new(RefCell::new(State {
            options,
            image: Image::new(options.capacity, dice.fork()),
            sessions: Vec::new(),
            sessions_begun: 0,
            pending: BTreeMap::new(),
            submitted: 0,
            lies: false,
            dice,
        })))
    }

    /// Begins a session. Those that are still open end as by [`Medium::kill`].
    pub fn open(&self) -> Session {
        self.kill();
        self.open_beside()
    }

    /// Begins a session beside those that are open.
    pub fn open_beside(&self) -> Session {
        let mut state = self.0.borrow_mut();
        state.sessions_begun += 1;
        let number = state.sessions_begun;
        state.sessions.push(number);
        Session {
            medium: self.clone(),
            number,
        }
    }

    /// What it is like.
    pub fn options(&self) -> MediumOptions {
        self.0.borrow().options
    }

    /// Changes the latency of operations submitted from now on.
    ///
    /// # Panics
    /// If `most` is below `least`.
    pub fn set_latency(&self, least: Duration, most: Duration) {
        assert!(
            least <= most,
            "the longest latency is not below the shortest"
        );
        let mut state = self.0.borrow_mut();
        state.options.latency_least = least;
        state.options.latency_most = most;
    }

    /// From now on it acknowledges flushes and durable writes as if they were, and a crash may take what
    /// they were for; or it is honest again about what comes.
    pub fn lie_about_durability(&self, lies: bool) {
        self.0.borrow_mut().lies = lies;
    }

    /// Ends every session as the death of its process does: each operation in flight happens
    /// wholly, in part by sector, or not at all; what completed stays readable.
    pub fn kill(&self) {
        let mut state = self.0.borrow_mut();
        while let Some(number) = state.sessions.first().copied() {
            state.end_session(number);
        }
    }

    /// Cuts the power: like [`Medium::kill`], and each completed write that is not durable is
    /// kept, lost or torn by sector.
    pub fn crash(&self) {
        self.0.borrow_mut().lose_power();
    }

    /// Shows every content that a power cut now could leave in a sector, the sector's number with
    /// it: [`Image::fates`], and what operations in flight may put there.
    pub fn fates(&self, mut show: impl FnMut(usize, &[u8])) {
        let state = self.0.borrow();
        state.image.fates(&mut show);
        let zeroes = [0; SECTOR];
        for pending in state.pending.values().filter(|p| p.valid.is_ok()) {
            match &pending.verb {
                OriginVerb::Write { offset, data, .. } => {
                    let first = offset.to_usize() / SECTOR;
                    for (number, sector) in (first..).zip(data.chunks_exact(SECTOR)) {
                        show(number, sector);
                    }
                }
                OriginVerb::WriteZeroes { offset, length, .. }
                | OriginVerb::Discard { offset, length } => {
                    let first = offset.to_usize() / SECTOR;
                    for number in first..first + length.to_usize() / SECTOR {
                        show(number, &zeroes);
                    }
                }
                OriginVerb::Read { .. } | OriginVerb::Flush => {}
            }
        }
    }

    /// Looks at or changes the bytes directly, past any session.
    pub fn with_image<T>(&self, f: impl FnOnce(&mut Image) -> T) -> T {
        f(&mut self.0.borrow_mut().image)
    }
}

impl State {
    fn end_session(&mut self, number: u64) {
        self.sessions.retain(|open| *open != number);
        let ended = self
            .pending
            .extract_if(.., |_, pending| pending.session == number);
        for (offset, data) in landing(ended.map(|(_, pending)| pending)) {
            self.land_partly(offset, &data);
        }
    }

    fn lose_power(&mut self) {
        self.sessions.clear();
        let pending = std::mem::take(&mut self.pending);
        let landing = landing(pending.into_values());
        let writes: Vec<(Offset, &[u8])> =
            landing.iter().map(|(at, data)| (*at, &data[..])).collect();
        self.image.crash(&writes);
    }

    fn land_partly(&mut self, offset: Offset, data: &[u8]) {
        let whole = self.dice.below(3);
        let sector = self.options.sector;
        let mut at = offset;
        for piece in data.chunks(sector.to_usize()) {
            if whole == 0 || (whole == 1 && self.dice.one_in(2)) {
                self.image.write(at, piece);
            }
            at += Bytes::new(piece.len() as u64);
        }
    }

    fn complete(&mut self, pending: Pending) -> OriginDone {
        let Pending {
            token,
            verb,
            mark,
            valid,
            ..
        } = pending;
        let mut returned = None;
        match verb {
            OriginVerb::Read {
                offset,
                length,
                mut buf,
            } => {
                if valid.is_ok() {
                    self.image.read(offset, &mut buf[..length.to_usize()]);
                }
                returned = Some(buf);
            }
            _ if valid.is_err() => {}
            OriginVerb::Write { offset, data, fua } => self.put(offset, &data, fua),
            OriginVerb::Flush if self.lies => {}
            OriginVerb::Flush => self.image.flush(mark),
            OriginVerb::Discard { offset, length } => {
                if self.dice.one_in(2) {
                    self.put(offset, &vec![0; length.to_usize()], false);
                }
            }
            OriginVerb::WriteZeroes {
                offset,
                length,
                fua,
                ..
            } => self.put(offset, &vec![0; length.to_usize()], fua),
        }
        OriginDone::plain(token, returned, valid)
    }

    fn put(&mut self, offset: Offset, data: &[u8], durable: bool) {
        if durable && !self.lies {
            self.image.write_durable(offset, data);
        } else {
            self.image.write(offset, data);
        }
    }
}

/// What changes on their way would put where.
fn landing(pending: impl Iterator<Item = Pending>) -> Vec<(Offset, Vec<u8>)> {
    let valid = pending.filter(|pending| pending.valid.is_ok());
    let changes = valid.filter_map(|pending| match pending.verb {
        OriginVerb::Write { offset, data, .. } => Some((offset, data.to_vec())),
        OriginVerb::WriteZeroes { offset, length, .. } | OriginVerb::Discard { offset, length } => {
            Some((offset, vec![0; length.to_usize()]))
        }
        OriginVerb::Read { .. } | OriginVerb::Flush => None,
    });
    changes.collect()
}

impl Session {
    /// Its number: no other session of the medium has it.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Takes an operation; it completes after the medium's latency.
    pub fn submit(&mut self, token: Token, verb: OriginVerb, now: Instant) {
        let mut state = self.medium.0.borrow_mut();
        if !state.sessions.contains(&self.number) {
            return;
        }
        let options = state.options;
        let spread = options.latency_most.as_nanos() - options.latency_least.as_nanos();
        let extra = state.dice.below(spread + 1);
        let due = now + options.latency_least + Duration::from_nanos(extra);
        let number = state.submitted;
        state.submitted += 1;
        let geometry = options.geometry();
        let pending = Pending {
            session: self.number,
            token,
            mark: state.image.mark(),
            valid: verb.check(&geometry),
            verb,
        };
        state.pending.insert((due, number), pending);
    }

    /// Completes what is due, in the order of its time.
    pub fn poll(&mut self, now: Instant, done: &mut Vec<OriginDone>) {
        let mut state = self.medium.0.borrow_mut();
        let due = state.pending.extract_if(..=(now, u64::MAX), |_, pending| {
            pending.session == self.number
        });
        for (_, pending) in due.collect::<Vec<_>>() {
            done.push(state.complete(pending));
        }
    }

    /// When the next operation is due.
    pub fn next_deadline(&self) -> Option<Instant> {
        let state = self.medium.0.borrow();
        let mut pending = state.pending.iter();
        pending
            .find(|(_, pending)| pending.session == self.number)
            .map(|((due, _), _)| *due)
    }

    /// The medium of this session.
    pub fn medium(&self) -> &Medium {
        &self.medium
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let mut state = self.medium.0.borrow_mut();
        if state.sessions.contains(&self.number) {
            state.end_session(self.number);
        }
    }
}

impl fmt::Debug for Medium {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.0.borrow();
        f.debug_struct("Medium")
            .field("options", &state.options)
            .field("pending", &state.pending.len())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("number", &self.number)
            .field("medium", &self.medium)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use block_io::BufPool;

    fn write(pool: &BufPool, at: u64, byte: u8) -> OriginVerb {
        OriginVerb::Write {
            offset: Offset::new(at),
            data: pool.copy_of(&[byte; 4096]),
            fua: false,
        }
    }

    fn slow(seed: u64) -> Medium {
        Medium::new(MediumOptions {
            latency_least: Duration::from_micros(10),
            latency_most: Duration::from_micros(100),
            ..MediumOptions::new(Bytes::mib(1), seed)
        })
    }

    fn order(seed: u64) -> Vec<u64> {
        let (medium, pool) = (slow(seed), BufPool::new());
        let mut session = medium.open();
        for token in 0..8 {
            session.submit(Token(token), write(&pool, token * 4096, 1), Instant::ZERO);
        }
        let mut done = Vec::new();
        while let Some(due) = session.next_deadline() {
            session.poll(due, &mut done);
        }
        done.iter().map(|d| d.token.0).collect()
    }

    #[test]
    fn a_medium_that_lies_loses_what_it_said_was_durable() {
        let left = |seed, lies| {
            let (medium, pool) = (
                Medium::new(MediumOptions::new(Bytes::kib(64), seed)),
                BufPool::new(),
            );
            medium.lie_about_durability(lies);
            let mut session = medium.open();
            let mut done = Vec::new();
            session.submit(Token(1), write(&pool, 0, 7), Instant::ZERO);
            session.poll(Instant::ZERO, &mut done);
            session.submit(Token(2), OriginVerb::Flush, Instant::ZERO);
            session.poll(Instant::ZERO, &mut done);
            assert!(done.iter().all(|done| done.result.is_ok()));
            medium.crash();
            medium.with_image(|image| image.bytes()[0])
        };
        assert!((0..50).all(|seed| left(seed, false) == 7));
        assert!((0..50).any(|seed| left(seed, true) == 0));
    }

    #[test]
    fn operations_complete_out_of_order_and_the_seed_decides_how() {
        assert_eq!(order(3), order(3));
        assert!((0..20).any(|seed| order(seed) != (0..8).collect::<Vec<_>>()));
    }

    #[test]
    fn nothing_completes_before_its_time() {
        let (medium, pool) = (slow(1), BufPool::new());
        let mut session = medium.open();
        session.submit(Token(1), write(&pool, 0, 1), Instant::ZERO);
        let mut done = Vec::new();
        session.poll(Instant::from_nanos(9_999), &mut done);
        assert!(done.is_empty());
        session.poll(Instant::from_nanos(100_000), &mut done);
        assert_eq!(done.len(), 1);
    }

    #[test]
    fn a_session_that_a_crash_ended_hears_nothing_more() {
        let (medium, pool) = (slow(1), BufPool::new());
        let mut session = medium.open();
        session.submit(Token(1), write(&pool, 0, 1), Instant::ZERO);
        medium.crash();
        let mut done = Vec::new();
        session.poll(Instant::from_nanos(u64::MAX), &mut done);
        session.submit(Token(2), write(&pool, 0, 1), Instant::ZERO);
        session.poll(Instant::from_nanos(u64::MAX), &mut done);
        assert!(done.is_empty());
        assert_eq!(session.next_deadline(), None);
    }

    #[test]
    fn sessions_beside_each_other_end_each_by_itself() {
        let (medium, pool) = (slow(1), BufPool::new());
        let mut one = medium.open();
        let mut other = medium.open_beside();
        one.submit(Token(1), write(&pool, 0, 1), Instant::ZERO);
        other.submit(Token(1), write(&pool, 4096, 2), Instant::ZERO);
        drop(one);
        let mut done = Vec::new();
        other.poll(Instant::from_nanos(100_000), &mut done);
        assert_eq!(done.len(), 1);
        assert_eq!(medium.with_image(|image| image.bytes()[4096]), 2);
        let mut next = medium.open();
        other.submit(Token(2), write(&pool, 0, 3), Instant::ZERO);
        assert_eq!(other.next_deadline(), None);
        next.submit(Token(1), write(&pool, 0, 3), Instant::ZERO);
        assert!(next.next_deadline().is_some());
    }

    #[test]
    fn a_killed_process_loses_no_completed_write() {
        for seed in 0..50 {
            let medium = Medium::new(MediumOptions::new(Bytes::mib(1), seed));
            let pool = BufPool::new();
            let mut session = medium.open();
            session.submit(Token(1), write(&pool, 0, 7), Instant::ZERO);
            let mut done = Vec::new();
            session.poll(Instant::ZERO, &mut done);
            assert_eq!(done.len(), 1);
            drop(session);
            assert_eq!(medium.with_image(|i| i.bytes()[..4096].to_vec()), [7; 4096]);
        }
    }

    #[test]
    fn what_is_in_flight_is_a_fate_of_its_sectors() {
        let (medium, pool) = (slow(1), BufPool::new());
        let mut session = medium.open();
        session.submit(Token(1), write(&pool, 4096, 7), Instant::ZERO);
        let verb = OriginVerb::Read {
            offset: Offset::ZERO,
            length: Bytes::new(512),
            buf: pool.take(512),
        };
        session.submit(Token(2), verb, Instant::ZERO);
        let mut sevens = Vec::new();
        medium.fates(|number, sector| {
            if sector[0] == 7 {
                sevens.push(number);
            }
        });
        assert_eq!(sevens, (8..16).collect::<Vec<_>>());
    }

    #[test]
    fn a_bad_range_is_an_error_and_a_read_keeps_its_buffer() {
        let medium = Medium::new(MediumOptions::new(Bytes::kib(8), 1));
        let pool = BufPool::new();
        let mut session = medium.open();
        let reads = [
            (8192, 512),
            (0, 100),
            (100, 512),
            (0, 0),
            (u64::MAX - 1023, 512),
        ];
        for (offset, length) in reads {
            let verb = OriginVerb::Read {
                offset: Offset::new(offset),
                length: Bytes::new(length),
                buf: pool.take(4096),
            };
            session.submit(Token(offset + length), verb, Instant::ZERO);
        }
        let mut done = Vec::new();
        session.poll(Instant::ZERO, &mut done);
        assert_eq!(done.len(), reads.len());
        for done in done {
            assert_eq!(done.result, Err(IoError::Invalid));
            assert!(done.buf.is_some());
        }
    }
}
