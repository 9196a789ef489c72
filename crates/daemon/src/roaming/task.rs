//! The task of one disk that roams: it listens to clients, the peer and the time, and lets one step at a time be
//! carried out beside.

mod ordered;

use super::draining::Draining;
use super::expected::Expected;
use super::loans::Loans;
use super::proxied_reads::{Ended, ProxiedReads};
use super::session::Session;
use super::standing::Preparation;
use super::steps::{RETRY_PAUSE, Steps};
use super::under_way::UnderWay;
use super::wording::{heard, refusal, worded};
use super::{Happens, Told};
use crate::hand_overs::Seen;
use crate::shards;
use block_io::IoError;
use borrowing::Ask;
use handoff::{Action, Event, IncomingClient, Look, Message, Notice, Ownership, Refusal, Role};
use link_protocol::{Frame, Message as Said, NotServed};
use shard::{StandbyNeeds, Watched};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};
use strategies::Ahead;
use tokio::sync::mpsc::UnboundedSender;
use units::{Bytes, Offset};

/// How long a guest waits for its disk, or for the bytes of a read.
const PATIENCE: Duration = Duration::from_secs(10);
/// How much of that time may be used to copy its cache.
const HELD_MAX: Duration = Duration::from_secs(7);
/// After how long a claim that was refused is made again.
const CLAIM_PAUSE: Duration = Duration::from_millis(50);

/// Which host has a client of the disk.
#[derive(Default)]
struct HasClient {
    here: bool,
    there: bool,
}

/// A disk that roams, and what it needs of others.
pub(super) struct Roamer {
    steps: Arc<Steps>,
    ownership: Ownership,
    reads: ProxiedReads,
    /// Since when a client waits for the disk.
    asked: Option<Instant>,
    loans: Loans,
    /// What brings dirty bytes to the origin while a guest is at the other host.
    draining: Option<Draining>,
    expected: Expected,
    has_client: HasClient,
    /// Whether every claim since the disk was given away was a return.
    are_returns: bool,
    /// Whether the claim that is being answered is a return.
    peer_returns: bool,
    under_way: UnderWay,
    tell: UnboundedSender<Happens>,
    session: Session,
    /// Why the peer refused the last claim.
    refusal: Option<Refusal>,
    seen: Arc<Seen>,
}

impl Roamer {
    /// One of this ownership; `number` tells its reads from those of other disks.
    pub(super) fn new(
        steps: Steps,
        ownership: Ownership,
        number: u32,
        tell: UnboundedSender<Happens>,
        seen: Arc<Seen>,
    ) -> Self {
        Self {
            steps: Arc::new(steps),
            ownership,
            reads: ProxiedReads::new(number),
            asked: None,
            loans: Loans::default(),
            draining: None,
            expected: Expected::default(),
            has_client: HasClient::default(),
            are_returns: true,
            peer_returns: false,
            under_way: UnderWay::default(),
            tell,
            session: Session::default(),
            refusal: None,
            seen,
        }
    }

    /// Carries it from these actions on until the daemon stops.
    pub(super) async fn run(mut self, actions: Vec<Action>, told: &mut Told) {
        self.act(actions).await;
        self.listen(told).await;
    }

    async fn listen(mut self, told: &mut Told) {
        let mut next = Instant::now();
        while self.steps.control.refuse_when_stopping().is_ok() {
            tokio::select! {
                Some(happens) = told.recv() => self.happens(happens).await,
                event = self.under_way.ended() => self.take(event).await,
                () = tokio::time::sleep_until(next.into()) => {
                    self.try_again().await;
                    let is_waiting = self.asked.is_some();
                    let pause = if is_waiting { CLAIM_PAUSE } else { RETRY_PAUSE };
                    next = Instant::now() + pause;
                }
            }
        }
    }

    async fn take(&mut self, event: Event) {
        if matches!(event, Event::Taken(Ok(())) | Event::Unlocked) {
            self.has_ended();
        }
        self.loans.happened(&event, &self.steps, &self.tell);
        let actions = self.ownership.take_event(event);
        self.note();
        self.act(actions).await;
    }

    /// Lets operators see how things are.
    fn note(&self) {
        let role = self.ownership.role();
        let is_claiming = role == Role::Claiming;
        self.steps
            .claims
            .send_if_modified(|claims| std::mem::replace(claims, is_claiming) != is_claiming);
        let problem = match role {
            Role::Taking | Role::Granting | Role::Giving => self.steps.failure(),
            Role::Claiming => self.refusal.map(|why| refusal(why).to_owned()),
            Role::Owner | Role::Standby => None,
        };
        self.seen
            .note((role, self.ownership.epoch()), problem, self.asked);
    }

    async fn try_again(&mut self) {
        let now = Instant::now();
        if self.asked.is_some_and(|asked| now >= asked + PATIENCE) {
            self.seen.failed(self.asked.take());
            self.take(Event::PatienceEnded).await;
        } else {
            self.take(Event::Retry).await;
        }
        for ticket in self.reads.late(now) {
            self.answer_read(ticket, Err(IoError::TimedOut));
        }
        self.ask_for_bytes().await;
        if self.expected.is_late(now) {
            self.has_ended();
        }
        self.stand_or_not();
    }

    async fn happens(&mut self, happens: Happens) {
        match happens {
            Happens::Needed(StandbyNeeds::Client(notice)) => self.needed(notice).await,
            Happens::Needed(StandbyNeeds::Loan(ask)) => self.ask_for_loan(ask).await,
            Happens::NeedsContents { at, answer } => {
                let (id, number) = (self.steps.entry.id, self.reads.number());
                if let Some(frame) = self.loans.ask_contents(id, number, at, answer) {
                    self.say(frame).await;
                }
            }
            Happens::Pulled => self.loans.pulled(),
            Happens::Asks { question, answer } => {
                let frame = self.loans.ask(self.reads.number(), question, answer);
                self.say(frame).await;
            }
            Happens::Stands { epoch } => self.loans.stands(epoch),
            Happens::Linked => {
                self.session.changes(true);
                self.tell_of_client().await;
                self.reads.lost();
                self.ask_for_bytes().await;
                self.loans.linked(true, &self.steps);
                self.take(Event::Linked).await;
            }
            Happens::Lost => {
                self.session.changes(false);
                self.reads.lost();
                self.loans.linked(false, &self.steps);
                self.take(Event::LinkLost).await;
            }
            Happens::Said(frame) => self.said(frame).await,
            Happens::LookAgain { is_return, session } if session == self.session.number() => {
                self.claimed(is_return).await;
            }
            Happens::LookAgain { .. } => {}
            Happens::Ordered(order) => self.ordered(order).await,
        }
    }

    async fn needed(&mut self, notice: Notice) {
        match notice {
            Notice::Asked(client) => {
                self.asked.get_or_insert_with(Instant::now);
                self.take(Event::Asked(client)).await;
            }
            Notice::Read {
                ticket,
                offset,
                length,
            } => {
                let until = Instant::now() + PATIENCE;
                self.reads.push(ticket, (offset, length), until);
                self.ask_for_bytes().await;
            }
            Notice::Client { is_there } => {
                self.has_client.here = is_there;
                self.expected.client();
                self.tell_of_client().await;
            }
        }
    }

    /// A read of the disk, which is here, asks for what its last host has cached.
    async fn ask_for_loan(&mut self, ask: Ask) {
        let (id, number) = (self.steps.entry.id, self.reads.number());
        if let Some(frame) = self.loans.ask_blocks(id, number, ask) {
            let bytes = u64::from(ask.run.count) * units::BLOCK_BYTES;
            self.steps.plan.asks_lender(Bytes::new(bytes));
            self.say(frame).await;
        } else {
            self.steps.handle.answer_loan(id, ask.number, None);
        }
    }

    async fn tell_of_client(&self) {
        let (unit, is_there) = (self.unit(), self.has_client.here);
        self.say(Frame::notice(Said::Client { unit, is_there }))
            .await;
    }

    fn unit(&self) -> String {
        self.steps.entry.id.to_string()
    }

    /// What is lost with the link is said again by who needs it.
    async fn say(&self, frame: Frame) {
        let _ = self.steps.peering.say(frame).await;
    }

    fn see_incoming(&self, seen: IncomingClient) {
        self.steps.handle.see_incoming(self.steps.entry.id, seen);
    }

    async fn said(&mut self, frame: Frame) {
        let number = frame.number;
        let Some(frame) = self.loans.answered(frame, &self.steps) else {
            return;
        };
        match frame.message {
            Said::Read { offset, length, .. } => self.read_for_peer(number, offset, length),
            Said::Bytes => {
                let ended = self.reads.got(number, &frame.data);
                self.read_ended(ended);
                self.ask_for_bytes().await;
            }
            Said::NotServed { .. } => self.reads.refused(number),
            Said::Client { is_there, .. } => {
                self.has_client.there = is_there;
                self.drain_or_not();
                let seen = self.session.says_of_client(is_there);
                self.see_incoming(seen);
            }
            Said::Announce { .. } => self.announced(),
            Said::Withdraw { .. } => self.withdrawn(),
            Said::Claim { is_return, .. } => self.claimed(is_return).await,
            Said::Grant { epoch, .. } => {
                self.loans.granted(epoch, self.ownership.role());
                self.hear(Message::Grant { epoch }, false).await;
            }
            Said::Refuse { why, .. } => {
                let disk = &self.steps.entry.config.name;
                tracing::debug!(%disk, ?why, "the peer refuses");
                let why = heard(why);
                self.refusal = Some(why);
                self.hear(Message::Refuse { why }, false).await;
            }
            Said::AskWatch { .. } => self.watch(Watched::Guests, number).await,
            Said::AskWatchOrigin { .. } => self.watch(Watched::Origin, number).await,
            Said::AskContents { epoch, .. }
            | Said::AskBlocks { epoch, .. }
            | Said::AskStale { epoch, .. }
            | Said::AskRecords { epoch, .. } => {
                let peering = self.steps.peering.clone();
                self.loans.lend(peering, number, epoch, frame.message);
            }
            // Of units and lists nothing is known here yet.
            _ => {}
        }
    }

    /// The other host, which stands by, begins to copy the cache of the disk.
    async fn watch(&mut self, what: Watched, number: u64) {
        let epoch = self.ownership.epoch();
        if let Some(epoch) = epoch.filter(|_| self.ownership.serves()) {
            return self.loans.watch(epoch, what, number, &self.steps);
        }
        let why = NotServed::Elsewhere;
        let refusal = Frame::numbered(number, Said::NotServed { why });
        self.say(refusal).await;
    }

    /// Lets the cache be copied ahead while a VM is here and the other host has the disk.
    fn stand_or_not(&mut self) {
        let comes = match self.ownership.role() {
            Role::Standby | Role::Claiming => {
                self.session.stands() && self.expected.prepares(self.has_client.here)
            }
            // Who takes the disk has ended it.
            Role::Taking => return,
            Role::Owner | Role::Granting | Role::Giving => false,
        };
        let stands = match self.steps.plan.row().ahead {
            Ahead::Copies(from) if comes => Some(from),
            Ahead::Copies(_) | Ahead::Passing | Ahead::Nothing => None,
        };
        self.loans.stand(stands, &self.steps, &self.tell);
        self.note_move();
    }

    async fn hear(&mut self, message: Message, guest_has_stopped: bool) {
        self.take(Event::Said {
            message,
            guest_has_stopped,
        })
        .await;
    }

    async fn claimed(&mut self, is_return: bool) {
        let disk = &self.steps.entry.config.name;
        tracing::debug!(%disk, is_return, "the peer claims the disk");
        let id = self.steps.entry.id;
        let looking = shards::ask(&self.steps.handle, |shard, reply| {
            shard.look_at_roaming(id, reply);
        });
        let Ok(look) = looking.await else {
            return;
        };
        let Look {
            has_stopped,
            stopped_in,
            is_changed,
        } = look;
        if let (Some(wait), false, true) = (stopped_in, is_return, self.ownership.serves()) {
            // Longer by what a timer may be early.
            let wait = Duration::from_nanos(wait.as_nanos()) + Duration::from_millis(1);
            let (tell, session) = (self.tell.clone(), self.session.number());
            tokio::spawn(async move {
                tokio::time::sleep(wait).await;
                let _ = tell.send(Happens::LookAgain { is_return, session });
            });
            return;
        }
        if is_changed {
            self.take(Event::Changing).await;
        }
        if self.ownership.serves() {
            self.peer_returns = is_return;
        }
        self.hear(Message::Claim { is_return }, has_stopped).await;
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

    async fn ask_for_bytes(&mut self) {
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

    fn read_ended(&self, ended: Option<Ended>) {
        if let Some((ticket, bytes)) = ended {
            self.answer_read(ticket, bytes.ok_or(IoError::Failed));
        }
    }

    fn answer_read(&self, ticket: u64, result: Result<Vec<u8>, IoError>) {
        let id = self.steps.entry.id;
        self.steps.handle.answer_read(id, ticket, result);
    }

    async fn act(&mut self, actions: Vec<Action>) {
        let id = self.steps.entry.id;
        for action in VecDeque::from(actions) {
            match action {
                Action::Send(message) => {
                    if let Message::Claim { is_return } = message {
                        self.are_returns &= is_return;
                    }
                    self.say(Frame::notice(worded(message, self.unit()))).await;
                }
                Action::Serve => {
                    (self.asked, self.refusal) = (None, None);
                    self.reads.clear();
                    self.under_way.stop_settling();
                    self.steps.handle.serve_roaming(id);
                }
                Action::Fail => {
                    self.reads.clear();
                    self.steps.handle.fail_parked(id);
                }
                Action::EndOldClients => {
                    self.asked = None;
                    let (disk, owner) = (&self.steps.entry.config.name, self.steps.peering.there());
                    tracing::warn!(%disk, owner, "the disk was changed elsewhere: \
                        the clients that it was taken from get errors");
                    self.steps.handle.end_old_clients(id);
                }
                Action::Settle => {
                    let settling = Arc::clone(&self.steps).settle(self.peer_returns);
                    self.under_way.begin(true, settling);
                }
                step => {
                    self.loans.begins(&step, &self.steps);
                    match step {
                        Action::Close => {
                            self.are_returns = true;
                            self.draining = None;
                        }
                        Action::Take { .. } if !self.are_returns => {
                            self.steps.handle.end_old_clients(id);
                        }
                        _ => {}
                    }
                    let preparation = match step {
                        Action::Take { epoch } => {
                            self.loans.prepare(epoch, &self.steps, &self.tell)
                        }
                        _ => Preparation::Nothing,
                    };
                    let until = self.asked.unwrap_or_else(Instant::now) + HELD_MAX;
                    let step = Arc::clone(&self.steps).carry_out(step, (preparation, until));
                    self.under_way.begin(false, step);
                }
            }
        }
    }
}
