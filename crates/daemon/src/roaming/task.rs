//! The task of the disks of a VM that roam: it listens to clients, the peer and the time, and lets one step at a time be
//! carried out beside.

mod disks;
mod ordered;
mod partner;
mod records;
mod stays;
mod trace;

use super::expected::Expected;
use super::images::Images;
use super::member::Member;
use super::naming::Naming;
use super::session::Session;
use super::split::Split;
use super::steps::RETRY_PAUSE;
use super::together;
use super::under_way::UnderWay;
use super::wording::{differs, heard, refusal, worded};
use super::{Happens, PATIENCE, Told};
use crate::peering::Peering;
use disks::Disks;
use events::EventKind;
use handoff::{
    Action, Event, Hold, IncomingClient, Look, Message, Notice, Ownership, Partners, Refusal, Role,
    TakeError, Traces, Verdict,
};
use link::PeerId;
use link_protocol::{Frame, Message as Said, Refusal as Why};
use partner::Others;
use shard::StandbyNeeds;
use stays::Stays;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};
use telemetry::{Parent, Tracer};
use trace::{Begun, MoveTrace};

/// How much of the time that a guest waits for its disk may be used to copy its cache.
const HELD_MAX: Duration = Duration::from_secs(7);
/// After how long a claim that was refused is made again.
const CLAIM_PAUSE: Duration = Duration::from_millis(50);

/// The disks of a VM, which move together.
pub(super) struct Roamer {
    /// In the order of their identities; the unit goes by the first one's.
    disks: Disks,
    ownership: Ownership,
    partners: Partners<PeerId>,
    others: Others,
    /// Since when a client waits for a disk.
    asked: Option<Instant>,
    expected: Expected,
    /// Whether every claim since the disks were given away was a return.
    are_returns: bool,
    /// Whether the claim that is being answered is a return; if it is none, what was seen of each disk's guest.
    claim: Option<Vec<Traces>>,
    under_way: UnderWay,
    session: Session,
    /// Why the peer refused the last claim.
    refusal: Option<Refusal>,
    stays: Stays,
    split: Split,
    naming: Naming,
    /// The base images that the VM may read.
    images: Images,
    trace: MoveTrace,
}

impl Roamer {
    /// The disks of a VM, of this ownership, and with this first partner. Its moves are spans of `tracer`.
    pub(super) fn new(
        disks: Vec<Member>,
        (ownership, partner): (Ownership, Peering),
        images: Images,
        tracer: Tracer,
    ) -> Self {
        Self {
            disks: Disks::new(disks),
            ownership,
            partners: Partners::new(partner.peer()),
            others: Others::default(),
            asked: None,
            expected: Expected::default(),
            are_returns: true,
            claim: None,
            under_way: UnderWay::default(),
            session: Session::default(),
            refusal: None,
            stays: Stays::default(),
            split: Split::default(),
            naming: Naming::default(),
            images,
            trace: MoveTrace::new(tracer),
        }
    }

    /// Carries it from these actions on until the daemon stops.
    pub(super) async fn run(mut self, actions: Vec<Action>, told: &mut Told) {
        self.act(actions).await;
        self.listen(told).await;
    }

    async fn listen(mut self, told: &mut Told) {
        self.look_if_split();
        let mut next = Instant::now();
        while self.disks[0].steps().control.refuse_when_stopping().is_ok() {
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
        self.trace.took(&event, &self.disks);
        if matches!(event, Event::Taken(Ok(())) | Event::Unlocked) {
            self.has_ended();
            self.stays.forget();
        }
        if event == Event::Taken(Err(TakeError::NotOurs)) {
            self.look_if_split();
        }
        if event == Event::Taken(Ok(())) {
            self.is_split(None);
        }
        if event == Event::Taken(Ok(())) && self.disks.have_clients().0 {
            self.images.came(self.disks[0].steps());
        }
        if event == Event::Settled(false) {
            self.stays.learn(&self.disks);
        }
        for disk in self.disks.iter_mut() {
            disk.happened(&event);
        }
        let actions = self.ownership.take_event(event);
        self.note();
        self.act(actions).await;
        self.trace.see(&mut self.disks);
    }

    /// Lets operators see how things are.
    fn note(&mut self) {
        let role = self.ownership.role();
        let stays = self.stays.shown();
        let problem = match role {
            Role::Taking | Role::Granting | Role::Giving => self.disks.failure(),
            Role::Claiming => self.refusal.map(|why| refusal(why).to_owned()),
            Role::Owner => stays,
            Role::Standby => None,
        };
        for disk in self.disks.iter() {
            let at = (role, self.ownership.epoch());
            disk.note(at, problem.clone(), self.asked);
        }
    }

    async fn try_again(&mut self) {
        let now = Instant::now();
        if self.asked.is_some_and(|asked| now >= asked + PATIENCE) {
            let asked = self.asked.take();
            self.disks.iter().for_each(|disk| disk.seen().failed(asked));
            self.take(Event::PatienceEnded).await;
        } else {
            self.take(Event::Retry).await;
        }
        for disk in self.disks.iter_mut() {
            disk.fail_late_reads(now);
            disk.ask_for_bytes().await;
        }
        if self.expected.is_late(now) {
            let failure = ("late", "nobody came for the disks in time");
            self.trace.ends("late", Some(failure));
            self.has_ended();
        }
        self.stand_or_not();
        self.trace.see(&mut self.disks);
        self.foresee(now);
        if self.split.is_due(now) {
            self.look_if_split();
        }
    }

    /// Something happens to the disk at this place, or to all of them.
    async fn happens(&mut self, (at, happens): (usize, Happens)) {
        let disk = &mut self.disks[at];
        match happens {
            Happens::Needed(StandbyNeeds::Client(notice)) => self.needed(at, notice).await,
            Happens::Needed(StandbyNeeds::Loan(ask)) => disk.ask_for_loan(ask).await,
            Happens::NeedsContents { .. } | Happens::Asks { .. } => disk.asks(happens).await,
            Happens::Pulled => disk.loans().pulled(),
            Happens::Stands { epoch } => disk.loans().stands(epoch),
            Happens::Linked(peer) if peer != self.disks.partner().peer() => {
                self.other_linked(peer, true);
            }
            Happens::Lost(peer) if peer != self.disks.partner().peer() => {
                self.other_linked(peer, false);
            }
            Happens::Linked(_) => self.linked().await,
            Happens::Lost(_) => {
                self.session.changes(false);
                self.disks.iter_mut().for_each(|disk| disk.linked(false));
                self.take(Event::LinkLost).await;
            }
            Happens::Said(peer, frame) if peer == self.disks.partner().peer() => {
                self.said(at, frame).await;
            }
            Happens::Said(peer, frame) => self.other_said(at, peer, frame).await,
            Happens::Named { host, epoch } => self.named(host, epoch).await,
            Happens::LookAgain { is_return, claim } if claim == self.session.claim() => {
                self.claimed(is_return).await;
            }
            Happens::Ordered(order) => self.ordered(at, order).await,
            Happens::Split { why } => self.is_split(why),
            // Of an earlier claim; and of base images, which are not among a VM's own disks.
            Happens::LookAgain { .. }
            | Happens::Rate(_)
            | Happens::Comes { .. }
            | Happens::RoundEnded { .. }
            | Happens::Compared { .. } => {}
        }
    }

    async fn linked(&mut self) {
        self.session.changes(true);
        let (unit, disks) = (self.disks.unit(), self.disks.ids());
        self.disks
            .say(Frame::notice(Said::List { unit, disks }))
            .await;
        for disk in self.disks.iter_mut() {
            disk.tell_of_client().await;
            disk.linked(true);
            disk.ask_for_bytes().await;
        }
        self.take(Event::Linked).await;
    }

    async fn needed(&mut self, at: usize, notice: Notice) {
        let disk = &mut self.disks[at];
        match notice {
            Notice::Asked(client) => {
                self.asked.get_or_insert_with(Instant::now);
                self.take(Event::Asked(client)).await;
            }
            Notice::Read {
                ticket,
                offset,
                length,
            } => disk.read(ticket, (offset, length)).await,
            Notice::Client { is_there } => {
                disk.has_client().here = is_there;
                self.expected.client();
                disk.tell_of_client().await;
                if is_there {
                    self.look_who_has_them();
                }
                if !self.disks.have_clients().0 && self.asked.take().is_some() {
                    // Nobody waits for the disks any more.
                    self.take(Event::PatienceEnded).await;
                }
            }
        }
    }

    /// Whether the other host, too, moves these disks together, and no other with them.
    fn are_listed_alike(&self) -> bool {
        match self.session.listed() {
            Some(listed) => listed == self.disks.ids(),
            None => self.disks.len() == 1,
        }
    }

    /// The other host moves these disks together.
    fn listed(&mut self, listed: Vec<u128>) {
        let there = self.disks.partner();
        let differs = differs(&self.disks.ids(), &listed, there.there());
        for disk in self.disks.iter() {
            disk.seen().note_peers_disks(differs.clone());
        }
        self.session.lists(listed);
    }

    async fn said(&mut self, at: usize, frame: Frame) {
        let serves = self.ownership.epoch().filter(|_| self.ownership.serves());
        let Some(frame) = self.disks[at].said(frame, serves).await else {
            return;
        };
        match frame.message {
            Said::List { disks, .. } => self.listed(disks),
            Said::Traced { .. } => self.trace.heard(&frame.message),
            Said::Client { is_there, .. } => self.peer_has_client(at, is_there),
            Said::Announce { .. } => self.announced(&Parent::default()),
            Said::Withdraw { .. } => self.withdrawn(),
            Said::Claim { is_return, .. } => self.claimed(is_return).await,
            Said::Grant { epoch, .. } => {
                let role = self.ownership.role();
                for disk in self.disks.iter_mut() {
                    disk.loans().granted(epoch, role);
                }
                self.hear(Message::Grant { epoch }, false).await;
            }
            Said::Refuse { why, .. } => {
                let disk = &self.disks[0].steps().entry.config.name;
                tracing::debug!(%disk, ?why, "the peer refuses");
                let why = heard(why);
                self.trace.refused(refusal(why));
                self.refusal = Some(why);
                self.hear(Message::Refuse { why }, false).await;
                if why == Refusal::NotOwner {
                    self.look_who_has_them();
                }
            }
            _ => {}
        }
    }

    /// The peer has a client of the disk at this place, or has none any more.
    fn peer_has_client(&mut self, at: usize, is_there: bool) {
        let disk = &mut self.disks[at];
        disk.has_client().there = is_there;
        disk.see_incoming(self.session.says_of_client(at, is_there));
        if !self.disks.have_clients().1 {
            self.session.claim_ends();
            self.trace.leaves(None);
        }
        self.drain_or_not();
    }

    /// Lets the caches be copied ahead while a VM is here and the other host has the disks.
    fn stand_or_not(&mut self) {
        let has_client = self.disks.have_clients().0;
        let comes = match self.ownership.role() {
            Role::Standby | Role::Claiming => {
                self.session.stands() && self.expected.prepares(has_client)
            }
            // Who takes the disks has ended it.
            Role::Taking => return,
            Role::Owner | Role::Granting | Role::Giving => false,
        };
        let is_announced = self.expected.is_announced();
        for disk in self.disks.iter_mut() {
            disk.stand_or_not(comes, is_announced);
        }
        self.images.expect(self.disks[0].steps(), comes);
    }

    async fn hear(&mut self, message: Message, guest_has_stopped: bool) {
        self.take(Event::Said {
            message,
            guest_has_stopped,
        })
        .await;
    }

    async fn claimed(&mut self, is_return: bool) {
        let disk = &self.disks[0].steps().entry.config.name;
        tracing::debug!(%disk, is_return, "the peer claims the disk");
        if !self.are_listed_alike() {
            let (unit, why) = (self.disks.unit(), Why::OtherDisks);
            return self
                .disks
                .say(Frame::notice(Said::Refuse { unit, why }))
                .await;
        }
        let mut looks = Vec::new();
        for disk in self.disks.iter() {
            let Some(look) = disk.look().await else {
                return;
            };
            looks.push(look);
        }
        let Some((verdict, is_changed)) = Look::of_vm(&looks) else {
            return;
        };
        let last = looks.iter().map(|look| look.now).max();
        if let (Verdict::StoppedIfSilentUntil(then), Some(last), false, true) =
            (verdict, last, is_return, self.ownership.serves())
        {
            // Longer by what a timer may be early.
            let wait = Duration::from_nanos((then - last).as_nanos()) + Duration::from_millis(1);
            let (tell, claim) = (self.disks[0].tell().clone(), self.session.claim());
            tokio::spawn(async move {
                tokio::time::sleep(wait).await;
                let _ = tell.send(Happens::LookAgain { is_return, claim });
            });
            return;
        }
        if verdict == Verdict::Runs && !is_return && self.ownership.serves() {
            // The guest that asks runs already, and so waits for none that moves.
            self.disks.see_incoming(IncomingClient::Runs);
        }
        if is_changed {
            self.take(Event::Changing).await;
        }
        if self.ownership.serves() {
            let traces = looks.iter().map(|look| look.traces);
            self.claim = (!is_return).then(|| traces.collect());
            let of = (&self.disks, self.ownership.role());
            self.trace.begin(Begun::Claimed, &Parent::default(), of);
        }
        let has_stopped = verdict == Verdict::Stopped;
        self.hear(Message::Claim { is_return }, has_stopped).await;
    }

    async fn act(&mut self, actions: Vec<Action>) {
        for action in VecDeque::from(actions) {
            match action {
                Action::Send(message) => {
                    if let Message::Refuse { why } = message {
                        self.trace.refused(refusal(why));
                    }
                    if let Message::Claim { is_return } = message {
                        self.are_returns &= is_return;
                        self.trace.claims(&self.disks).await;
                    }
                    self.disks
                        .say(Frame::notice(worded(message, self.disks.unit())))
                        .await;
                }
                Action::Serve => {
                    (self.asked, self.refusal) = (None, None);
                    self.under_way.stop_settling().await;
                    self.trace.serves();
                    self.disks.iter_mut().for_each(Member::serve);
                }
                Action::Fail => self.disks.iter_mut().for_each(Member::fail),
                Action::EndOldClients => {
                    self.asked = None;
                    let steps = self.disks[0].steps();
                    let (disk, owner) = (&steps.entry.config.name, steps.peering.there());
                    tracing::warn!(event = EventKind::DiskChanged.word(),
                        %disk, owner, "the disk was changed elsewhere: \
                        the clients that it was taken from get errors");
                    self.disks.iter().for_each(Member::end_old_clients);
                }
                Action::Settle => {
                    let why = |at: usize| match &self.claim {
                        Some(traces) => Hold::Stopped(traces[at]),
                        None => Hold::Return,
                    };
                    let disks = self.disks.iter().enumerate();
                    let disks = disks.map(|(at, disk)| (Arc::clone(disk.steps()), why(at)));
                    let settling = together::settle(disks.collect());
                    let above = self.trace.step(&action);
                    self.under_way.begin(true, above.within(settling));
                }
                step => self.begin(step),
            }
        }
    }

    fn begin(&mut self, step: Action) {
        match step {
            Action::Close => self.are_returns = true,
            Action::Take { .. } if !self.are_returns => {
                self.disks.iter().for_each(Member::end_old_clients);
            }
            _ => {}
        }
        let disks = self.disks.iter_mut().map(|disk| {
            let preparation = disk.begins(&step);
            (Arc::clone(disk.steps()), preparation)
        });
        let disks = disks.collect();
        let until = self.asked.unwrap_or_else(Instant::now) + HELD_MAX;
        let above = self.trace.step(&step);
        let step = together::carry_out(disks, step, until);
        self.under_way.begin(false, above.within(step));
    }
}
