//! What QEMU says, in its order, and what it is told.
//!
//! Invariants:
//! - A reply that QEMU waits for while a queue drains is sent when the queue's last interrupt was
//!   delivered; no message is read meanwhile.
//! - A message that starts a queue reserves the disk, or waits for that; no message is read meanwhile.
//! - A QEMU that hangs up meanwhile is heard: nobody is there for whom the queue could start, or to be told of its drain.

use crate::answer::{Answer, Wait};
use crate::device::Device;
use crate::limits::MESSAGES_PER_TURN;
use crate::socket::{Message, Received, Socket, SocketError, send};
use crate::tokens::Task;
use frontend::{Reservation, Reserving};
use ring::{Op, Source};
use std::error::Error;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use vhost_protocol::{Header, MessageError, Request, reply};

/// The conversation with a QEMU.
pub(crate) struct Session {
    socket: Socket,
    /// What the log calls the disk.
    disk: String,
    /// The socket may have something.
    is_readable: bool,
    /// A poll of the socket is in flight.
    is_polled: bool,
    hang_up: HangUp,
    /// A message whose reply waits.
    held: Option<(Header, Wait)>,
    /// A message that waits for the reservation of the disk.
    parked: Option<Message>,
    reserving: Reserving,
    /// Requests taken up that an earlier connection had begun.
    resumed: u64,
}

/// What is known of a hang-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HangUp {
    /// Nobody would tell of it.
    Unwatched,
    Watched,
    /// QEMU has hung up.
    Seen,
}

/// Why a session is over.
#[derive(Debug)]
pub(crate) enum Ended {
    /// The VM has gone.
    Gone,
    /// It made no sense, or could not be answered.
    Failed(Box<dyn Error>),
}

impl From<SocketError> for Ended {
    fn from(error: SocketError) -> Self {
        Self::Failed(error.into())
    }
}

impl From<MessageError> for Ended {
    fn from(error: MessageError) -> Self {
        Self::Failed(error.into())
    }
}

impl Session {
    pub(crate) fn new(socket: OwnedFd, disk: &str) -> Self {
        Self {
            socket: Socket::new(socket),
            disk: disk.to_owned(),
            is_readable: true,
            is_polled: false,
            hang_up: HangUp::Unwatched,
            held: None,
            parked: None,
            reserving: Reserving::default(),
            resumed: 0,
        }
    }

    pub(crate) fn reserve_in(&mut self, reservation: Reservation) {
        self.reserving = Reserving::new(reservation);
    }

    /// Whether a message waits for the reservation of the disk.
    pub(crate) fn waits_for_reservation(&self) -> bool {
        self.parked.is_some()
    }

    /// Whether QEMU waits for a reply until a queue is idle.
    pub(crate) fn holds_reply(&self) -> bool {
        self.held.is_some()
    }

    /// Requests taken up that an earlier connection had begun.
    pub(crate) fn resumed(&self) -> u64 {
        self.resumed
    }

    /// The poll of the socket has ended.
    pub(crate) fn polled(&mut self) {
        self.is_polled = false;
        self.is_readable = true;
    }

    /// QEMU has hung up.
    pub(crate) fn hung_up(&mut self) {
        self.hang_up = HangUp::Seen;
    }

    /// Waits for the next message, and for the end of QEMU.
    pub(crate) fn poll_socket(&mut self, source: &Source) {
        if self.hang_up == HangUp::Unwatched {
            self.hang_up = HangUp::Watched;
            let fd = Rc::clone(self.socket.fd());
            source.submit(Task::HangUp.token(), Op::PollHangUp { fd });
        }
        if !self.is_polled && !self.is_paused() {
            self.is_polled = true;
            let fd = Rc::clone(self.socket.fd());
            source.submit(Task::Socket.token(), Op::PollIn { fd });
        }
    }

    /// Reads messages, and does to the device what they say.
    ///
    /// # Errors
    /// Why the session is over.
    pub(crate) fn read_messages(&mut self, device: &mut Device) -> Result<(), Ended> {
        if self.is_paused() && self.hang_up == HangUp::Seen {
            return Err(Ended::Gone);
        }
        if let Some(message) = self.parked.take() {
            self.handle_in_order(device, message)?;
        }
        let mut left = MESSAGES_PER_TURN;
        while self.is_readable && !self.is_paused() && left > 0 {
            left -= 1;
            match self.socket.read_message()? {
                Received::Message(message) => self.handle_in_order(device, message)?,
                Received::Nothing => self.is_readable = false,
                Received::End => return Err(Ended::Gone),
            }
        }
        Ok(())
    }

    /// No message is read while one waits, or is not answered.
    fn is_paused(&self) -> bool {
        self.held.is_some() || self.parked.is_some()
    }

    fn handle_in_order(&mut self, device: &mut Device, message: Message) -> Result<(), Ended> {
        if message.header.starts_ring() && !self.reserving.reserve() {
            self.parked = Some(message);
            return Ok(());
        }
        self.handle(device, message)
    }

    fn handle(&mut self, device: &mut Device, message: Message) -> Result<(), Ended> {
        let Message {
            header,
            payload,
            descriptors,
        } = message;
        let acknowledges = device.acknowledges(&header);
        let answer = match Request::decode(&header, &payload) {
            Ok(request) => {
                tracing::trace!(disk = self.disk, ?request, "message");
                let answer = device.handle(&header, request, descriptors);
                answer.map_err(|error| Box::new(error) as Box<dyn Error>)
            }
            Err(error @ MessageError::Unknown { .. }) if acknowledges => Err(error.into()),
            Err(error) => return Err(error.into()),
        };
        self.count_resumed(device.take_resumed());
        match answer {
            Ok(Answer::Done) if !acknowledges => {}
            Ok(Answer::Done) => self.socket.send(&reply::number(&header, 0), None)?,
            Ok(Answer::Number(number)) => {
                self.socket.send(&reply::number(&header, number), None)?;
            }
            Ok(Answer::Bytes(bytes, file)) => {
                self.socket.send(&bytes, file.as_ref().map(AsFd::as_fd))?;
            }
            Ok(Answer::Later(wait)) => self.held = Some((header, wait)),
            Err(error) if acknowledges => {
                let (disk, code, error) = (&self.disk, header.code, error.as_ref());
                tracing::warn!(disk, code, error, "a message was refused");
                self.socket.send(&reply::number(&header, 1), None)?;
            }
            Err(error) => return Err(Ended::Failed(error)),
        }
        Ok(())
    }

    fn count_resumed(&mut self, resumed: usize) {
        if resumed > 0 {
            let disk = &self.disk;
            tracing::info!(
                disk,
                resumed,
                "requests of an earlier connection are taken up"
            );
            self.resumed += resumed as u64;
        }
    }

    /// Sends the reply that was held, if what it waits for has happened.
    ///
    /// # Errors
    /// Why the session is over.
    pub(crate) fn settle(&mut self, device: &mut Device) -> Result<(), Ended> {
        let Some((header, wait)) = self.held else {
            return Ok(());
        };
        let said = match wait {
            Wait::Queue(queue) if device.queues().vring(queue).is_idle() => {
                let base = device.queues_mut().stop(queue);
                let ring = u32::try_from(queue).expect("few queues");
                self.socket
                    .send(&reply::ring_base(&header, ring, base), None)
            }
            Wait::Reset if device.queues().is_idle() => {
                device.reset();
                if device.acknowledges(&header) {
                    self.socket.send(&reply::number(&header, 0), None)
                } else {
                    Ok(())
                }
            }
            Wait::Queue(_) | Wait::Reset => return Ok(()),
        };
        self.held = None;
        if device.queues().running() == 0 {
            self.reserving.release();
        }
        Ok(said?)
    }

    /// Tells QEMU that the disk's size may be another, if it listens.
    pub(crate) fn tell_size(&self, device: &Device) {
        if let Some(channel) = device.channel()
            && let Err(error) = send(channel, &reply::config_changed(), None)
        {
            let disk = &self.disk;
            tracing::warn!(disk, %error, "the guest was not told of the size");
        }
    }

    /// Shuts the socket down: QEMU learns of it at once, rather than when what the ring has of the
    /// socket is through.
    pub(crate) fn shut_down(&self) {
        if let Err(error) = rustix::net::shutdown(self.socket.fd(), rustix::net::Shutdown::Both) {
            tracing::trace!(disk = self.disk, %error, "the socket was shut down already");
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // The poll in flight holds the socket open until its cancellation is through.
        self.shut_down();
    }
}
