//! What the origin lacks of a disk goes to the host that is about to get it: at the host that has the disk.
//!
//! ```text
//!   the other host asks for records, again and again ── each question says how far it has them durably
//!   settle   requests wait ─► nothing goes to the origin any more ─► a question at the end of the log, by who has the
//!            rest, and knows how far the origin has it ─► the disk is settled
//! ```
//!
//! Which question says that the other host has everything [`handoff::Shipping`] decides.
//!
//! Invariant: whatever goes wrong, or takes too long, ends in the disk being drained.

use super::steps::Steps;
use crate::shards;
use cache::Shipment;
use handoff::{Kept, Question, Stretch};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use units::BLOCK_BYTES;

/// How long a hand-over waits for the other host to have the rest, before the disk is drained: its VM waits.
const SHIP_TIME_MAX: Duration = Duration::from_secs(3);
/// After how long without a question nothing is shipped any more. Several are asked in a second.
const QUESTION_PAUSE_MAX: Duration = Duration::from_secs(2);

#[derive(Default)]
struct State {
    machine: handoff::Shipping,
    /// When it has asked last, and how many records it lacks.
    asked: Option<(Instant, u64)>,
    /// Who waits for the other host to have everything.
    waits: Option<oneshot::Sender<Option<Kept>>>,
    /// Under this number nothing goes to the origin until the disk is detached, or served on.
    hold: Option<u64>,
}

/// What is shipped of one disk, in either direction.
#[derive(Default)]
pub(super) struct Shipping {
    state: Mutex<State>,
    shipped: AtomicU64,
    kept: AtomicU64,
}

impl Shipping {
    /// The other host begins to copy anew, or ends: what it has said before counts no more.
    pub(super) fn begins(&self) -> u64 {
        let mut state = self.lock();
        state.asked = None;
        state.machine.begins()
    }

    /// Which hand-over waits. What is answered from now on may end it.
    pub(super) fn settling(&self) -> Option<u64> {
        self.lock().machine.settling()
    }

    /// A question of this copy is answered, which was looked up while this hand-over waited, if one did.
    pub(super) fn answered<B>(
        &self,
        copy: u64,
        settling: Option<u64>,
        question: Question,
        answer: &Shipment<B>,
    ) {
        let count = answer.records.len() as u64;
        self.shipped
            .fetch_add(count * BLOCK_BYTES, Ordering::Relaxed);
        let mut state = self.lock();
        if !state.machine.is_under_way(copy) {
            return;
        }
        let behind = answer.end - answer.first.min(answer.end);
        state.asked = Some((Instant::now(), behind));
        let of = (copy, settling);
        if let Some(kept) = state.machine.answered(of, question, stretch(answer))
            && let Some(waits) = state.waits.take()
        {
            // Who waited may have gone.
            let _ = waits.send(kept);
        }
    }

    /// This host has got so many records of another one, and lacks so many.
    pub(super) fn came(&self, records: u64, behind: u64) {
        self.kept
            .fetch_add(records * BLOCK_BYTES, Ordering::Relaxed);
        self.lock().asked = Some((Instant::now(), behind));
    }

    /// The other host keeps nothing after all, as it says in this copy: the origin is to have it, at once if a hand-over waits.
    pub(super) fn keeps_nothing(&self, copy: u64) {
        let mut state = self.lock();
        if !state.machine.is_under_way(copy) {
            return;
        }
        state.asked = None;
        if state.machine.keeps_nothing(copy)
            && let Some(waits) = state.waits.take()
        {
            // Who waited may have gone.
            let _ = waits.send(None);
        }
    }

    /// Whether the other host asks for what the origin lacks, and is answered.
    pub(super) fn is_under_way(&self) -> bool {
        self.behind_bytes().is_some()
    }

    /// Bytes that it lacks, if it is under way.
    pub(super) fn behind_bytes(&self) -> Option<u64> {
        let asked = self.lock().asked;
        let recent = asked.filter(|(at, _)| at.elapsed() < QUESTION_PAUSE_MAX);
        recent.map(|(_, behind)| behind * BLOCK_BYTES)
    }

    /// Bytes of records that have gone to the other host, and that have come from it.
    pub(super) fn bytes(&self) -> (u64, u64) {
        let [shipped, kept] = [&self.shipped, &self.kept];
        (
            shipped.load(Ordering::Relaxed),
            kept.load(Ordering::Relaxed),
        )
    }

    /// A hand-over waits from now on: nothing moves any more.
    fn settle(&self) -> oneshot::Receiver<Option<Kept>> {
        let (reply, kept) = oneshot::channel();
        let mut state = self.lock();
        state.machine.settle();
        state.waits = Some(reply);
        kept
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Which records a shipment has.
pub(super) fn stretch<B>(shipment: &Shipment<B>) -> Stretch {
    Stretch {
        period: shipment.period,
        first: shipment.first,
        count: shipment.records.len() as u64,
        base: shipment.base,
        end: shipment.end,
    }
}

/// What goes to a disk's origin stands still as long as this is kept.
struct Hold<'a> {
    steps: &'a Steps,
    number: u64,
    is_kept: bool,
}

impl Hold<'_> {
    /// It stands still until the disk is detached, or [`Steps::release_destage`].
    fn keep(mut self) {
        self.is_kept = true;
        self.steps.shipping.lock().hold = Some(self.number);
    }
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        if !self.is_kept {
            self.steps.shipping.lock().machine.give_up();
            let id = self.steps.entry.id;
            self.steps.handle.ahead().release_destage(id, self.number);
        }
    }
}

impl Steps {
    /// Lets the other host have what the origin lacks, while requests wait. `None`: it has not everything, or the origin
    /// lacks nothing; the origin is to have it.
    pub(super) async fn ship_rest(&self) -> Option<Kept> {
        if !self.ships() || !self.shipping.is_under_way() {
            return None;
        }
        let (disk, began) = (&self.entry.config.name, Instant::now());
        let shipped = tokio::time::timeout(SHIP_TIME_MAX, self.ship_held()).await;
        let seconds = began.elapsed().as_secs_f64();
        match shipped {
            Ok(Some(kept)) => {
                let (to, cache) = (self.peering.there(), format!("{:032x}", kept.cache));
                tracing::info!(%disk, to, cache, seconds, "what the origin lacks has gone to the other host");
                Some(kept)
            }
            Ok(None) => None,
            Err(_) => {
                tracing::info!(%disk, seconds, "the other host does not get what the origin lacks in time: \
                    it goes to the origin");
                None
            }
        }
    }

    /// The disk is served on: what it has goes to the origin again. A settling may have ended when it was to be stopped.
    pub(super) fn release_destage(&self) {
        let hold = self.shipping.lock().hold.take();
        if let Some(number) = hold {
            let id = self.entry.id;
            self.handle.ahead().release_destage(id, number);
        }
    }

    async fn ship_held(&self) -> Option<Kept> {
        static HOLDS: AtomicU64 = AtomicU64::new(0);
        let hold = Hold {
            steps: self,
            number: HOLDS.fetch_add(1, Ordering::Relaxed),
            is_kept: false,
        };
        let held = shards::ask(&self.handle, |shard, reply| {
            shard
                .ahead()
                .hold_destage(self.entry.id, hold.number, reply);
        });
        if let Err(error) = held.await {
            let disk = &self.entry.config.name;
            tracing::debug!(%disk, %error, "what the origin lacks is not shipped");
            return None;
        }
        let kept = self.shipping.settle().await.ok()??;
        hold.keep();
        Some(kept)
    }
}
