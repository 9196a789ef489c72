//! Which peer the disks of a VM go to or come from: [`Partners`](handoff::Partners) decides, and the task turns.

use super::{Member, Roamer};
use crate::roaming::Happens;
use crate::roaming::naming::Naming;
use crate::roaming::wording::worded;
use handoff::{Heard, Message, Role, Word};
use link::PeerId;
use link_protocol::{Frame, Message as Said, NotServed};
use std::collections::{BTreeMap, BTreeSet};

/// What a peer has said of the unit while it was not the partner.
#[derive(Default)]
struct Other {
    listed: Option<Vec<u128>>,
    /// The places of the disks that it has clients of.
    clients: BTreeSet<usize>,
}

/// The peers that are not the partner.
#[derive(Default)]
pub(super) struct Others {
    others: BTreeMap<PeerId, Other>,
    /// Somebody looks who has the disks.
    is_looking: bool,
}

impl Others {
    /// A session with a peer has begun, or has ended: what it said before counts no more.
    pub(super) fn forget(&mut self, peer: PeerId) {
        self.others.remove(&peer);
    }
}

impl Roamer {
    /// A peer that is not the partner says something about the disk at this place.
    pub(super) async fn other_said(&mut self, at: usize, peer: PeerId, frame: Frame) {
        let other = self.others.others.entry(peer).or_default();
        let word = match &frame.message {
            Said::List { disks, .. } => {
                other.listed = Some(disks.clone());
                return;
            }
            Said::Traced { .. } => {
                self.trace.heard(&frame.message);
                return;
            }
            Said::Client { is_there, .. } => {
                if *is_there {
                    other.clients.insert(at);
                } else {
                    other.clients.remove(&at);
                    return;
                }
                Word::Client
            }
            Said::Announce { .. } => Word::Announce,
            Said::Claim { .. } => Word::Claim,
            Said::Grant { .. } => Word::Grant,
            _ => {
                if let Some(frame) = self.disks[at].lender_said(peer, frame) {
                    self.other_asks(at, peer, frame).await;
                }
                return;
            }
        };
        let role = self.ownership.role();
        let is_foreseen = self.expected.is_announced() || self.disks.have_clients().1;
        match self.partners.hear(&peer, word, role, is_foreseen) {
            Heard::Turn => {
                self.turn(peer).await;
                self.said(at, frame).await;
            }
            Heard::Refuse(why) => {
                let refusal = worded(Message::Refuse { why }, self.disks.unit());
                // It claims again.
                let _ = self
                    .disks
                    .partner()
                    .with(peer)
                    .say(Frame::notice(refusal))
                    .await;
            }
            Heard::Nothing => {}
        }
    }

    /// What was lent to a peer is lent on, by the epoch that it names; all else is the partner's.
    async fn other_asks(&mut self, at: usize, peer: PeerId, frame: Frame) {
        let peering = self.disks.partner().with(peer);
        let number = frame.number;
        match frame.message {
            Said::AskContents { epoch, .. } | Said::AskBlocks { epoch, .. } => {
                let loans = self.disks[at].loans();
                loans.lend(peering, number, epoch, frame.message);
            }
            Said::Read { .. }
            | Said::AskWatch { .. }
            | Said::AskWatchOrigin { .. }
            | Said::AskStale { .. }
            | Said::AskRecords { .. } => {
                let why = NotServed::Elsewhere;
                let refusal = Frame::numbered(number, Said::NotServed { why });
                // Asked again if it is lost.
                let _ = peering.say(refusal).await;
            }
            _ => {}
        }
    }

    /// The disks go to this peer or come from there, from now on. Whether they do.
    pub(super) async fn turn(&mut self, to: PeerId) -> bool {
        let from = self.disks.partner();
        if from.peer() == to {
            return true;
        }
        if !self.partners.turn(to, &mut self.ownership) {
            return false;
        }
        // As if the session with the last one had ended, but for what it still lends.
        self.session.changes(false);
        self.disks.iter_mut().for_each(Member::turned);
        self.refusal = None;
        self.naming = Naming::default();
        from.turn(to);
        let (disk, peer) = (self.disks.name(), from.there());
        tracing::info!(%disk, peer, "the disk goes to this peer, or comes from there");
        let said = self.others.others.remove(&to).unwrap_or_default();
        if from.stands() {
            self.linked().await;
            if let Some(listed) = said.listed {
                self.listed(listed);
            }
            for at in said.clients {
                self.peer_has_client(at, true);
            }
        }
        self.note();
        true
    }

    /// A session with a peer that is not the partner has begun, or has ended.
    pub(super) fn other_linked(&mut self, peer: PeerId, is_linked: bool) {
        self.others.forget(peer);
        for disk in self.disks.iter_mut() {
            disk.lender_linked(peer, is_linked);
        }
    }

    /// Whether another peer than the partner may have the disks.
    fn may_be_elsewhere(&self) -> bool {
        let is_idle = matches!(self.ownership.role(), Role::Standby | Role::Claiming);
        is_idle && self.disks.partner().has_others()
    }

    /// Turns to the host that has the disks by the record, if there is more than one that may.
    pub(super) async fn find(&mut self) {
        if !self.may_be_elsewhere() {
            return;
        }
        let register = self.disks[0].steps().register.clone();
        let holder = tokio::task::spawn_blocking(move || register.holder()).await;
        if let Ok(Ok(Some(holder))) = holder {
            self.named(holder.host, holder.epoch).await;
        }
    }

    /// Looks beside which host has the disks, if there is more than one that may.
    pub(super) fn look_who_has_them(&mut self) {
        if self.others.is_looking || !self.may_be_elsewhere() {
            return;
        }
        self.others.is_looking = true;
        let register = self.disks[0].steps().register.clone();
        let tell = self.disks[0].tell().clone();
        tokio::task::spawn_blocking(move || {
            // A record that cannot be read is read again at the next claim.
            let holder = register.holder().ok().flatten();
            let (host, epoch) = holder.map_or((String::new(), 0), |of| (of.host, of.epoch));
            let _ = tell.send(Happens::Named { host, epoch });
        });
    }

    /// The record names this host.
    pub(super) async fn named(&mut self, host: String, epoch: u64) {
        self.others.is_looking = false;
        let partner = self.disks.partner();
        if !self.may_be_elsewhere() {
            return;
        }
        if host == partner.here() {
            // Whoever named it has let go of the disks, and its word was lost.
            return self.hear(Message::Grant { epoch }, false).await;
        }
        match partner.named(&host) {
            Some(peer) => {
                self.turn(peer).await;
            }
            None if host.is_empty() => {}
            None => {
                let disk = self.disks.name();
                tracing::warn!(%disk, host, "the disk is at a host that is no peer of this one: add it as a [[peer]]");
            }
        }
    }
}
