//! What the origin lacks of a disk goes to the host that is about to get it: at the host that has the disk.
//!
//! ```text
//!   the other host asks for records, again and again ── each question says how far it has them durably
//!   settle   requests wait ─► nothing goes to the origin any more ─► a question at the end of the log, by who has the
//!            rest, and knows how far the origin has it ─► the disk is settled
//! ```
//!
//! Invariants:
//! - A question counts only of the copy that is under way now, and only if it was answered when nothing moved any more.
//! - Whatever goes wrong, or takes too long, ends in the disk being drained.

use super::steps::Steps;
use crate::shards;
use cache::Shipment;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use units::BLOCK_BYTES;

/// How long a hand-over waits for the other host to have the rest, before the disk is drained: its VM waits.
const SHIP_TIME_MAX: Duration = Duration::from_secs(3);
/// After how long without a question nothing is shipped any more. Several are asked in a second.
const QUESTION_PAUSE_MAX: Duration = Duration::from_secs(2);

/// Which cache has what the origin lacks, and the period in which that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kept {
    pub(super) cache: u128,
    pub(super) period: u64,
}

/// A question for records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Question {
    pub(super) from: u64,
    /// The oldest record that the origin lacked by the answer before, which is kept.
    pub(super) settled: Option<u64>,
    /// Who keeps them.
    pub(super) cache: u128,
}

/// What a question that was asked when nothing moved any more has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    /// The other host has everything that the origin lacks.
    Kept(Kept),
    /// The origin lacks nothing.
    Nothing,
    /// It has not everything yet.
    NotYet,
}

fn shown<B>(question: Question, answer: &Shipment<B>) -> Shown {
    if answer.base == answer.end {
        return Shown::Nothing;
    }
    let has_all = question.from == answer.end && answer.records.is_empty();
    if has_all && question.settled == Some(answer.base) {
        return Shown::Kept(Kept {
            cache: question.cache,
            period: answer.period + 1,
        });
    }
    Shown::NotYet
}

/// A hand-over that waits for the other host to have everything.
struct Settling {
    number: u64,
    reply: oneshot::Sender<Option<Kept>>,
}

#[derive(Default)]
struct State {
    /// Which copy of the other host is under way.
    copy: u64,
    /// When it has asked last, and how many records it lacks.
    asked: Option<(Instant, u64)>,
    settlings: u64,
    settling: Option<Settling>,
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
        state.copy += 1;
        state.asked = None;
        state.copy
    }

    /// Which hand-over waits. What is answered from now on may end it.
    pub(super) fn settling(&self) -> Option<u64> {
        self.lock().settling.as_ref().map(|one| one.number)
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
        if state.copy != copy {
            return;
        }
        let behind = answer.end - answer.first.min(answer.end);
        state.asked = Some((Instant::now(), behind));
        let shown = shown(question, answer);
        let may_end = |one: &mut Settling| settling == Some(one.number) && shown != Shown::NotYet;
        if let Some(settling) = state.settling.take_if(may_end) {
            let kept = match shown {
                Shown::Kept(kept) => Some(kept),
                Shown::Nothing | Shown::NotYet => None,
            };
            // Who waited may have gone.
            let _ = settling.reply.send(kept);
        }
    }

    /// This host has got so many records of another one, and lacks so many.
    pub(super) fn came(&self, records: u64, behind: u64) {
        self.kept
            .fetch_add(records * BLOCK_BYTES, Ordering::Relaxed);
        self.lock().asked = Some((Instant::now(), behind));
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
        state.settlings += 1;
        let number = state.settlings;
        state.settling = Some(Settling { number, reply });
        kept
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What goes to a disk's origin stands still as long as this is kept.
struct Hold<'a> {
    steps: &'a Steps,
    number: u64,
    is_kept: bool,
}

impl Hold<'_> {
    /// It stands still until the disk is detached.
    fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        if !self.is_kept {
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

#[cfg(test)]
mod tests {
    use super::*;
    use cache::{Shipped, ShippedWhat};
    use units::BlockIndex;

    fn answer(base: u64, first: u64, records: u64, end: u64) -> Shipment<Vec<u8>> {
        let record = Shipped {
            begins_interval: false,
            what: ShippedWhat::Block {
                block: BlockIndex::new(1),
                bytes: Vec::new(),
            },
        };
        Shipment {
            period: 6,
            first,
            base,
            end,
            records: (0..records).map(|_| record.clone()).collect(),
        }
    }

    fn question(from: u64, settled: Option<u64>) -> Question {
        let cache = 9;
        Question {
            from,
            settled,
            cache,
        }
    }

    #[test]
    fn everything_is_kept_when_a_question_begins_at_the_end_and_its_asker_knows_the_oldest_record()
    {
        let kept = Shown::Kept(Kept {
            cache: 9,
            period: 7,
        });
        for (question, answer, seen) in [
            (question(8, Some(3)), answer(3, 8, 0, 8), kept),
            (question(8, Some(2)), answer(3, 8, 0, 8), Shown::NotYet),
            (question(8, None), answer(3, 8, 0, 8), Shown::NotYet),
            (question(7, Some(3)), answer(3, 7, 1, 8), Shown::NotYet),
            (question(0, Some(3)), answer(3, 3, 5, 8), Shown::NotYet),
            (question(8, Some(8)), answer(8, 8, 0, 8), Shown::Nothing),
            (question(0, None), answer(8, 8, 0, 8), Shown::Nothing),
        ] {
            assert_eq!(shown(question, &answer), seen, "{question:?}");
        }
    }

    #[test]
    fn only_the_copy_that_is_under_way_ends_the_hand_over_that_waited_when_it_asked() {
        let shipping = Shipping::default();
        let all = (question(8, Some(3)), answer(3, 8, 0, 8));
        let answered = |copy, settling| shipping.answered(copy, settling, all.0, &all.1);
        let first = shipping.begins();
        // It was looked up before the hand-over waited.
        let before = shipping.settling();
        let mut waits = shipping.settle();
        answered(first, before);
        assert!(waits.try_recv().is_err());
        let second = shipping.begins();
        answered(first, shipping.settling());
        assert!(waits.try_recv().is_err(), "it is of a copy that has ended");
        let earlier = shipping.settling();
        let mut waits = shipping.settle();
        answered(second, earlier);
        assert!(waits.try_recv().is_err(), "another one waited");
        answered(second, shipping.settling());
        let kept = Kept {
            cache: 9,
            period: 7,
        };
        assert_eq!(waits.try_recv(), Ok(Some(kept)));
        assert_eq!(shipping.settling(), None);
        assert_eq!(shipping.behind_bytes(), Some(0));
        shipping.begins();
        assert!(!shipping.is_under_way());
    }
}
