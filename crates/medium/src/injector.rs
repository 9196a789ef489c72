//! What a faulty wrapper does with each operation, without knowing what it wraps.
//!
//! ```text
//!   wrapper.submit ─► inject ─► Forward(verb) ─► inner          (perhaps altered)
//!                         └──► Held, or Answered by the injector itself
//!   wrapper.poll   ─► due(now): what is released or delayed long enough ─► inner
//!                     inner.poll ─► returned: rot, or turn success into failure
//! ```

use crate::faults::{Fault, Faults, Kind};
use crate::limits::MISDIRECTION_LENGTHS_MAX;
use block_io::{BufPool, IoError, OriginDone, OriginVerb, Slice, Token};
use units::{Bytes, Instant, Map, Offset};

/// Applies a plan of faults to a stream of operations.
#[derive(Debug)]
pub struct Injector {
    faults: Faults,
    capacity: Bytes,
    /// The unit in which a misdirected access is off and a failed write is torn.
    sector: Bytes,
    pool: BufPool,
    held: Vec<Held>,
    /// What to do when the inner operation comes back.
    after: Map<Token, After>,
    answered: Vec<OriginDone>,
}

#[derive(Debug)]
struct Held {
    token: Token,
    verb: OriginVerb,
    until: Until,
}

#[derive(Debug)]
enum Until {
    /// The plan's number of releases grows above this.
    Release(u64),
    Time(Instant),
}

#[derive(Clone, Copy, Debug)]
enum After {
    Fail(IoError),
    Rot,
}

impl Injector {
    /// An injector for a medium of this capacity and sector.
    pub fn new(faults: Faults, capacity: Bytes, sector: Bytes) -> Self {
        Self {
            faults,
            capacity,
            sector,
            pool: BufPool::new(),
            held: Vec::new(),
            after: Map::default(),
            answered: Vec::new(),
        }
    }

    /// Decides an operation's fate: what goes on to the inner form now, if anything.
    pub fn inject(&mut self, token: Token, verb: OriginVerb, now: Instant) -> Option<OriginVerb> {
        let Some(fault) = self.faults.decide(kind(&verb)) else {
            return Some(verb);
        };
        match fault {
            Fault::Error(error) => self.fail(token, verb, error),
            Fault::Stall => {
                let until = Until::Release(self.faults.releases());
                self.held.push(Held { token, verb, until });
                None
            }
            Fault::Delay(span) => {
                let until = Until::Time(now + span);
                self.held.push(Held { token, verb, until });
                None
            }
            Fault::Misdirect => Some(self.misdirect(verb)),
            Fault::Rot => Some(self.rot(token, verb)),
            Fault::Lose => {
                self.answer(token, verb, Ok(()));
                None
            }
        }
    }

    /// Takes out one held operation whose time has come; called until it gives none.
    pub fn due(&mut self, now: Instant) -> Option<(Token, OriginVerb)> {
        let releases = self.faults.releases();
        let at = self.held.iter().position(|held| match held.until {
            Until::Release(seen) => releases > seen,
            Until::Time(time) => time <= now,
        })?;
        let held = self.held.remove(at);
        Some((held.token, held.verb))
    }

    /// Applies what was planned for an operation that the inner form has handed back.
    pub fn returned(&mut self, mut done: OriginDone) -> OriginDone {
        match self.after.remove(&done.token) {
            None => {}
            Some(After::Fail(error)) => done.result = Err(error),
            Some(After::Rot) => {
                if let Some(buf) = &mut done.buf {
                    let at = self.faults.below(self.sector.get());
                    buf[Bytes::new(at).to_usize()] ^= 1 << self.faults.below(8);
                }
            }
        }
        done
    }

    /// Operations that ended here and never reached the inner form.
    pub fn take_answered(&mut self) -> std::vec::Drain<'_, OriginDone> {
        self.answered.drain(..)
    }

    /// When a delayed operation goes on, or now if something waits to be handed back.
    pub fn next_deadline(&self) -> Option<Instant> {
        if !self.answered.is_empty() || self.released() {
            return Some(Instant::ZERO);
        }
        let times = self.held.iter().filter_map(|held| match held.until {
            Until::Time(time) => Some(time),
            Until::Release(_) => None,
        });
        times.min()
    }

    fn released(&self) -> bool {
        let releases = self.faults.releases();
        self.held
            .iter()
            .any(|held| matches!(held.until, Until::Release(seen) if releases > seen))
    }

    fn answer(&mut self, token: Token, verb: OriginVerb, result: Result<(), IoError>) {
        let buf = verb.into_buf();
        self.answered.push(OriginDone::plain(token, buf, result));
    }

    /// A failed operation may have happened: all of it, its first half, or nothing.
    fn fail(&mut self, token: Token, verb: OriginVerb, error: IoError) -> Option<OriginVerb> {
        let verb = match (self.faults.below(3), verb) {
            (0, verb) => Some(verb),
            (1, OriginVerb::Write { offset, data, fua }) => {
                let half = data.len() / 2 / self.sector.to_usize() * self.sector.to_usize();
                if half == 0 {
                    self.answer(token, OriginVerb::Flush, Err(error));
                    return None;
                }
                let data = data.slice(0..half);
                Some(OriginVerb::Write { offset, data, fua })
            }
            (_, verb) => {
                self.answer(token, verb, Err(error));
                None
            }
        };
        if verb.is_some() {
            self.after.insert(token, After::Fail(error));
        }
        verb
    }

    fn misdirect(&mut self, verb: OriginVerb) -> OriginVerb {
        match verb {
            OriginVerb::Read {
                offset,
                length,
                buf,
            } => OriginVerb::Read {
                offset: self.elsewhere(offset, length),
                length,
                buf,
            },
            OriginVerb::Write { offset, data, fua } => OriginVerb::Write {
                offset: self.elsewhere(offset, Bytes::new(data.len() as u64)),
                data,
                fua,
            },
            OriginVerb::WriteZeroes {
                offset,
                length,
                may_unmap,
                fua,
            } => OriginVerb::WriteZeroes {
                offset: self.elsewhere(offset, length),
                length,
                may_unmap,
                fua,
            },
            OriginVerb::Flush | OriginVerb::Discard { .. } => verb,
        }
    }

    /// Another range of the same length, some multiples of the length away.
    fn elsewhere(&self, offset: Offset, length: Bytes) -> Offset {
        let places = self.capacity.get() / length.get().max(1);
        if length.is_zero() || places < 2 {
            return offset;
        }
        let shift = 1 + self.faults.below(MISDIRECTION_LENGTHS_MAX.min(places - 1));
        let moved = offset + Bytes::new(shift * length.get());
        if (moved + length).from_start() <= self.capacity {
            return moved;
        }
        offset
            .saturating_sub(Bytes::new(shift * length.get()))
            .min(Offset::after(self.capacity.saturating_sub(length)))
    }

    fn rot(&mut self, token: Token, verb: OriginVerb) -> OriginVerb {
        match verb {
            OriginVerb::Write { offset, data, fua } if !data.is_empty() => OriginVerb::Write {
                offset,
                data: self.rotten(&data),
                fua,
            },
            verb => {
                self.after.insert(token, After::Rot);
                verb
            }
        }
    }

    fn rotten(&self, data: &Slice) -> Slice {
        let mut buf = self.pool.take(data.len());
        buf[..data.len()].copy_from_slice(data);
        let at = Bytes::new(self.faults.below(data.len() as u64)).to_usize();
        buf[at] ^= 1 << self.faults.below(8);
        buf.freeze().slice(0..data.len())
    }
}

const fn kind(verb: &OriginVerb) -> Kind {
    match verb {
        OriginVerb::Read { .. } => Kind::Read,
        OriginVerb::Write { .. } => Kind::Write,
        OriginVerb::Flush => Kind::Flush,
        OriginVerb::Discard { .. } | OriginVerb::WriteZeroes { .. } => Kind::Zero,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Duration;

    fn injector() -> (Injector, Faults) {
        let faults = Faults::new(9);
        let injector = Injector::new(faults.clone(), Bytes::kib(64), Bytes::new(512));
        (injector, faults)
    }

    fn write(pool: &BufPool) -> OriginVerb {
        OriginVerb::Write {
            offset: Offset::kib(4),
            data: pool.copy_of(&[5; 4096]),
            fua: false,
        }
    }

    #[test]
    fn a_stalled_operation_waits_for_its_release() {
        let (mut injector, faults) = injector();
        faults.on(Kind::Flush, 1, Fault::Stall);
        assert!(
            injector
                .inject(Token(1), OriginVerb::Flush, Instant::ZERO)
                .is_none()
        );
        assert!(injector.due(Instant::from_nanos(u64::MAX)).is_none());
        assert_eq!(injector.next_deadline(), None);
        faults.release();
        assert!(injector.next_deadline().is_some());
        assert_eq!(
            injector.due(Instant::ZERO).map(|(token, _)| token),
            Some(Token(1))
        );
        assert!(injector.due(Instant::ZERO).is_none());
    }

    #[test]
    fn a_delayed_operation_waits_for_its_time() {
        let (mut injector, faults) = injector();
        faults.on(Kind::Flush, 1, Fault::Delay(Duration::from_secs(1)));
        assert!(
            injector
                .inject(Token(1), OriginVerb::Flush, Instant::ZERO)
                .is_none()
        );
        let time = injector.next_deadline().unwrap();
        assert_eq!(time, Instant::ZERO + Duration::from_secs(1));
        assert!(injector.due(Instant::ZERO).is_none());
        assert!(injector.due(time).is_some());
    }

    #[test]
    fn a_misdirected_write_lands_elsewhere_within_the_medium() {
        let (mut injector, faults) = injector();
        let pool = BufPool::new();
        faults.always(Kind::Write, Fault::Misdirect);
        for token in 0..200 {
            let verb = injector.inject(Token(token), write(&pool), Instant::ZERO);
            let Some(OriginVerb::Write { offset, data, .. }) = verb else {
                panic!("a misdirected write goes on");
            };
            assert_ne!(offset, Offset::kib(4));
            assert!(offset + Bytes::new(data.len() as u64) <= Offset::kib(64));
        }
    }

    #[test]
    fn rot_changes_one_bit() {
        let (mut injector, faults) = injector();
        let pool = BufPool::new();
        faults.on(Kind::Write, 1, Fault::Rot);
        let verb = injector.inject(Token(1), write(&pool), Instant::ZERO);
        let Some(OriginVerb::Write { data, .. }) = verb else {
            panic!("a rotten write goes on");
        };
        let flipped: u32 = data.iter().map(|b| (b ^ 5).count_ones()).sum();
        assert_eq!(flipped, 1);
    }

    #[test]
    fn a_failed_operation_answers_once_and_with_the_error() {
        for seed in 0..50 {
            let faults = Faults::new(seed);
            let mut injector = Injector::new(faults.clone(), Bytes::kib(64), Bytes::new(512));
            let pool = BufPool::new();
            faults.on(Kind::Write, 1, Fault::Error(IoError::Failed));
            let done = match injector.inject(Token(1), write(&pool), Instant::ZERO) {
                Some(_) => injector.returned(OriginDone::plain(Token(1), None, Ok(()))),
                None => injector.take_answered().next().unwrap(),
            };
            assert_eq!(done.result, Err(IoError::Failed));
            assert_eq!(injector.take_answered().count(), 0);
        }
    }
}
