//! A host's end of the link.

use super::shipping::Shipper;
use super::standing::Standby;
use super::{Around, Site};
use crate::sites::clients::Piece;
use crate::sites::link::{Frame, Notice};
use crate::violation::Violation;
use handoff::{Event, Message, Ownership, Role};

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
                end_copies(self, at);
                self.tell(Event::Linked, at)?;
                self.borrows(at).lender_linked(true);
                self.ask_for_bytes(at);
                Ok(())
            }
            Notice::Lost => {
                self.life.clients.unsend_reads();
                self.life.clients.incoming(false, at.run.now());
                self.borrows(at).lender_linked(false);
                end_copies(self, at);
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
                self.lends(at).read(number, Piece { offset, length });
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
            Notice::Frame(
                frame @ (Frame::Borrow { .. }
                | Frame::Lent(..)
                | Frame::Watch { .. }
                | Frame::Watched { .. }
                | Frame::AskStale { .. }
                | Frame::Stale { .. }),
            ) => {
                hears_of_loans(self, frame, at);
                Ok(())
            }
            Notice::Frame(Frame::Said(message)) => {
                let guest_has_stopped = self.life.clients.have_stopped(at.run.now());
                let role = self.life.ownership.as_ref().map(Ownership::role);
                self.life.arrival.said(message, role);
                if role == Some(Role::Owner) && message == (Message::Claim { is_return: false }) {
                    self.life.clients.incoming_claims(at.run.now());
                }
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

/// What was copied in a session counts only in that one.
fn end_copies(site: &mut Site, at: &mut Around) {
    site.life.ships.end_copy();
    site.life.noted.unwatch();
    Standby::of(site).stand_down(at);
}

/// The other host asks for what is here, or answers.
fn hears_of_loans(site: &mut Site, frame: Frame, at: &mut Around) {
    match frame {
        Frame::Borrow {
            number,
            epoch,
            question,
        } => site.lends(at).lend(number, epoch, question),
        Frame::Lent(number, lent) => {
            if !Standby::of(site).records_came(number, &lent, at) {
                site.borrows(at).borrowed(number, lent);
            }
        }
        Frame::Watch { number } => Shipper::of(site).watch(number, at),
        Frame::AskStale { number, epoch } => {
            let from = site.number;
            site.life.tell_stale(from, (number, epoch), at);
        }
        Frame::Stale { number, runs } => Standby::of(site).stale_came(number, runs, at),
        Frame::Watched { number, epoch } => Standby::of(site).watched(number, epoch, at),
        Frame::Said(_) | Frame::Client { .. } | Frame::Read { .. } | Frame::Bytes { .. } => {
            unreachable!("these are about no loan")
        }
    }
}
