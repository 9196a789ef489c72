//! Messages from other threads, waking the ring.
//!
//! A plain channel carries the messages; an eventfd, read through the ring, wakes its thread.
//! `rung` says that the bell has been rung since the receiver last looked, so that a burst of
//! messages costs one write:
//!
//! ```text
//!  sender:   put message, then  if !rung.swap(true)  write eventfd
//!  receiver: (bell heard)  rung.swap(false), then take messages until there are none
//! ```
//!
//! A message put after the receiver found nothing meets `rung == false` and rings again.

use crate::op::Op;
use crate::ring::{Ring, Source, SourceId};
use block_io::{Buf, BufPool};
use rustix::event::{EventfdFlags, eventfd};
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

/// Bytes of an eventfd's counter.
const COUNTER_BYTES: usize = 8;

struct Bell {
    eventfd: OwnedFd,
    rung: AtomicBool,
}

impl Bell {
    fn ring(&self) {
        if !self.rung.swap(true, Ordering::AcqRel) {
            // An eventfd accepts eight bytes unless its counter is near 2^64, which `rung`
            // rules out; a signal cannot interrupt a write that does not block.
            #[allow(clippy::host_endian_bytes, reason = "an eventfd counts in host order")]
            let one = 1_u64.to_ne_bytes();
            let written = rustix::io::write(&self.eventfd, &one);
            assert!(written == Ok(COUNTER_BYTES), "an eventfd takes its counter");
        }
    }
}

/// The sending half: clone it and hand it to any thread.
pub struct Sender<T> {
    /// Taken only by `drop`, which must close the channel before it rings.
    messages: Option<mpsc::Sender<T>>,
    bell: Arc<Bell>,
}

/// The receiver is gone; the message comes back.
#[derive(PartialEq, Eq)]
pub struct SendError<T>(pub T);

impl<T> fmt::Debug for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SendError")
    }
}

impl<T> fmt::Display for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the mailbox is gone")
    }
}

impl<T> std::error::Error for SendError<T> {}

impl<T> Sender<T> {
    /// Puts a message in the mailbox and wakes its thread.
    ///
    /// # Errors
    /// If the mailbox has been dropped; the message comes back.
    pub fn send(&self, message: T) -> Result<(), SendError<T>> {
        let Some(messages) = &self.messages else {
            return Err(SendError(message));
        };
        messages
            .send(message)
            .map_err(|mpsc::SendError(message)| SendError(message))?;
        self.bell.ring();
        Ok(())
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Self {
            messages: self.messages.clone(),
            bell: Arc::clone(&self.bell),
        }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        // The receiver must find the channel closed when it wakes.
        drop(self.messages.take());
        self.bell.ring();
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sender")
    }
}

/// The receiving half, on the ring's thread.
pub struct Mailbox<T> {
    messages: mpsc::Receiver<T>,
    bell: Arc<Bell>,
    /// The ring's own descriptor of the eventfd.
    listening: Rc<OwnedFd>,
    source: Source,
    closed: bool,
}

/// A mailbox on `ring` and its first sender.
///
/// # Errors
/// If the system has no descriptors left.
pub fn mailbox<T>(ring: &Ring) -> io::Result<(Sender<T>, Mailbox<T>)> {
    // Blocking, since the ring waits for a blocking descriptor but returns at once with
    // EAGAIN from one that is not.
    let eventfd = eventfd(0, EventfdFlags::CLOEXEC)?;
    let listening = Rc::new(eventfd.try_clone()?);
    let bell = Arc::new(Bell {
        eventfd,
        rung: AtomicBool::new(false),
    });
    let (sender, messages) = mpsc::channel();
    let mailbox = Mailbox {
        messages,
        bell: Arc::clone(&bell),
        listening,
        source: ring.source(),
        closed: false,
    };
    mailbox.listen(BufPool::new().take(COUNTER_BYTES));
    let sender = Sender {
        messages: Some(sender),
        bell,
    };
    Ok((sender, mailbox))
}

impl<T> Mailbox<T> {
    /// The source to watch in [`Ring::take_ready`].
    pub fn id(&self) -> SourceId {
        self.source.id()
    }

    /// Appends every message that has arrived to `into`. Call it when the source is ready.
    pub fn drain(&mut self, into: &mut Vec<T>) {
        while let Some(heard) = self.source.pop() {
            if let Some(buf) = heard.buf {
                self.listen(buf);
            }
        }
        self.bell.rung.swap(false, Ordering::AcqRel);
        loop {
            match self.messages.try_recv() {
                Ok(message) => into.push(message),
                Err(mpsc::TryRecvError::Empty) => return,
                Err(mpsc::TryRecvError::Disconnected) => {
                    self.closed = true;
                    return;
                }
            }
        }
    }

    /// True once every sender is gone and every message was drained.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    fn listen(&self, buf: Buf) {
        self.source.submit(
            0,
            Op::Read {
                file: Rc::clone(&self.listening),
                offset: 0,
                buf,
                length: COUNTER_BYTES,
            },
        );
    }
}

impl<T> fmt::Debug for Mailbox<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mailbox({:?})", self.source)
    }
}
