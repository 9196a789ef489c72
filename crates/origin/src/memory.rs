//! An origin in memory, with a power switch: what the simulated world uses.
//!
//! The medium outlives the origin's sessions, as shared storage outlives a host:
//! `medium.kill()` is the death of our process, `medium.crash()` a power cut of the storage
//! host as well.

use crate::{Origin, Sources};
use block_io::{IoError, OriginDone, OriginGeometry, OriginOp};
use medium::{Medium, Session};
use units::{Bytes, Instant};

/// A session of a [`Medium`] as an origin.
#[derive(Debug)]
pub struct MemoryOrigin {
    session: Session,
    fingerprint: Option<u128>,
}

impl MemoryOrigin {
    /// Opens the medium; an older origin on it ends as if its process had died.
    pub fn open(medium: &Medium) -> Self {
        Self {
            session: medium.open(),
            fingerprint: None,
        }
    }

    /// Makes it answer with this fingerprint.
    #[must_use]
    pub fn with_fingerprint(mut self, fingerprint: u128) -> Self {
        self.fingerprint = Some(fingerprint);
        self
    }
}

impl Origin for MemoryOrigin {
    fn geometry(&self) -> OriginGeometry {
        self.session.medium().options().geometry()
    }

    fn submit(&mut self, op: OriginOp, now: Instant) {
        self.session.submit(op.token, op.verb, now);
    }

    fn poll(&mut self, now: Instant, done: &mut Vec<OriginDone>) {
        self.session.poll(now, done);
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.session.next_deadline()
    }

    fn sources(&self) -> Sources {
        Sources::new()
    }

    /// A medium has one size.
    fn grow(&mut self, size: Bytes) -> Result<(), IoError> {
        if size == self.geometry().size {
            Ok(())
        } else {
            Err(IoError::Invalid)
        }
    }

    fn fingerprint(&self) -> Option<u128> {
        self.fingerprint
    }
}
