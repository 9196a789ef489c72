//! What an operator says about a disk, and what both hosts do while its VM is expected to move.

use super::Roamer;
use super::trace::Begun;
use crate::orders::{Obeyed, Order};
use crate::problems::on_its_way;
use crate::roaming::naming::Foreseen;
use crate::roaming::register;
use crate::traces::Fault as _;
use api::problem::ProblemKind;
use api::types::Problem;
use handoff::{IncomingClient, Message, Role};
use link_protocol::{Frame, Message as Said};
use std::sync::Arc;
use std::time::Instant;
use telemetry::Parent;

impl Roamer {
    pub(super) async fn ordered(&mut self, at: usize, order: Order) {
        // Who asked may have gone.
        match order {
            Order::TakeOver {
                lose_dirty,
                above,
                reply,
            } => {
                let of = (&self.disks, self.ownership.role());
                self.trace.begin(Begun::TakenOver, &above, of);
                self.take_over(lose_dirty, reply).await;
            }
            Order::Find(reply) => {
                self.find().await;
                let _ = reply.send(Ok(()));
            }
            Order::Turn { to, reply } => {
                let _ = reply.send(self.turn_to(&to).await);
            }
            Order::Announce { to, above, reply } => {
                let _ = reply.send(self.announce(to, &above).await);
            }
            Order::Abort(reply) => {
                let _ = reply.send(self.abort().await);
            }
            Order::Set(settings, reply) => {
                self.disks[at].steps().plan.set(&settings);
                self.disks[at].stand_anew();
                self.stand_or_not();
                if let Some(rate) = settings.rate {
                    let steps = self.disks[at].steps();
                    self.images
                        .set_rate(&steps.control, &steps.entry.vm(), rate.0);
                }
                let _ = reply.send(Ok(()));
            }
        }
    }

    /// The disks go to this peer, or come from there.
    async fn turn_to(&mut self, name: &str) -> Result<(), Problem> {
        let Some(peer) = self.disks.partner().named(name) else {
            let detail = format!("this host has no peer '{name}'");
            let problem = Problem::new(ProblemKind::NoSuchPeer, detail);
            return Err(problem.with_remedy("hearth migrate list"));
        };
        if self.turn(peer).await {
            Ok(())
        } else {
            Err(on_its_way(self.disks.name()))
        }
    }

    async fn announce(&mut self, to: Option<String>, above: &Parent) -> Result<(), Problem> {
        let refused = |detail: String| Problem::new(ProblemKind::Refused, detail);
        let to_here = to.is_none();
        match to {
            Some(to) => self.turn_to(&to).await?,
            None => self.find().await,
        }
        let (disk, partner) = (self.disks.name(), self.disks.partner());
        let there = partner.there();
        match (self.ownership.role(), to_here) {
            (Role::Owner, false) | (Role::Standby | Role::Claiming, true) => {}
            (Role::Owner, true) => {
                let detail = format!("the disk '{disk}' is here already");
                return Err(refused(detail).with_remedy(format!("--to {there}")));
            }
            (Role::Standby | Role::Claiming, false) => {
                let detail = format!("the disk '{disk}' is not here: it stands by");
                return Err(refused(detail).with_remedy("--here"));
            }
            (Role::Taking | Role::Granting | Role::Giving, _) => return Err(on_its_way(disk)),
        }
        if !self.session.stands() {
            let detail = format!("there is no session with '{there}'");
            return Err(refused(detail).with_remedy("hearth migrate show says why"));
        }
        self.announced(above);
        self.trace.tell(&self.disks).await;
        let unit = self.disks.unit();
        self.disks.say(Frame::notice(Said::Announce { unit })).await;
        Ok(())
    }

    async fn abort(&mut self) -> Result<(), Problem> {
        let disk = self.disks.name();
        if let Role::Taking | Role::Giving = self.ownership.role() {
            let detail = format!("it is decided that the disk '{disk}' moves");
            let problem = Problem::new(ProblemKind::Refused, detail);
            return Err(problem.with_remedy("let it end, and move the VM back"));
        }
        self.withdrawn();
        let unit = self.disks.unit();
        self.disks.say(Frame::notice(Said::Withdraw { unit })).await;
        Ok(())
    }

    /// The VM is about to move, as an operator of either host says; below this span, if that is known.
    pub(super) fn announced(&mut self, above: &Parent) {
        let disk = self.disks.name();
        tracing::info!(%disk, "a move of the disk is expected");
        let of = (&self.disks, self.ownership.role());
        self.trace.begin(Begun::Announced, above, of);
        self.expected.announce(Instant::now());
        self.disks.see_incoming(IncomingClient::Announced);
        self.drain_or_not();
        self.stand_or_not();
    }

    /// An operator of either host has aborted the move.
    pub(super) fn withdrawn(&mut self) {
        self.trace.ends("withdrawn", None);
        self.expected.abort();
        self.expect_none();
    }

    /// The move has come, or is late.
    pub(super) fn has_ended(&mut self) {
        if self.expected.end() {
            self.expect_none();
        }
    }

    fn expect_none(&mut self) {
        self.disks.see_incoming(IncomingClient::Withdrawn);
        self.drain_or_not();
        self.stand_or_not();
    }

    /// What is dirty goes to the origin ahead of the disks, while they are expected to go.
    pub(super) fn drain_or_not(&mut self) {
        let is_there = self.disks.have_clients().1;
        let is_expected = is_there || self.expected.is_announced();
        let may_go = is_expected && self.ownership.serves();
        for disk in self.disks.iter_mut() {
            disk.drain_or_not(may_go);
        }
    }

    /// Lets the records say where the disks may go.
    pub(super) fn foresee(&mut self, now: Instant) {
        let is_there = self.disks.have_clients().1;
        let is_here = self.disks.have_clients().0;
        let may_ship = self.disks.iter().any(|disk| disk.steps().may_ship());
        let foreseen = match self.ownership.role() {
            Role::Owner if may_ship => Foreseen::Nothing,
            Role::Owner if is_there || self.expected.is_announced() => Foreseen::Go,
            Role::Owner => Foreseen::Stay,
            Role::Standby | Role::Claiming if self.expected.prepares(is_here) => Foreseen::Come,
            Role::Standby | Role::Claiming | Role::Taking | Role::Granting | Role::Giving => {
                Foreseen::Nothing
            }
        };
        let disks = self.disks.iter().map(|disk| Arc::clone(disk.steps()));
        self.naming.foresee(foreseen, disks.collect(), now);
    }

    /// An operator says that the owner is gone: this host does in its place what it would have done last.
    async fn take_over(&mut self, lose_dirty: bool, reply: Obeyed) {
        let taken = match self.ownership.role() {
            Role::Standby | Role::Claiming => {
                let registers = self.disks.iter().map(|disk| disk.steps().register.clone());
                let registers: Vec<_> = registers.collect();
                let taking = tokio::task::spawn_blocking(move || {
                    register::take_over(&registers, lose_dirty)
                });
                taking.await.unwrap_or_else(|error| {
                    Err(Problem::new(ProblemKind::Failed, error.to_string()))
                })
            }
            _ => Err(on_its_way(self.disks.name())),
        };
        match taken {
            Ok(epoch) => {
                let (disk, partner) = (self.disks.name(), self.disks.partner());
                let from = partner.there();
                tracing::warn!(%disk, from, epoch, "an operator takes the disk from an owner that is gone");
                self.hear(Message::Grant { epoch }, false).await;
                // Who asked may have gone.
                let _ = reply.send(Ok(()));
            }
            Err(problem) => {
                let (kind, why) = problem.fault();
                self.trace.ends("refused", Some((&kind, &why)));
                let _ = reply.send(Err(problem));
            }
        }
    }
}
