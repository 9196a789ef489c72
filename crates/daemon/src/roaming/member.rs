//! One disk of a unit: its reads at the other host, what it borrows and lends, and what operators see of it.

use super::demand;
use super::draining::Draining;
use super::loans::Loans;
use super::places::Tell;
use super::proxied_reads::{Ended, ProxiedReads};
use super::standing::Preparation;
use super::steps::Steps;
use super::{Happens, PATIENCE};
use crate::hand_overs::Seen;
use crate::shards;
use api::roaming::{CacheMove, MovePhase};
use block_io::IoError;
use borrowing::Ask;
use configuration::Text;
use handoff::{Action, Event, IncomingClient, Look, Role};
use link::PeerId;
use link_protocol::{Frame, Message as Said, NotServed};
use shard::Watched;
use std::sync::Arc;
use std::time::Instant;
use strategies::Ahead;
use tenancy::Wanted;
use units::{Bytes, Offset};

/// Which host has a client of the disk.
#[derive(Default)]
pub(super) struct HasClient {
    pub(super) here: bool,
    pub(super) there: bool,
}

/// A disk that roams, and what it needs of others.
pub(super) struct Member {
    steps: Arc<Steps>,
    reads: ProxiedReads,
    loans: Loans,
    /// What brings dirty bytes to the origin while a guest is at the other host.
    draining: Option<Draining>,
    has_client: HasClient,
    /// What its VM wanted at the other host, which is about to give it away.
    wanted: Option<Wanted>,
    tell: Tell,
    seen: Arc<Seen>,
}

impl Member {
    /// A disk; `number` tells its reads from those of others.
    pub(super) fn new(steps: Steps, number: u32, tell: Tell, seen: Arc<Seen>) -> Self {
        Self {
            steps: Arc::new(steps),
            reads: ProxiedReads::new(number),
            loans: Loans::default(),
            draining: None,
            has_client: HasClient::default(),
            wanted: None,
            tell,
            seen,
        }
    }

    pub(super) fn steps(&self) -> &Arc<Steps> {
        &self.steps
    }

    pub(super) fn loans(&mut self) -> &mut Loans {
        &mut self.loans
    }

    pub(super) fn seen(&self) -> &Seen {
        &self.seen
    }

    pub(super) fn tell(&self) -> &Tell {
        &self.tell
    }

    pub(super) fn has_client(&mut self) -> &mut HasClient {
        &mut self.has_client
    }

    /// Whether a client is here, and whether one is at the other host.
    pub(super) fn clients(&self) -> (bool, bool) {
        (self.has_client.here, self.has_client.there)
    }

    /// What is lost with the link is said again by who needs it.
    pub(super) async fn say(&self, frame: Frame) {
        let _ = self.steps.peering.say(frame).await;
    }

    pub(super) async fn tell_of_client(&self) {
        let (unit, is_there) = (self.steps.entry.id.to_string(), self.has_client.here);
        self.say(Frame::notice(Said::Client { unit, is_there }))
            .await;
    }

    pub(super) fn see_incoming(&self, seen: IncomingClient) {
        self.steps.handle.see_incoming(self.steps.entry.id, seen);
    }

    /// What is seen of its clients here.
    pub(super) async fn look(&self) -> Option<Look> {
        let id = self.steps.entry.id;
        let looking = shards::ask(&self.steps.handle, |shard, reply| {
            shard.look_at_roaming(id, reply);
        });
        looking.await.ok()
    }

    /// A session has begun, or has ended.
    pub(super) fn linked(&mut self, is_linked: bool) {
        self.reads.lost();
        self.loans.linked(is_linked, &self.steps);
    }

    /// The disk goes to another peer or comes from there, from now on.
    pub(super) fn turned(&mut self) {
        self.reads.lost();
        self.loans.turned(&self.steps);
        if std::mem::take(&mut self.has_client.there) {
            self.see_incoming(IncomingClient::Lost);
        }
        self.seen.note_peers_disks(None);
    }

    /// A session with a peer has begun or ended, which may be the lender.
    pub(super) fn lender_linked(&mut self, peer: PeerId, is_linked: bool) {
        if self.loans.lender() == Some(peer) {
            self.loans.lender_linked(is_linked);
        }
    }

    /// A peer says something, which may be the lender. It comes back if it answers nothing that was asked of that.
    pub(super) fn lender_said(&mut self, peer: PeerId, frame: Frame) -> Option<Frame> {
        if self.loans.lender() == Some(peer) {
            self.loans.answered(frame, &self.steps)
        } else {
            Some(frame)
        }
    }

    /// Asks whoever lends what is cached of the disk.
    async fn ask_lender(&self, frame: Frame) {
        let lender = self.loans.lender();
        let peering = &self.steps.peering;
        let lender = peering.with(lender.unwrap_or_else(|| peering.peer()));
        // What is lost with the link is asked again.
        let _ = lender.say(frame).await;
    }

    /// Something has happened to the unit.
    pub(super) fn happened(&mut self, event: &Event) {
        self.loans.happened(event, &self.steps, &self.tell);
        if *event == Event::Taken(Ok(()))
            && let Some(wanted) = self.wanted.take()
        {
            let entry = &self.steps.entry;
            let vm = entry.vm().to_string();
            self.steps.handle.ahead().vm_comes(entry.id, vm, wanted);
        }
    }

    /// A step of a hand-over begins: what is to be done before a disk that comes is opened.
    pub(super) fn begins(&mut self, step: &Action) -> Preparation {
        self.loans.begins(step, &self.steps);
        match step {
            Action::Close => {
                self.draining = None;
                Preparation::Nothing
            }
            Action::Take { epoch } => self.loans.prepare(*epoch, &self.steps, &self.tell),
            _ => Preparation::Nothing,
        }
    }

    /// A client here reads what the other host has.
    pub(super) async fn read(&mut self, ticket: u64, range: (Offset, Bytes)) {
        self.reads.push(ticket, range, Instant::now() + PATIENCE);
        self.ask_for_bytes().await;
    }

    /// A read of the disk, which is here, asks for what its last host has cached.
    pub(super) async fn ask_for_loan(&mut self, ask: Ask) {
        let (id, number) = (self.steps.entry.id, self.reads.number());
        if let Some(frame) = self.loans.ask_blocks(id, number, ask) {
            let bytes = u64::from(ask.run.count) * units::BLOCK_BYTES;
            self.steps.plan.asks_lender(Bytes::new(bytes));
            self.ask_lender(frame).await;
        } else {
            self.steps.handle.answer_loan(id, ask.number, None);
        }
    }

    /// Who copies or pulls asks the other host something.
    pub(super) async fn asks(&mut self, happens: Happens) {
        let (id, number) = (self.steps.entry.id, self.reads.number());
        let frame = match happens {
            Happens::NeedsContents { at, answer } => {
                self.loans.ask_contents(id, number, at, answer)
            }
            Happens::Asks { question, answer } => Some(self.loans.ask(number, question, answer)),
            _ => None,
        };
        if let Some(frame) = frame {
            self.ask_lender(frame).await;
        }
    }

    /// A word of the other host about this disk alone. It comes back if it is not one.
    pub(super) async fn said(&mut self, frame: Frame, serves: Option<u64>) -> Option<Frame> {
        let number = frame.number;
        let frame = self.loans.answered(frame, &self.steps)?;
        match frame.message {
            Said::Read { offset, length, .. } => self.read_for_peer(number, offset, length),
            Said::Bytes => {
                let ended = self.reads.got(number, &frame.data);
                self.read_ended(ended);
                self.ask_for_bytes().await;
            }
            Said::NotServed { .. } => self.reads.refused(number),
            Said::Demand { .. } => self.wanted = demand::wanted(&frame.message),
            Said::AskWatch { .. } => self.watch(Watched::Guests, number, serves).await,
            Said::AskWatchOrigin { .. } => self.watch(Watched::Origin, number, serves).await,
            Said::AskContents { epoch, .. }
            | Said::AskBlocks { epoch, .. }
            | Said::AskStale { epoch, .. }
            | Said::AskRecords { epoch, .. } => {
                let peering = self.steps.peering.clone();
                self.loans.lend(peering, number, epoch, frame.message);
            }
            _ => return Some(frame),
        }
        None
    }

    /// The other host, which stands by, begins to copy the cache of the disk, which is served here in this epoch.
    async fn watch(&mut self, what: Watched, number: u64, serves: Option<u64>) {
        if let Some(epoch) = serves {
            return self.loans.watch(epoch, what, number, &self.steps);
        }
        let why = NotServed::Elsewhere;
        let refusal = Frame::numbered(number, Said::NotServed { why });
        self.say(refusal).await;
    }

    fn read_for_peer(&self, number: u64, offset: u64, length: u32) {
        self.see_incoming(IncomingClient::Reads);
        let peering = self.steps.peering.clone();
        let runtime = tokio::runtime::Handle::current();
        let reply = Box::new(move |read: Result<Vec<u8>, _>| {
            let why = NotServed::Elsewhere;
            let refusal = Frame::numbered(number, Said::NotServed { why });
            let frame = read.map_or(refusal, |data| Frame {
                number,
                message: Said::Bytes,
                data,
            });
            runtime.spawn(async move {
                // Asked again if it is lost.
                let _ = peering.say(frame).await;
            });
        });
        let at = Offset::new(offset);
        let length = Bytes::new(u64::from(length));
        let id = self.steps.entry.id;
        self.steps.handle.read_for_peer(id, at, length, reply);
    }

    pub(super) async fn ask_for_bytes(&mut self) {
        let disk = self.steps.entry.id.to_u128();
        for piece in self.reads.ask() {
            let (offset, length) = (piece.offset, piece.length);
            let ask = Said::Read {
                disk,
                offset,
                length,
            };
            self.say(Frame::numbered(piece.number, ask)).await;
        }
    }

    /// Reads that have waited long enough fail.
    pub(super) fn fail_late_reads(&mut self, now: Instant) {
        for ticket in self.reads.late(now) {
            self.answer_read(ticket, Err(IoError::TimedOut));
        }
    }

    fn read_ended(&self, ended: Option<Ended>) {
        if let Some((ticket, bytes)) = ended {
            self.answer_read(ticket, bytes.ok_or(IoError::Failed));
        }
    }

    fn answer_read(&self, ticket: u64, result: Result<Vec<u8>, IoError>) {
        let id = self.steps.entry.id;
        self.steps.handle.answer_read(id, ticket, result);
    }

    /// Its clients are served from here from now on.
    pub(super) fn serve(&mut self) {
        self.reads.clear();
        self.steps.release_destage();
        self.steps.handle.serve_roaming(self.steps.entry.id);
    }

    /// What its clients wait for fails.
    pub(super) fn fail(&mut self) {
        self.reads.clear();
        self.steps.handle.fail_parked(self.steps.entry.id);
    }

    pub(super) fn end_old_clients(&self) {
        self.steps.handle.end_old_clients(self.steps.entry.id);
    }

    /// What is dirty goes to the origin ahead of the disk, while it is expected to go.
    pub(super) fn drain_or_not(&mut self, may_go: bool) {
        let drains = may_go && self.steps.is_written_back();
        if drains != self.draining.is_some() {
            self.draining = drains.then(|| Draining::begin(Arc::clone(&self.steps)));
        }
    }

    /// Whether it does.
    pub(super) fn is_draining(&self) -> bool {
        self.draining.is_some()
    }

    /// Lets the cache be copied ahead while the disk is expected to come.
    pub(super) fn stand_or_not(&mut self, comes: bool, is_announced: bool) {
        let stands = match self.steps.plan.row().ahead {
            Ahead::Copies(from) if comes => Some(from),
            Ahead::Copies(_) | Ahead::Passing | Ahead::Nothing => None,
        };
        self.loans.stand(stands, &self.steps, &self.tell);
        self.note_move(is_announced);
    }

    /// What is copied in another way begins anew.
    pub(super) fn stand_anew(&mut self) {
        self.loans.stand(None, &self.steps, &self.tell);
    }

    /// Lets operators see how things are.
    pub(super) fn note(
        &self,
        (role, epoch): (Role, Option<u64>),
        problem: Option<String>,
        asked: Option<Instant>,
    ) {
        let is_claiming = role == Role::Claiming;
        self.steps
            .claims
            .send_if_modified(|claims| std::mem::replace(claims, is_claiming) != is_claiming);
        self.seen.note_peer(self.steps.peering.there());
        self.seen.note((role, epoch), problem, asked);
    }

    /// Lets operators see how the cache moves.
    fn note_move(&self, is_announced: bool) {
        let plan = &self.steps.plan;
        let phase = match self.loans.phase() {
            MovePhase::Idle if is_announced => MovePhase::Expected,
            phase => phase,
        };
        let (shipped_bytes, kept_bytes) = self.steps.shipping.bytes();
        self.seen.note_move(CacheMove {
            phase,
            strategy: plan.strategy(),
            rate: Text(plan.rate()),
            came_bytes: plan.came(),
            lent_bytes: plan.lent(),
            dirty: self.steps.entry.config.migration.dirty(),
            shipped_bytes,
            kept_bytes,
            behind_bytes: self.steps.shipping.behind_bytes(),
            expected_hit_ratio: plan.hit_ratio().filter(|_| phase != MovePhase::Idle),
        });
    }
}
