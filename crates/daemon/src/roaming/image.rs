//! The task of a base image whose cache follows the VMs that read it.
//!
//! ```text
//!   a VM is about to come ─► a round: is it the same image? ─► what the other host has cached is listed and pulled
//!   reads of what is listed, meanwhile ──────────────────────► the other host, and the origin if that is late
//!   the VM has come ─► another round ─► nothing is borrowed any more
//! ```
//! Both hosts serve the image all the time: nobody owns it, and nothing waits for this.
//!
//! Invariant: nothing is borrowed before the other host has said that its image is the same, nor after the session in which
//! it did.

use super::images::Coming;
use super::lending::Lending;
use super::places::{Entered, Tell};
use super::plan::Plan;
use super::proxied_reads::Numbers;
use super::pulling::{Pull, contents_of};
use super::questions::{Questions, Waiting};
use super::standing::ask;
use super::{Happens, Told};
use crate::image_view::{Figures, ImageLooks, ImageView, from_wire, to_wire};
use crate::peering::Peering;
use api::roaming::MovePhase;
use borrowing::{Ask, Manner};
use configuration::Name;
use link::PeerId;
use link_protocol::{Frame, Message as Said, NotServed};
use shard::{ImageHandle, ShardHandle, StandbyNeeds};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::AbortHandle;
use units::{BLOCK_BYTES, Bytes, DiskId};

/// After how long a round is tried again that went wrong while a VM is expected.
const RETRY_PAUSE: Duration = Duration::from_secs(2);

/// An image, and what it borrows and lends.
struct Follower {
    name: Name,
    disk: DiskId,
    shard: ShardHandle,
    peering: Peering,
    numbers: Numbers,
    tell: Tell,
    plan: Arc<Plan>,
    looks: Arc<ImageLooks>,
    questions: Questions,
    is_linked: bool,
    /// The VMs that are about to come.
    coming: BTreeSet<Name>,
    /// From when a round is to begin.
    due: Option<Instant>,
    round: Option<AbortHandle>,
    /// The number under which the other host is asked.
    borrows: Option<u64>,
    /// What the other host asks for.
    lends: Option<Lending>,
    /// How often it asked for the image.
    asked: u64,
}

/// Carries an image that has entered until the daemon stops.
pub(super) async fn run(
    (image, looks): (Entered, Arc<ImageLooks>),
    shard: ShardHandle,
    mut told: Told,
) {
    let peering = image.peering;
    let plan = Arc::new(Plan::new(&image.entry.config.migration, peering.pace()));
    let counted = Arc::clone(&plan);
    looks.count_by(Box::new(move || Figures {
        came_bytes: counted.came(),
        lent_bytes: counted.lent(),
        rate: counted.rate(),
        expected_hit_ratio: counted.hit_ratio(),
    }));
    let follower = Follower {
        name: image.entry.config.name.clone(),
        disk: image.entry.id,
        shard,
        numbers: Numbers::new(image.number),
        tell: image.tell,
        plan,
        looks,
        questions: Questions::default(),
        is_linked: peering.stands(),
        coming: BTreeSet::new(),
        due: None,
        round: None,
        borrows: None,
        lends: None,
        asked: 0,
        peering,
    };
    follower.listen(&mut told).await;
}

impl Follower {
    async fn listen(mut self, told: &mut Told) {
        self.note();
        loop {
            let due = self.due.filter(|_| self.is_linked && self.round.is_none());
            let is_due = async {
                match due {
                    Some(due) => tokio::time::sleep_until(due.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                happens = told.recv() => match happens {
                    Some((_, happens)) => self.happens(happens).await,
                    None => return,
                },
                () = is_due => self.begin_round(),
            }
            self.note();
        }
    }

    async fn happens(&mut self, happens: Happens) {
        match happens {
            Happens::Comes { vm, coming, from } => self.comes(vm, coming, from),
            Happens::Linked(peer) if peer == self.peering.peer() => {
                self.is_linked = true;
                self.due = (!self.coming.is_empty()).then(Instant::now);
            }
            Happens::Lost(peer) => {
                // Another one that is lent to asks again.
                self.lends = None;
                if peer == self.peering.peer() {
                    self.is_linked = false;
                    self.end();
                }
            }
            Happens::Stands { epoch } => self.borrows = Some(epoch),
            Happens::Rate(rate) => self.plan.set_rate(rate),
            Happens::RoundEnded { problem } => self.round_ended(problem),
            Happens::Compared {
                to,
                number,
                outcome,
            } => self.compared(to, number, outcome).await,
            Happens::Needed(StandbyNeeds::Loan(ask)) => self.ask_for_loan(ask).await,
            Happens::NeedsContents { at, answer } => {
                let number = self.numbers.next();
                // Who asks is told by the end of its channel that nothing is borrowed.
                if let Some(epoch) = self.borrows {
                    let disk = self.disk.to_u128();
                    self.questions.asked(number, Waiting::Contents(answer));
                    let ask = Said::AskContents { disk, epoch, at };
                    self.say(Frame::numbered(number, ask)).await;
                }
            }
            Happens::Asks { question, answer } => {
                let number = self.numbers.next();
                self.questions.asked(number, Waiting::Answer(answer));
                self.say(Frame::numbered(number, question)).await;
            }
            Happens::Said(peer, frame) => self.said(peer, frame),
            // An image has no owner, and no client waits for it.
            Happens::Needed(StandbyNeeds::Client(_))
            | Happens::Pulled
            | Happens::Ordered(_)
            | Happens::Split { .. }
            | Happens::Linked(_)
            | Happens::Named { .. }
            | Happens::LookAgain { .. } => {}
        }
    }

    fn comes(&mut self, vm: Name, coming: Coming, from: PeerId) {
        let was_expected = self.coming.remove(&vm);
        if coming != Coming::IsNot && from != self.peering.peer() {
            if !self.coming.is_empty() {
                // The caches of one peer come at a time.
                return;
            }
            self.end();
            self.peering.turn(from);
            self.is_linked = self.peering.stands();
        }
        match coming {
            Coming::IsExpected => {
                self.coming.insert(vm);
                self.due = Some(Instant::now());
            }
            // What was copied of the image since the round before this.
            Coming::HasCome => self.due = Some(Instant::now()),
            Coming::IsNot => {
                if was_expected && self.coming.is_empty() {
                    self.end();
                }
            }
        }
    }

    fn begin_round(&mut self) {
        self.due = None;
        let round = Round {
            disk: self.disk,
            shard: self.shard.clone(),
            plan: Arc::clone(&self.plan),
            looks: Arc::clone(&self.looks),
            tell: self.tell.clone(),
            there: self.peering.there().to_owned(),
            name: self.name.clone(),
        };
        let tell = self.tell.clone();
        let running = tokio::spawn(async move {
            let problem = round.run().await.err();
            let _ = tell.send(Happens::RoundEnded { problem });
        });
        self.round = Some(running.abort_handle());
    }

    fn round_ended(&mut self, problem: Option<String>) {
        self.round = None;
        if let Some(why) = &problem {
            let (image, from) = (&self.name, self.peering.there());
            if self.looks.problem().as_ref() != Some(why) {
                tracing::warn!(%image, from, reason = why, "the base image's cache does not follow its VMs");
            }
            if !self.coming.is_empty() && self.due.is_none() {
                self.due = Some(Instant::now() + RETRY_PAUSE);
            }
        }
        let has_failed = problem.is_some();
        self.looks.set_problem(problem);
        if has_failed || (self.coming.is_empty() && self.due.is_none()) {
            self.stop_borrowing();
        }
    }

    /// Nothing more comes, and nothing is waited for.
    fn end(&mut self) {
        self.due = None;
        // First, or it would take what is dropped for a refusal.
        if let Some(round) = self.round.take() {
            round.abort();
        }
        self.stop_borrowing();
    }

    fn stop_borrowing(&mut self) {
        self.borrows = None;
        self.questions.end();
        self.shard.borrow(self.disk, None);
    }

    async fn ask_for_loan(&mut self, Ask { number, run }: Ask) {
        let Some(epoch) = self.borrows else {
            return self.shard.answer_loan(self.disk, number, None);
        };
        let question = Said::AskBlocks {
            disk: self.disk.to_u128(),
            epoch,
            first: run.first.get(),
            count: run.count,
        };
        let named = self.numbers.next();
        self.questions.asked(named, Waiting::Loan(number));
        self.plan
            .asks_lender(Bytes::new(u64::from(run.count) * BLOCK_BYTES));
        self.say(Frame::numbered(named, question)).await;
    }

    fn said(&mut self, peer: PeerId, frame: Frame) {
        let is_ours = peer == self.peering.peer();
        let answers = is_ours.then(|| self.questions.answered(&frame));
        match answers.flatten() {
            Some(Waiting::Loan(loan)) => {
                let bytes = matches!(frame.message, Said::Bytes).then_some(frame.data);
                self.plan.has_come(bytes.as_ref().map_or(0, Vec::len));
                self.shard.answer_loan(self.disk, loan, bytes);
            }
            Some(Waiting::Contents(answer)) => {
                let size = self.looks.size().unwrap_or(Bytes::ZERO);
                // Who asked may have ended.
                let _ = answer.send(contents_of(&frame, size));
            }
            Some(Waiting::Answer(answer)) => {
                let _ = answer.send(frame);
            }
            None => self.asked(peer, frame),
        }
    }

    /// Another host asks.
    fn asked(&mut self, peer: PeerId, frame: Frame) {
        let number = frame.number;
        match frame.message {
            Said::AskImage { image, .. } => {
                let (shard, disk) = (self.shard.clone(), self.disk);
                let (looks, tell) = (Arc::clone(&self.looks), self.tell.clone());
                tokio::spawn(async move {
                    let outcome = match looks.look(&shard, disk).await {
                        Some((attachment, ours)) if ours.differs(&from_wire(*image)).is_none() => {
                            Ok(attachment)
                        }
                        Some(_) => Err(NotServed::OtherImage),
                        None => Err(NotServed::Elsewhere),
                    };
                    let to = peer;
                    let _ = tell.send(Happens::Compared {
                        to,
                        number,
                        outcome,
                    });
                });
            }
            Said::AskContents { epoch, .. } | Said::AskBlocks { epoch, .. } => {
                let lends = self.lends.clone();
                let lends = lends.filter(|lends| lends.epoch() == epoch);
                Lending::say(lends, self.peering.with(peer), number, frame.message);
            }
            _ => {}
        }
    }

    /// The other host's image was compared with this attachment of ours.
    async fn compared(&mut self, to: PeerId, number: u64, outcome: Result<u64, NotServed>) {
        let message = match outcome {
            Ok(attachment) => {
                self.asked += 1;
                let (ours, pace) = ((&self.shard, self.disk), self.peering.pace());
                let lends = Lending::of_image(self.asked, attachment, ours, (&self.plan, pace));
                self.lends = Some(lends);
                Said::Watched { epoch: self.asked }
            }
            Err(why) => Said::NotServed { why },
        };
        // What is lost with the link is asked again.
        let asks = self.peering.with(to);
        let _ = asks.say(Frame::numbered(number, message)).await;
    }

    /// What is lost with the link is asked again.
    async fn say(&self, frame: Frame) {
        let _ = self.peering.say(frame).await;
    }

    fn note(&self) {
        let phase = match (self.coming.is_empty(), &self.round) {
            (false, _) => MovePhase::Ahead,
            (true, Some(_)) => MovePhase::Behind,
            (true, None) => MovePhase::Idle,
        };
        self.looks.note(ImageView {
            phase,
            coming: self.coming.iter().cloned().collect(),
        });
    }
}

/// One round through the other host's image.
struct Round {
    disk: DiskId,
    name: Name,
    there: String,
    shard: ShardHandle,
    plan: Arc<Plan>,
    looks: Arc<ImageLooks>,
    tell: Tell,
}

impl Round {
    /// Copies what is missing here.
    ///
    /// # Errors
    /// Why nothing, or not all of it, came.
    async fn run(self) -> Result<(), String> {
        let (began, there) = (Instant::now(), &self.there);
        let (_, ours) = self
            .looks
            .look(&self.shard, self.disk)
            .await
            .ok_or("the image is not attached here")?;
        let (disk, image) = (self.disk.to_u128(), Box::new(to_wire(ours)));
        let answer = ask(&self.tell, Said::AskImage { disk, image }).await;
        let epoch = match answer.map(|frame| frame.message) {
            Ok(Said::Watched { epoch }) => epoch,
            Ok(Said::NotServed {
                why: NotServed::OtherImage,
            }) => return Err(format!("{there} has another image by this id")),
            Ok(_) => {
                return Err(format!(
                    "{there} serves no image by this id whose cache follows its VMs"
                ));
            }
            Err(_) => return Err(format!("{there} does not say what its image is")),
        };
        // In this order, since the list is asked for under this number.
        let _ = self.tell.send(Happens::Stands { epoch });
        ImageHandle::of(&self.shard, self.disk).begin(Manner::Keeps);
        let before = self.plan.came();
        let pull = Pull::of_image(Arc::clone(&self.plan), (self.shard, self.disk), self.tell);
        let Some(blocks) = pull.round().await else {
            return Err(format!("{there} lends nothing of it any more"));
        };
        let bytes = self.plan.came() - before;
        let seconds = began.elapsed().as_secs_f64();
        tracing::info!(image = %self.name, from = there, blocks, bytes, seconds, "the base image's cache has followed");
        Ok(())
    }
}
