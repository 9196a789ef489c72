//! A host's end of the link.

use super::{Around, Asker, Site};
use crate::sites::clients::Piece;
use crate::sites::link::{Frame, Notice};
use crate::violation::Violation;
use block_io::Verb;
use cache::RequestId;
use handoff::Event;

impl Site {
    /// It learns something from its end of the link.
    pub(in crate::sites) fn notice(
        &mut self,
        notice: Notice,
        at: &mut Around,
    ) -> Result<(), Violation> {
        at.run.event(&[33, self.number as u64], || {
            format!("host {} learns {notice:?}", self.number)
        });
        match notice {
            Notice::Linked => {
                let is_there = self.life.clients.are_there();
                at.link
                    .send(self.number, Frame::Client { is_there }, at.run);
                self.tell(Event::Linked, at)?;
                self.ask_for_bytes(at);
                Ok(())
            }
            Notice::Lost => {
                self.life.clients.unsend_reads();
                self.life.clients.incoming(false, at.run.now());
                self.tell(Event::LinkLost, at)
            }
            Notice::Frame(Frame::Client { is_there }) => {
                self.life.clients.incoming(is_there, at.run.now());
                Ok(())
            }
            Notice::Frame(Frame::Read {
                number,
                offset,
                length,
            }) => {
                self.life.clients.incoming_reads(at.run.now());
                if self.serves() {
                    let id = RequestId(at.run.next_id());
                    self.life.asked.insert(id, Asker::Peer(number));
                    self.ask_cache(id, Verb::Read { offset, length }, at);
                } else {
                    let bytes = None;
                    at.link
                        .send(self.number, Frame::Bytes { number, bytes }, at.run);
                }
                Ok(())
            }
            Notice::Frame(Frame::Bytes { number, bytes }) => {
                // A read that the cache has by now does not wait for them any more.
                let is_awaited = self.life.clients.got(number, bytes.is_some());
                if let (true, Some(bytes)) = (is_awaited, bytes) {
                    at.run.hit("read by the owner");
                    self.answer(number, Ok(bytes));
                }
                Ok(())
            }
            Notice::Frame(Frame::Said(message)) => {
                let guest_has_stopped = self.life.clients.have_stopped(at.run.now());
                self.tell(
                    Event::Said {
                        message,
                        guest_has_stopped,
                    },
                    at,
                )
            }
        }
    }

    /// Reads of a standby's clients that nobody was asked for.
    pub(super) fn ask_for_bytes(&mut self, at: &mut Around) {
        if !at.link.is_linked(self.number) {
            return;
        }
        for (number, Piece { offset, length }) in self.life.clients.send_reads() {
            let read = Frame::Read {
                number,
                offset,
                length,
            };
            at.link.send(self.number, read, at.run);
        }
    }
}
