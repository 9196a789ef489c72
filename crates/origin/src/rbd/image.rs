//! Operations on an image that is open: each is begun at once, and its end is heard by an eventfd on the ring.

use crate::sessions::Session;
use crate::{Origin, Sources};
use block_io::{
    ErrorNumbers, FailureKind, IoError, OriginDone, OriginGeometry, OriginOp, OriginVerb, Token,
};
use events::EventKind;
use librbd::{Ended, Running, Zeroes};
use ring::{Op, Ring, Source};
use slab::Slab;
use std::fmt;
use std::io;
use units::{Bytes, Instant, Offset};

/// What an operation in flight is for.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// It is the whole of what was asked, or the last part.
    Last(Token),
    /// A flush follows it.
    BeforeFlush(Token),
}

/// An image of a Ceph cluster as an origin.
pub(super) struct RbdOrigin {
    name: String,
    geometry: OriginGeometry,
    running: Running,
    source: Source,
    steps: Slab<Step>,
    /// Ended before they reached the library.
    ended: Vec<OriginDone>,
    numbers: ErrorNumbers,
    /// The cluster refuses this client.
    is_fenced: bool,
}

impl RbdOrigin {
    pub(super) fn new(
        name: String,
        geometry: OriginGeometry,
        mut running: Running,
        session: Option<Session>,
        ring: &Ring,
    ) -> Self {
        running.keep_until_closed(session);
        let origin = Self {
            name,
            geometry,
            source: ring.source(),
            running,
            steps: Slab::new(),
            ended: Vec::new(),
            numbers: ErrorNumbers::default(),
            is_fenced: false,
        };
        origin.listen();
        origin
    }

    fn listen(&self) {
        let fd = self.running.bell();
        self.source.submit(0, Op::PollEach { fd });
    }

    /// Has the library begin a step.
    fn begin(&mut self, step: Step, call: impl FnOnce(&mut Running, u64) -> io::Result<()>) {
        let key = self.steps.insert(step);
        if let Err(error) = call(&mut self.running, key as u64) {
            self.steps.remove(key);
            let (Step::Last(token) | Step::BeforeFlush(token)) = step;
            self.end(token, Err(error), None);
        }
    }

    fn flush(&mut self, token: Token) {
        self.begin(Step::Last(token), Running::flush);
    }

    fn read(&mut self, token: Token, offset: Offset, length: Bytes, buf: block_io::Buf) {
        let key = self.steps.insert(Step::Last(token));
        let begun = self
            .running
            .read(key as u64, offset.get(), length.to_usize(), buf);
        if let Err((error, buf)) = begun {
            self.steps.remove(key);
            self.end(token, Err(error), Some(buf));
        }
    }

    fn end(&mut self, token: Token, result: io::Result<()>, buf: Option<block_io::Buf>) {
        let result = result.map_err(|error| {
            self.look_for_fence(&error);
            self.numbers.kind_of(token, &error)
        });
        self.ended.push(OriginDone::plain(token, buf, result));
    }

    /// A client whose lock was broken hears `ESHUTDOWN` from then on.
    fn look_for_fence(&mut self, error: &io::Error) {
        if error.raw_os_error() != Some(libc::ESHUTDOWN) || self.is_fenced {
            return;
        }
        self.is_fenced = true;
        let kind = FailureKind::OriginLost;
        tracing::error!(
            event = EventKind::OriginLost.word(),
            kind = kind.name(),
            message_id = kind.message_id(),
            origin = self.name,
            "the cluster refuses this host: another client has taken the image's lock. Nothing of what is written here reaches \
             the image any more; detach the disk, and attach it where it belongs"
        );
    }

    fn landed(&mut self, one: Ended) {
        let key = usize::try_from(one.tag).expect("a slab's key");
        match (self.steps.remove(key), one.result) {
            (Step::BeforeFlush(token), Ok(())) => self.flush(token),
            (Step::Last(token) | Step::BeforeFlush(token), result) => {
                self.end(token, result, one.buf);
            }
        }
    }
}

fn step(token: Token, fua: bool) -> Step {
    if fua {
        Step::BeforeFlush(token)
    } else {
        Step::Last(token)
    }
}

impl Origin for RbdOrigin {
    fn geometry(&self) -> OriginGeometry {
        self.geometry
    }

    fn grow(&mut self, size: Bytes) -> Result<(), IoError> {
        let found = self.running.size().map_err(|_| IoError::Failed)?;
        let whole = size.is_multiple_of(self.geometry.sector.get());
        if size < self.geometry.size || size.get() > found || !whole {
            return Err(IoError::Invalid);
        }
        self.geometry.size = size;
        Ok(())
    }

    fn submit(&mut self, op: OriginOp, _now: Instant) {
        let token = op.token;
        if let Err(error) = op.verb.check(&self.geometry) {
            self.ended.push(op.ended(Err(error)));
            return;
        }
        match op.verb {
            OriginVerb::Read {
                offset,
                length,
                buf,
            } => self.read(token, offset, length, buf),
            OriginVerb::Write { offset, data, fua } => {
                self.begin(step(token, fua), |running, tag| {
                    running.write(tag, offset.get(), data)
                });
            }
            OriginVerb::Flush => self.flush(token),
            OriginVerb::Discard { offset, length } => {
                self.begin(Step::Last(token), |running, tag| {
                    running.discard(tag, offset.get(), length.get())
                });
            }
            OriginVerb::WriteZeroes {
                offset,
                length,
                may_unmap,
                fua,
            } => {
                let zeroes = if may_unmap {
                    Zeroes::MayUnmap
                } else {
                    Zeroes::Allocate
                };
                self.begin(step(token, fua), |running, tag| {
                    running.zero(tag, offset.get(), length.to_usize(), zeroes)
                });
            }
        }
    }

    fn poll(&mut self, _now: Instant, done: &mut Vec<OriginDone>) {
        while let Some(completion) = self.source.pop() {
            if !completion.goes_on {
                self.listen();
            }
        }
        let mut landed = Vec::new();
        self.running.ended(|one| landed.push(one));
        for one in landed {
            self.landed(one);
        }
        done.append(&mut self.ended);
    }

    fn next_deadline(&self) -> Option<Instant> {
        (!self.ended.is_empty()).then_some(Instant::ZERO)
    }

    fn sources(&self) -> Sources {
        Sources::from_slice(&[self.source.id()])
    }

    /// Who else writes the image cannot be known afterwards.
    fn fingerprint(&self) -> Option<u128> {
        None
    }

    fn error_number(&mut self, token: Token) -> Option<i32> {
        self.numbers.take(token)
    }
}

impl fmt::Debug for RbdOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RbdOrigin({})", self.name)
    }
}
