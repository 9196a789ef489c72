//! What the origin lacks of a disk that another host has, kept here while its cache is copied ahead.
//!
//! ```text
//!   ask ─► records ─► the disk's dirty log here ─► durable ─► ask from behind them
//! ```
//!
//! What a question says, and which answer follows, [`handoff::Keeping`] decides. What went wrong begins anew, with the owner's
//! oldest record. Once everything is here the owner's guest waits for what is asked now, and the owner keeps a question that
//! finds nothing: so the next one follows at once.

use super::lending::from_wire;
use super::standing::{Ended, ask};
use super::steps::Steps;
use super::{Tell, shipping::stretch};
use crate::shards;
use cache::Shipment;
use handoff::{Came, Question};
use link_protocol::{Message, decode_records};
use std::sync::Arc;
use std::time::{Duration, Instant};
use units::Bytes;

/// How often the owner is asked at most when there is nothing more.
const PAUSE: Duration = Duration::from_millis(200);
/// The same while a VM here waits for the disk.
const PAUSE_OF_CLAIM: Duration = Duration::from_millis(2);
/// How long the flash here may take to keep what has come.
const KEEP_TIME_MAX: Duration = Duration::from_secs(2);
/// After how long it is tried again if it went wrong: there may be room then.
const RETRY_PAUSE: Duration = Duration::from_secs(5);

/// Who keeps records.
pub(super) struct Keeping {
    steps: Arc<Steps>,
    tell: Tell,
    /// The owner's epoch on the link.
    epoch: u64,
    /// What the cache here is called in records.
    cache: u128,
}

impl Keeping {
    pub(super) fn new(steps: Arc<Steps>, tell: Tell, (epoch, cache): (u64, u128)) -> Self {
        Self {
            steps,
            tell,
            epoch,
            cache,
        }
    }

    /// Keeps what comes. It does not end.
    pub(super) async fn run(self) -> std::convert::Infallible {
        let (disk, mut failures) = (self.steps.entry.config.name.clone(), 0_u32);
        loop {
            let Err(why) = self.keep_all().await;
            if failures == 0 {
                let from = self.steps.peering.there();
                tracing::info!(%disk, from, why, "what the origin lacks does not come here: \
                    it goes to the origin before the disk comes");
            }
            failures += 1;
            // A guest may be about to wait for that: the owner brings it to the origin at once. Whether it has heard is all the
            // same to who keeps nothing.
            let _ = self.ask(Question::of_who_keeps_nothing(self.cache)).await;
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }

    async fn keep_all(&self) -> Result<std::convert::Infallible, String> {
        let mut claims = self.steps.claims.subscribe();
        let mut keeping = handoff::Keeping::new(self.cache);
        let mut had_all = false;
        loop {
            let began = Instant::now();
            let shipment = self.ask(keeping.question()).await?;
            let came = stretch(&shipment);
            let what = keeping.came(came);
            if what == Came::OutOfPlace {
                return Err("the records do not follow".to_owned());
            }
            let behind = came.end - came.next();
            self.steps.shipping.came(came.count, behind);
            if what == Came::News {
                self.keep(shipment).await?;
                keeping.is_durable();
            }
            let (next, end) = (came.next(), came.end);
            let is_claimed = *claims.borrow_and_update();
            if next < end {
                if !is_claimed && !had_all {
                    // Half of the time the link and both flashes are the guests'.
                    tokio::time::sleep(began.elapsed()).await;
                }
                continue;
            }
            if !std::mem::replace(&mut had_all, true) {
                let disk = &self.steps.entry.config.name;
                tracing::info!(%disk, "what the origin lacks is here");
            }
            if what == Came::News {
                continue;
            }
            let pause = if is_claimed {
                PAUSE_OF_CLAIM
            } else {
                PAUSE.saturating_sub(began.elapsed())
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                _ = claims.changed() => {}
            }
        }
    }

    /// Asks the owner for what follows.
    async fn ask(&self, question: Question) -> Result<Shipment<Vec<u8>>, String> {
        let Question {
            from,
            settled,
            cache,
        } = question;
        let asked = Message::AskRecords {
            disk: self.steps.entry.id.to_u128(),
            epoch: self.epoch,
            from,
            settled,
            cache,
        };
        let answer = ask(&self.tell, asked).await;
        let frame = answer.map_err(|Ended| "the other host does not answer".to_owned())?;
        let Message::Records {
            period,
            first,
            base,
            end,
        } = frame.message
        else {
            return Err("the other host does not ship it".to_owned());
        };
        let records = decode_records(&frame.data).ok_or("the other host has sent no records")?;
        let records: Vec<_> = records.into_iter().map(from_wire).collect();
        let bytes = Bytes::new(records.len() as u64 * units::BLOCK_BYTES);
        self.steps.plan.asks_lender(bytes);
        Ok(Shipment {
            period,
            first,
            base,
            end,
            records,
        })
    }

    /// Keeps it durably.
    async fn keep(&self, shipment: Shipment<Vec<u8>>) -> Result<(), String> {
        let (id, period) = (self.steps.entry.id, shipment.period + 1);
        let keeping = shards::ask(&self.steps.handle, |shard, reply| {
            shard.ahead().keep_records(id, period, shipment, reply);
        });
        match tokio::time::timeout(KEEP_TIME_MAX, keeping).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(units::errors::chain(&error)),
            Err(_) => Err("the flash here takes too long, or has no room".to_owned()),
        }
    }
}
