//! What is cached here of a disk that was given away, or is about to be, read for the other host.
//!
//! What is sent is counted at the rate of the link. Blocks are sent as they are asked for, since a read may wait for them; the
//! contents of a segment wait, for which nobody does who reads: without them the other host copies no further.

use super::plan::Plan;
use super::shipping::Shipping;
use super::steps::Steps;
use crate::pace::Pace;
use crate::peering::Peering;
use crate::shards::ask;
use block_io::PAGE_BYTES;
use cache::{Borrowed, LoanRequest, RecordsAsked, Shipped, ShippedWhat};
use flash_format::{Erasure, ErasureKind, SegmentIndex};
use handoff::Question;
use link_protocol::{
    DATA_MAX, Erased, Frame, Message, NotServed, Record, RecordWhat, encode_records, encode_runs,
};
use shard::{ImageHandle, ShardHandle, Watched};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::Mutex;
use units::{BlockIndex, Bytes, DiskId};

/// A disk that was given away with this epoch of its new owner; or one that is here with it, of which the cache is
/// copied ahead.
#[derive(Clone)]
pub(super) struct Lending {
    epoch: u64,
    disk: DiskId,
    shard: ShardHandle,
    /// Bytes of it that were lent.
    lent: Arc<AtomicU64>,
    /// Of all disks together.
    pace: Arc<Pace>,
    /// Its segments, the newest first, as they were when the new owner began to ask.
    segments: Arc<Mutex<Vec<SegmentIndex>>>,
    /// What its origin lacks is shipped, to this copy of the other host.
    ships: Option<(u64, Arc<Shipping>)>,
    /// It is a base image, as it was attached then.
    attachment: Option<u64>,
}

impl Lending {
    pub(super) fn new(epoch: u64, steps: &Steps) -> Self {
        Self {
            epoch,
            disk: steps.entry.id,
            shard: steps.handle.clone(),
            lent: steps.plan.counts_lent(),
            pace: steps.peering.pace(),
            segments: Arc::default(),
            ships: None,
            attachment: None,
        }
    }

    /// A base image of this shard, as it was attached then, which the other host asks for under this number.
    pub(super) fn of_image(
        number: u64,
        attachment: u64,
        (shard, disk): (&ShardHandle, DiskId),
        (plan, pace): (&Plan, Arc<Pace>),
    ) -> Self {
        Self {
            epoch: number,
            disk,
            shard: shard.clone(),
            lent: plan.counts_lent(),
            pace,
            segments: Arc::default(),
            ships: None,
            attachment: Some(attachment),
        }
    }

    /// The same, and what the origin lacks is shipped to this copy of the other host.
    pub(super) fn ships(self, copy: u64, shipping: Arc<Shipping>) -> Self {
        let ships = Some((copy, shipping));
        Self { ships, ..self }
    }

    /// Answers what the host that has a disk now asks, if it is lent.
    pub(super) fn say(lending: Option<Self>, peering: Peering, number: u64, asked: Message) {
        tokio::spawn(async move {
            let frame = match lending {
                Some(lending) => lending.answer(number, asked).await,
                None => Frame::numbered(number, not_served().0),
            };
            // Asked again if it is lost, or had from the origin.
            let _ = peering.say(frame).await;
        });
    }

    /// Notes from now on what changes of a disk that is here, for the host that copies its cache.
    pub(super) fn watch(self, what: Watched, peering: Peering, number: u64) {
        tokio::spawn(async move {
            let (disk, what) = (self.disk, Some(what));
            let watched = ask(&self.shard, |shard, reply| shard.watch(disk, what, reply)).await;
            let message = match watched {
                Ok(()) => Message::Watched { epoch: self.epoch },
                Err(_) => not_served().0,
            };
            let _ = peering.say(Frame::numbered(number, message)).await;
        });
    }

    /// The host that copies the cache has gone.
    pub(super) fn unwatch(self) {
        self.shard.watch(self.disk, None, Box::new(|_| {}));
    }

    /// With which epoch it is lent.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The answer to what the host that has the disk now asks, in a session of this epoch.
    async fn answer(self, number: u64, asked: Message) -> Frame {
        let answer = match asked {
            Message::AskContents { epoch, at, .. } if epoch == self.epoch => {
                self.contents(at).await
            }
            Message::AskBlocks {
                epoch,
                first,
                count,
                ..
            } if epoch == self.epoch => self.blocks(first, count).await,
            Message::AskStale { epoch, .. } if epoch == self.epoch => self.stale().await,
            Message::AskRecords {
                epoch,
                from,
                settled,
                cache,
                ..
            } if epoch == self.epoch => {
                let question = Question {
                    from,
                    settled,
                    cache,
                };
                self.records(question).await
            }
            _ => None,
        };
        let (message, data) = answer.unwrap_or_else(not_served);
        Frame {
            number,
            message,
            data,
        }
    }

    async fn contents(&self, at: u32) -> Option<(Message, Vec<u8>)> {
        let disk = self.disk;
        self.pace.wait().await;
        let mut segments = self.segments.lock().await;
        if at == 0 {
            let found = self.lend(LoanRequest::Segments { disk }).await?;
            let Borrowed::Segments(found) = found else {
                return None;
            };
            *segments = found;
        }
        let count = u32::try_from(segments.len()).ok()?;
        let segment = segments.get(at as usize).copied();
        drop(segments);
        let runs = match segment {
            None => Vec::new(),
            Some(segment) => match self.lend(LoanRequest::Contents { disk, segment }).await? {
                Borrowed::Contents(blocks) => runs(&blocks),
                Borrowed::Segments(_) | Borrowed::Blocks(_) | Borrowed::Records(_) => return None,
            },
        };
        Some((Message::Contents { segments: count }, encode_runs(&runs)))
    }

    async fn blocks(&self, first: u64, count: u32) -> Option<(Message, Vec<u8>)> {
        let request = LoanRequest::Blocks {
            disk: self.disk,
            first: BlockIndex::new(first),
            count: count.min(u32::try_from(DATA_MAX / PAGE_BYTES).unwrap_or(1)),
        };
        match self.lend(request).await? {
            Borrowed::Blocks(bytes) => {
                self.lent.fetch_add(bytes.len() as u64, Ordering::Relaxed);
                self.pace.count(Bytes::new(bytes.len() as u64));
                Some((Message::Bytes, bytes))
            }
            Borrowed::Segments(_) | Borrowed::Contents(_) | Borrowed::Records(_) => None,
        }
    }

    async fn stale(&self) -> Option<(Message, Vec<u8>)> {
        let disk = self.disk;
        let changed = ask(&self.shard, |shard, reply| shard.take_changes(disk, reply)).await;
        let changed = changed.ok()?;
        let runs: Vec<_> = changed
            .iter()
            .map(|run| (run.first.get(), run.count))
            .collect();
        Some((Message::Stale, encode_runs(&runs)))
    }

    async fn records(&self, question: Question) -> Option<(Message, Vec<u8>)> {
        let (copy, shipping) = self.ships.as_ref()?;
        if question.asks_nothing() {
            shipping.keeps_nothing(*copy);
            return None;
        }
        // Before it is looked up: what is found then is what is left.
        let settling = shipping.settling();
        let asked = RecordsAsked {
            disk: self.disk,
            from: question.from,
            settled: question.settled,
        };
        let Borrowed::Records(shipment) = self.lend(LoanRequest::Records(asked)).await? else {
            return None;
        };
        shipping.answered(*copy, settling, question, &shipment);
        let message = Message::Records {
            period: shipment.period,
            first: shipment.first,
            base: shipment.base,
            end: shipment.end,
        };
        let records: Vec<_> = shipment.records.into_iter().map(to_wire).collect();
        Some((message, encode_records(&records)?))
    }

    async fn lend(&self, request: LoanRequest) -> Option<Borrowed<Vec<u8>>> {
        let disk = self.disk;
        let lent = ask(&self.shard, |shard, reply| match self.attachment {
            Some(attachment) => ImageHandle::of(shard, disk).lend(attachment, request, reply),
            None => shard.lend(disk, request, reply),
        });
        lent.await.ok()
    }
}

/// A record as the link has it.
fn to_wire(record: Shipped<Vec<u8>>) -> Record {
    let begins_interval = record.begins_interval;
    let what = match record.what {
        ShippedWhat::Block { block, bytes } => RecordWhat::Block {
            block: block.get(),
            bytes,
        },
        ShippedWhat::Erased(Erasure {
            first,
            blocks,
            kind,
        }) => RecordWhat::Erased {
            first: first.get(),
            count: blocks,
            how: match kind {
                ErasureKind::Discard => Erased::Discarded,
                ErasureKind::Zeroes { may_unmap: false } => Erased::Zeroes,
                ErasureKind::Zeroes { may_unmap: true } => Erased::Unmapped,
            },
        },
    };
    Record {
        begins_interval,
        what,
    }
}

/// A record as the cache has it.
pub(super) fn from_wire(record: Record) -> Shipped<Vec<u8>> {
    let begins_interval = record.begins_interval;
    let what = match record.what {
        RecordWhat::Block { block, bytes } => ShippedWhat::Block {
            block: BlockIndex::new(block),
            bytes,
        },
        RecordWhat::Erased { first, count, how } => ShippedWhat::Erased(Erasure {
            first: BlockIndex::new(first),
            blocks: count,
            kind: match how {
                Erased::Discarded => ErasureKind::Discard,
                Erased::Zeroes => ErasureKind::Zeroes { may_unmap: false },
                Erased::Unmapped => ErasureKind::Zeroes { may_unmap: true },
            },
        }),
    };
    Shipped {
        begins_interval,
        what,
    }
}

fn not_served() -> (Message, Vec<u8>) {
    let why = NotServed::Elsewhere;
    (Message::NotServed { why }, Vec::new())
}

/// Blocks that follow each other, together.
fn runs(blocks: &[BlockIndex]) -> Vec<(u64, u32)> {
    let mut runs: Vec<(u64, u32)> = Vec::new();
    for block in blocks {
        match runs.last_mut() {
            Some((first, count)) if *first + u64::from(*count) == block.get() => *count += 1,
            _ => runs.push((block.get(), 1)),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_that_follow_each_other_are_listed_together() {
        let blocks = [4, 5, 6, 9, 8, 9].map(BlockIndex::new);
        assert_eq!(runs(&blocks), [(4, 3), (9, 1), (8, 2)]);
        assert_eq!(runs(&[]), []);
    }
}
