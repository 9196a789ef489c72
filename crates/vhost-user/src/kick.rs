//! The eventfd by which a guest kicks a queue, and its poll, which goes on from kick to kick.

use crate::bell;
use std::os::fd::OwnedFd;
use std::rc::Rc;

/// How the poll of a kick stands when it tells of something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Poll {
    /// The guest has kicked, and the poll waits for the next time.
    GoesOn,
    /// The guest has kicked; the poll has ended.
    Ended,
    /// The eventfd cannot be polled.
    Failed,
}

/// One queue's.
#[derive(Debug, Default)]
pub(crate) struct Kick {
    fd: Option<Rc<OwnedFd>>,
    /// A poll of it is in flight.
    is_polled: bool,
    /// Counts eventfds, so that polls of old ones are known.
    generation: u32,
}

impl Kick {
    /// Sets the eventfd; the one before it is [forgotten](Kick::forget).
    pub(crate) fn set(&mut self, fd: Rc<OwnedFd>) {
        self.fd = Some(fd);
        self.is_polled = false;
    }

    /// Forgets the eventfd. Gives the generation of a poll of it that is in flight. Takes the counter down to
    /// zero: QEMU takes what is left for a kick, and a kick starts the stopped device of a guest older than
    /// virtio 1.0 again.
    pub(crate) fn forget(&mut self) -> Option<u32> {
        let generation = self.generation;
        self.generation = generation.wrapping_add(1);
        let fd = self.fd.take()?;
        bell::clear(&fd);
        std::mem::take(&mut self.is_polled).then_some(generation)
    }

    /// What to poll, and its generation, unless that is polled already.
    pub(crate) fn poll(&mut self) -> Option<(Rc<OwnedFd>, u32)> {
        let fd = self.fd.as_ref()?;
        let was_polled = std::mem::replace(&mut self.is_polled, true);
        (!was_polled).then(|| (Rc::clone(fd), self.generation))
    }

    /// The poll of this generation tells of a kick or has failed. False: it was of an eventfd that is gone.
    pub(crate) fn polled(&mut self, generation: u32, poll: Poll) -> bool {
        if self.generation != generation || self.fd.is_none() {
            return false;
        }
        match poll {
            Poll::GoesOn => {}
            Poll::Ended => self.is_polled = false,
            // It can never be polled again; QEMU may set another.
            Poll::Failed => {
                *self = Self {
                    generation,
                    ..Self::default()
                }
            }
        }
        true
    }
}
