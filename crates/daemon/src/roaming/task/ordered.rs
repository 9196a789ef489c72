//! What an operator says about a disk, and what both hosts do while its VM is expected to move.

use super::Roamer;
use crate::orders::{Obeyed, Order};
use crate::problems::on_its_way;
use crate::roaming::draining::Draining;
use api::problem::ProblemKind;
use api::roaming::{CacheMove, MovePhase};
use api::types::Problem;
use configuration::Text;
use handoff::{IncomingClient, Message, Role};
use link_protocol::{Frame, Message as Said};
use std::sync::Arc;
use std::time::Instant;

impl Roamer {
    pub(super) async fn ordered(&mut self, order: Order) {
        // Who asked may have gone.
        match order {
            Order::TakeOver { lose_dirty, reply } => self.take_over(lose_dirty, reply).await,
            Order::Announce { to_here, reply } => {
                let _ = reply.send(self.announce(to_here).await);
            }
            Order::Abort(reply) => {
                let _ = reply.send(self.abort().await);
            }
            Order::Set(settings, reply) => {
                self.steps.plan.set(&settings);
                // What is copied in another way begins anew.
                self.loans.stand(None, &self.steps, &self.tell);
                self.stand_or_not();
                let _ = reply.send(Ok(()));
            }
        }
    }

    async fn announce(&mut self, to_here: bool) -> Result<(), Problem> {
        let refused = |detail: String| Problem::new(ProblemKind::Refused, detail);
        let (disk, there) = (&self.steps.entry.config.name, self.steps.peering.there());
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
        self.announced();
        let unit = self.unit();
        self.say(Frame::notice(Said::Announce { unit })).await;
        Ok(())
    }

    async fn abort(&mut self) -> Result<(), Problem> {
        let disk = &self.steps.entry.config.name;
        if let Role::Taking | Role::Giving = self.ownership.role() {
            let detail = format!("it is decided that the disk '{disk}' moves");
            let problem = Problem::new(ProblemKind::Refused, detail);
            return Err(problem.with_remedy("let it end, and move the VM back"));
        }
        self.withdrawn();
        let unit = self.unit();
        self.say(Frame::notice(Said::Withdraw { unit })).await;
        Ok(())
    }

    /// The VM is about to move, as an operator of either host says.
    pub(super) fn announced(&mut self) {
        let disk = &self.steps.entry.config.name;
        tracing::info!(%disk, "a move of the disk is expected");
        self.expected.announce(Instant::now());
        self.see_incoming(IncomingClient::Announced);
        self.drain_or_not();
        self.stand_or_not();
    }

    /// An operator of either host has aborted the move.
    pub(super) fn withdrawn(&mut self) {
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
        self.see_incoming(IncomingClient::Withdrawn);
        self.drain_or_not();
        self.stand_or_not();
    }

    /// What is dirty goes to the origin ahead of the disk, while it is expected to go.
    pub(super) fn drain_or_not(&mut self) {
        let is_expected = self.has_client.there || self.expected.is_announced();
        let drains = is_expected && self.ownership.serves() && self.steps.is_written_back();
        if drains != self.draining.is_some() {
            self.draining = drains.then(|| Draining::begin(Arc::clone(&self.steps)));
        }
    }

    /// Lets operators see how the cache moves.
    pub(super) fn note_move(&self) {
        let plan = &self.steps.plan;
        let phase = match self.loans.phase() {
            MovePhase::Idle if self.expected.is_announced() => MovePhase::Expected,
            phase => phase,
        };
        let (shipped_bytes, kept_bytes) = self.steps.shipping.bytes();
        self.seen.note_move(CacheMove {
            phase,
            strategy: plan.strategy(),
            rate: Text(plan.rate()),
            came_bytes: plan.came(),
            lent_bytes: plan.lent(),
            dirty: self.steps.entry.config.migration.dirty,
            shipped_bytes,
            kept_bytes,
            behind_bytes: self.steps.shipping.behind_bytes(),
            expected_hit_ratio: plan.hit_ratio().filter(|_| phase != MovePhase::Idle),
        });
    }

    /// An operator says that the owner is gone: this host does in its place what it would have done last.
    async fn take_over(&mut self, lose_dirty: bool, reply: Obeyed) {
        let taken = match self.ownership.role() {
            Role::Standby | Role::Claiming => {
                let register = self.steps.register.clone();
                let taking =
                    tokio::task::spawn_blocking(move || register.take_over(lose_dirty)).await;
                taking.unwrap_or_else(|error| {
                    Err(Problem::new(ProblemKind::Failed, error.to_string()))
                })
            }
            _ => Err(on_its_way(&self.steps.entry.config.name)),
        };
        match taken {
            Ok(epoch) => {
                let (disk, from) = (&self.steps.entry.config.name, self.steps.peering.there());
                tracing::warn!(%disk, from, epoch, "an operator takes the disk from an owner that is gone");
                self.hear(Message::Grant { epoch }, false).await;
                // Who asked may have gone.
                let _ = reply.send(Ok(()));
            }
            Err(problem) => {
                let _ = reply.send(Err(problem));
            }
        }
    }
}
