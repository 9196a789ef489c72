//! The cache of a disk that another host has, copied ahead of it while a VM is about to come.
//!
//! ```text
//!   watch    the owner notes from now on what its guests change, or what changes at the origin
//!   stand    the disk is attached here as the owner's: what was cached of it before is gone
//!   copy     what the owner has cached, newest first ─► the cache ◄─ discard: what the owner says is stale
//!   finish   the owner has let go: what is stale, until nothing is; one more round, if requests wait for that;
//!            detached, to be attached as the successor's
//! ```
//! The blocks come from the owner's cache, or from the origin, which the owner still writes.
//!
//! Invariants:
//! - What the owner has told as stale is discarded before anything else is asked: the owner tells it once.
//! - A copy counts only if all of this went well in one session.

use super::held_copy::HeldCopy;
use super::keeping::Keeping;
use super::pulling::Pull;
use super::steps::Steps;
use super::{Happens, Tell};
use crate::shards;
use borrowing::Run;
use link_protocol::{Frame, Message, decode_runs};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};
use strategies::{Place, WaitsFor};
use tokio::sync::oneshot;
use units::BlockIndex;

/// How long the owner has for an answer: a guest may wait for it.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(1);
/// How often the owner is asked what is stale.
const STALE_PAUSE: Duration = Duration::from_millis(200);
/// Least time between two rounds through the owner's cache, and the part of it that a round may take.
const ROUND_PAUSE: Duration = Duration::from_secs(1);
const ROUND_SHARE: u32 = 8;
/// After how long it is tried again if it went wrong.
const RETRY_PAUSE: Duration = Duration::from_secs(5);

/// The owner has let go of the disk and granted this epoch; requests wait until then at most. The answer: whether the copy
/// counts.
struct Finish {
    epoch: u64,
    until: Instant,
    reply: oneshot::Sender<bool>,
}

/// A disk of which the cache goes ahead. When this is dropped the disk is detached.
pub(super) struct Standing {
    finish: oneshot::Sender<Finish>,
}

impl Standing {
    /// Copies blocks from there.
    pub(super) fn begin(from: Place, steps: Arc<Steps>, tell: Tell) -> Self {
        let (finish, finishing) = oneshot::channel();
        let copy = Copy { from, steps, tell };
        tokio::spawn(copy.run(finishing));
        Self { finish }
    }

    /// The owner has let go of the disk and granted this epoch: takes in what is stale, and detaches the disk. Whether
    /// the copy counts.
    async fn finish(self, epoch: u64, until: Instant) -> bool {
        let (reply, answer) = oneshot::channel();
        let asked = self.finish.send(Finish {
            epoch,
            until,
            reply,
        });
        asked.is_ok() && answer.await.unwrap_or(false)
    }
}

/// What is done before a disk that comes is opened.
pub(super) enum Preparation {
    Nothing,
    /// What was copied ahead is finished.
    Copied(Standing),
    /// All of it is copied now.
    ToCopy(HeldCopy),
}

impl Preparation {
    /// Does it, for the disk of this epoch; requests wait until then at most. Whether what is cached of the disk counts.
    pub(super) async fn finish(self, epoch: u64, until: Instant) -> bool {
        match self {
            Self::Nothing => false,
            Self::Copied(standing) => standing.finish(epoch, until).await,
            Self::ToCopy(copy) => copy.finish(until).await,
        }
    }
}

/// A disk that is attached as the other host's.
pub(super) struct Attachment<'a> {
    steps: &'a Steps,
    /// The cache, if there is room to keep what the origin lacks.
    keeps: Option<u128>,
}

impl<'a> Attachment<'a> {
    /// Attaches it; its reads go there.
    pub(super) async fn begin(steps: &'a Steps, reads: Place) -> Result<Self, Ended> {
        // One that ended may still be on its way out.
        detach(steps).await;
        let opener = steps.control.opener();
        let standing = opener.stand_by(&steps.entry, steps.size, reads).await;
        let attached = standing.map(|keeps| Self { steps, keeps });
        attached.map_err(|problem| {
            let disk = &steps.entry.config.name;
            let reason = api::types::Problem::in_a_line(&problem);
            tracing::warn!(%disk, reason, "the disk's cache cannot be copied ahead");
            Ended
        })
    }

    /// Detaches it.
    pub(super) async fn end(self) {
        detach(self.steps).await;
    }

    /// The cache in which what the origin lacks is kept, if it is.
    fn keeps(&self) -> Option<u128> {
        self.keeps.filter(|_| self.steps.ships())
    }
}

async fn detach(steps: &Steps) {
    let id = steps.entry.id;
    let left = shards::ask(&steps.handle, |shard, reply| shard.stand_down(id, reply));
    // A shard that has stopped has no disks.
    let _ = left.await;
}

/// Who copies.
struct Copy {
    from: Place,
    steps: Arc<Steps>,
    tell: Tell,
}

type Finishing = oneshot::Receiver<Finish>;

/// The owner did not answer, or the copy cannot be kept right.
pub(super) struct Ended;

impl Copy {
    async fn run(self, mut finishing: Finishing) {
        loop {
            let Err(Ended) = self.copy(&mut finishing).await else {
                return;
            };
            // Nothing of it counts: a finish that waits is told so when its channel goes.
            detach(&self.steps).await;
            tokio::select! {
                _ = &mut finishing => return,
                () = tokio::time::sleep(RETRY_PAUSE) => {}
            }
        }
    }

    /// Copies until the disk comes here, or nobody waits for it any more.
    async fn copy(&self, finishing: &mut Finishing) -> Result<(), Ended> {
        self.steps.plan.set_copied(None);
        // What one has noted that ended is not asked for any more.
        detach(&self.steps).await;
        let epoch = self.watch().await?;
        let attachment = Attachment::begin(&self.steps, self.from).await?;
        // The loans of its reads are asked with the owner's epoch.
        let _ = self.tell.send(Happens::Stands { epoch });
        let keeping = self.keep(epoch, attachment.keeps());
        let finish = tokio::select! {
            finish = self.copy_rounds(epoch, finishing) => finish?,
            never = keeping => match never {},
        };
        let Some(finish) = finish else {
            attachment.end().await;
            return Ok(());
        };
        let counts = finish.epoch == epoch + 1 && self.take_in_last(epoch, finish.until).await;
        attachment.end().await;
        let _ = finish.reply.send(counts);
        Ok(())
    }

    /// Goes through the owner's cache again and again, until this is to end: what for, if the disk comes here.
    async fn copy_rounds(
        &self,
        epoch: u64,
        finishing: &mut Finishing,
    ) -> Result<Option<Finish>, Ended> {
        let mut rounds = 0;
        loop {
            let began = Instant::now();
            let pull = self.pull();
            let mut round = std::pin::pin!(pull.round());
            let mut is_copying = true;
            let mut next_round = None;
            while next_round.is_none_or(|next| Instant::now() < next) {
                let mut next_stale = std::pin::pin!(tokio::time::sleep(STALE_PAUSE));
                loop {
                    tokio::select! {
                        finish = &mut *finishing => return Ok(finish.ok()),
                        () = &mut next_stale => break,
                        copied = &mut round, if is_copying => {
                            is_copying = false;
                            let took = began.elapsed();
                            next_round = Some(Instant::now() + ROUND_PAUSE.max(took * ROUND_SHARE));
                            self.tell_of_round(copied, took, rounds);
                            rounds += 1;
                        }
                    }
                }
                self.take_in_stale(epoch).await?;
            }
        }
    }

    /// Keeps what the origin lacks in this cache; it does not end.
    async fn keep(&self, epoch: u64, cache: Option<u128>) -> Infallible {
        let cache = cache.filter(|_| self.from == Place::Lender);
        let Some(cache) = cache else {
            return std::future::pending().await;
        };
        let (steps, tell) = (Arc::clone(&self.steps), self.tell.clone());
        Keeping::new(steps, tell, (epoch, cache)).run().await
    }

    fn pull(&self) -> Pull {
        let lists = self.from == Place::Lender;
        Pull::new(lists, Some(self.from), &self.steps, self.tell.clone())
    }

    /// The owner has let go of the disk: takes in what it has changed last, and one more round if requests wait for
    /// that. Whether the copy counts.
    async fn take_in_last(&self, epoch: u64, until: Instant) -> bool {
        if self.take_in_stale(epoch).await.is_err() {
            return false;
        }
        if self.steps.plan.row().waits_for != WaitsFor::Changes {
            // Nothing changes meanwhile, so each part of it counts.
            let _ = tokio::time::timeout_at(until.into(), self.pull().round()).await;
        }
        true
    }

    fn tell_of_round(&self, copied: Option<u64>, took: Duration, rounds: u32) {
        let disk = &self.steps.entry.config.name;
        let seconds = took.as_secs_f64();
        match copied {
            Some(blocks) if rounds == 0 => {
                tracing::info!(%disk, blocks, seconds, "the disk's cache is copied ahead");
            }
            Some(blocks) => tracing::debug!(%disk, blocks, seconds, "it was looked through again"),
            None => tracing::debug!(%disk, "the owner has not told what it has"),
        }
    }

    async fn watch(&self) -> Result<u64, Ended> {
        let disk = self.steps.entry.id.to_u128();
        let answer = self.ask(match self.from {
            Place::Lender => Message::AskWatch { disk },
            Place::Origin => Message::AskWatchOrigin { disk },
        });
        let answer = answer.await?;
        match answer.message {
            Message::Watched { epoch } => Ok(epoch),
            _ => Err(Ended),
        }
    }

    /// Discards what the owner has changed, until nothing is left.
    async fn take_in_stale(&self, epoch: u64) -> Result<(), Ended> {
        let disk = self.steps.entry.id.to_u128();
        loop {
            let answer = self.ask(Message::AskStale { disk, epoch }).await?;
            if answer.message != Message::Stale {
                return Err(Ended);
            }
            let runs = decode_runs(&answer.data).ok_or(Ended)?;
            if runs.is_empty() {
                return Ok(());
            }
            for (_, count) in &runs {
                self.steps.plan.is_stale(*count);
            }
            let discards: Vec<_> = runs.into_iter().map(|run| self.discard(run)).collect();
            for discarded in discards {
                let discarded = discarded.await;
                discarded.map_err(|_| Ended)?.map_err(|_| Ended)?;
            }
        }
    }

    fn discard(&self, run: (u64, u32)) -> oneshot::Receiver<Result<(), shard::ShardError>> {
        let run = Run {
            first: BlockIndex::new(run.0),
            count: run.1,
        };
        let id = self.steps.entry.id;
        shards::send(&self.steps.handle, |shard, reply| {
            shard.ahead().stale(id, run, reply);
        })
    }

    /// Asks the owner. No answer comes if the session is lost.
    async fn ask(&self, question: Message) -> Result<Frame, Ended> {
        ask(&self.tell, question).await
    }
}

/// Asks the owner. No answer comes if the session is lost.
pub(super) async fn ask(tell: &Tell, question: Message) -> Result<Frame, Ended> {
    let (answer, answered) = oneshot::channel();
    let asked = tell.send(Happens::Asks { question, answer });
    asked.map_err(|_| Ended)?;
    let answered = tokio::time::timeout(ANSWER_TIME_MAX, answered).await;
    answered.map_err(|_| Ended)?.map_err(|_| Ended)
}
