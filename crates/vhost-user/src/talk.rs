//! What QEMU says, in its order, and what it is told.

use crate::connection::{Connection, Phase};
use crate::limits::MESSAGES_PER_TURN;
use crate::obey::{Answer, Wait};
use crate::socket::{Heard, Message, SocketError, say};
use crate::vring::Vring;
use std::os::fd::AsFd;
use vhost_protocol::{Header, MessageError, ProtocolFeatures, Request, reply};

impl Connection {
    pub(crate) fn hear(&mut self) {
        if let Some(message) = self.parked.take() {
            self.obey_in_turn(message);
        }
        let mut left = MESSAGES_PER_TURN;
        while self.is_readable && !self.is_deaf() && self.phase == Phase::Open && left > 0 {
            left -= 1;
            match self.socket.hear() {
                Ok(Heard::Message(message)) => self.obey_in_turn(message),
                Ok(Heard::Nothing) => self.is_readable = false,
                Ok(Heard::End) => {
                    let disk = &self.name;
                    tracing::debug!(disk, "the VM has gone");
                    self.phase = Phase::Broken;
                }
                Err(error) => self.fail(&error),
            }
        }
    }

    /// No message is read while one waits, or is not answered.
    pub(crate) fn is_deaf(&self) -> bool {
        self.held.is_some() || self.parked.is_some()
    }

    fn obey_in_turn(&mut self, message: Message) {
        if message.header.starts_ring() && !self.reserving.reserve() {
            self.parked = Some(message);
        } else {
            self.obey(message);
        }
    }

    fn obey(&mut self, message: Message) {
        let Message {
            header,
            payload,
            descriptors,
        } = message;
        let acknowledges =
            header.wants_acknowledgement && self.device.protocol.has(ProtocolFeatures::REPLY_ACK);
        let answer = match Request::decode(&header, &payload) {
            Ok(request) => {
                tracing::trace!(disk = self.name, ?request, "message");
                self.device
                    .obey(&header, request, descriptors)
                    .map_err(|error| Box::new(error) as Box<dyn std::error::Error>)
            }
            Err(error @ MessageError::Unknown { .. }) if acknowledges => Err(error.into()),
            Err(error) => return self.fail(error),
        };
        let resumed = std::mem::take(&mut self.device.resumed);
        if resumed > 0 {
            let disk = &self.name;
            tracing::info!(
                disk,
                resumed,
                "requests of an earlier connection are taken up"
            );
            self.counters.resumed += resumed as u64;
        }
        let said = match answer {
            Ok(Answer::Done) if !acknowledges => Ok(()),
            Ok(Answer::Done) => self.socket.say(&reply::number(&header, 0), None),
            Ok(Answer::Number(number)) => self.socket.say(&reply::number(&header, number), None),
            Ok(Answer::Bytes(bytes, file)) => {
                self.socket.say(&bytes, file.as_ref().map(AsFd::as_fd))
            }
            Ok(Answer::Later(wait)) => {
                self.held = Some((header, wait));
                Ok(())
            }
            Err(error) if acknowledges => {
                let (disk, code) = (&self.name, header.code);
                let error = error.as_ref();
                tracing::warn!(disk, code, error, "a message was refused");
                self.socket.say(&reply::number(&header, 1), None)
            }
            Err(error) => return self.fail(error.as_ref()),
        };
        if let Err(error) = said {
            self.fail(&error);
        }
    }

    /// Sends the reply that was held, if what it waits for has happened.
    pub(crate) fn settle(&mut self) {
        let Some((header, wait)) = self.held else {
            return;
        };
        let said = match wait {
            Wait::Queue(queue) if self.device.vrings[queue].is_idle() => {
                let base = self.device.stop(queue);
                let ring = u32::try_from(queue).expect("few queues");
                self.socket
                    .say(&reply::ring_base(&header, ring, base), None)
            }
            Wait::Reset if self.device.is_idle() => {
                self.device.reset();
                self.acknowledge(&header)
            }
            Wait::Queue(_) | Wait::Reset => return,
        };
        self.held = None;
        if !self.device.vrings.iter().any(Vring::is_running) {
            self.reserving.release();
        }
        if let Err(error) = said {
            self.fail(&error);
        }
    }

    fn acknowledge(&self, header: &Header) -> Result<(), SocketError> {
        if header.wants_acknowledgement && self.device.protocol.has(ProtocolFeatures::REPLY_ACK) {
            self.socket.say(&reply::number(header, 0), None)
        } else {
            Ok(())
        }
    }
    /// Once for each connection: a QEMU that has known the disk under a connection before looks
    /// whether its size is another. It listens when rings run.
    pub(crate) fn announce(&mut self) {
        if std::mem::take(&mut self.device.to_announce) {
            self.tell_of_size();
        }
    }

    pub(crate) fn tell_of_size(&self) {
        if let Some(channel) = &self.device.channel
            && self.phase == Phase::Open
            && let Err(error) = say(channel, &reply::config_changed(), None)
        {
            let disk = &self.name;
            tracing::warn!(disk, %error, "the guest was not told of the size");
        }
    }
}
