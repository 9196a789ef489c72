//! Blocks of a disk that another host has cached: listed, and brought into the cache here, the newest first.
//!
//! ```text
//!   list    every segment's contents ─► what may be borrowed: reads of the origin go there from now on
//!   pull    every segment's contents ─► blocks that were not changed here meanwhile ─► the cache
//! ```
//! The list is asked for twice, so that none of it is kept.

use super::plan::Plan;
use super::steps::Steps;
use super::{Happens, Tell};
use crate::shards;
use borrowing::Run;
use link_protocol::{Frame, Message, decode_runs};
use shard::{ShardError, ShardHandle};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;
use strategies::Place;
use tokio::sync::oneshot;
use units::{BlockIndex, Bytes, DiskId};

/// Most blocks that are pulled at a time: a mebibyte, 2 ms of a fast flash or 8 ms of a gigabit.
const WINDOW_BLOCKS_MAX: u32 = 256;
/// Most blocks of them in one piece.
const PIECE_BLOCKS_MAX: u32 = 32;

/// The contents of a segment, and how many segments there are. None: they are not to be had.
pub(super) type Contents = Option<(u32, Vec<Run>)>;

/// What is done with the contents of a segment.
#[derive(Clone, Copy)]
enum Pass {
    List,
    Pull(Place),
}

/// The contents of a segment of a disk of this size, as a frame has them.
pub(super) fn contents_of(frame: &Frame, size: Bytes) -> Contents {
    let Message::Contents { segments } = frame.message else {
        return None;
    };
    let blocks = size.get() / units::BLOCK_BYTES;
    let runs = decode_runs(&frame.data)?.into_iter();
    let runs = runs.filter(|(first, count)| first + u64::from(*count) <= blocks);
    let runs = runs.map(|(first, count)| Run {
        first: BlockIndex::new(first),
        count,
    });
    Some((segments, runs.collect()))
}

/// Lists and pulls what the other host has.
pub(super) struct Pull {
    /// Whether the shard is told what the other host has, to ask for it.
    lists: bool,
    /// From where blocks are copied; `None`: they are not.
    from: Option<Place>,
    plan: Arc<Plan>,
    shard: ShardHandle,
    disk: DiskId,
    tell: Tell,
}

impl Pull {
    /// `lists`: the shard is told what the other host has, to ask for it. `from`: blocks are copied from there.
    pub(super) fn new(lists: bool, from: Option<Place>, steps: &Steps, tell: Tell) -> Self {
        Self {
            lists,
            from,
            plan: Arc::clone(&steps.plan),
            shard: steps.handle.clone(),
            disk: steps.entry.id,
            tell,
        }
    }

    /// Of a base image of this shard: listed, and pulled from the other host.
    pub(super) fn of_image(
        plan: Arc<Plan>,
        (shard, disk): (ShardHandle, DiskId),
        tell: Tell,
    ) -> Self {
        let (lists, from) = (true, Some(Place::Lender));
        Self {
            lists,
            from,
            plan,
            shard,
            disk,
            tell,
        }
    }

    /// Lists and pulls all of it. How many blocks there are; none if the other host does not lend them any more.
    pub(super) async fn round(&self) -> Option<u64> {
        let plan = &self.plan;
        let mut blocks = 0;
        if self.lists {
            blocks = self.pass(Pass::List).await?.0;
            plan.listed(blocks);
        }
        if let Some(from) = self.from {
            let (all, came) = self.pass(Pass::Pull(from)).await?;
            blocks = all;
            plan.set_copied(Some((blocks, came)));
        }
        Some(blocks)
    }

    /// Goes through the segments of the other host, the newest first. How many blocks they have, and how many of those are
    /// here now; none if it does not lend them any more.
    async fn pass(&self, pass: Pass) -> Option<(u64, u64)> {
        let (mut at, mut blocks, mut came) = (0, 0, 0);
        let mut window = Window::default();
        loop {
            let (answer, contents) = oneshot::channel();
            self.tell.send(Happens::NeedsContents { at, answer }).ok()?;
            let (segments, runs) = contents.await.ok()??;
            blocks += runs.iter().map(|run| u64::from(run.count)).sum::<u64>();
            match pass {
                Pass::List => self.shard.list_borrowable(self.disk, runs),
                Pass::Pull(from) => came += self.pull(runs, from, &mut window).await,
            }
            at += 1;
            if at >= segments {
                while !window.is_empty() {
                    came += self.take(&mut window).await;
                }
                return Some((blocks, came));
            }
        }
    }

    /// Brings runs into the cache, as fast as the plan lets it: a window of blocks is under way at a time, the last of them
    /// when this returns. How many blocks have come meanwhile.
    async fn pull(&self, runs: Vec<Run>, from: Place, window: &mut Window) -> u64 {
        let mut came = 0;
        for piece in runs.into_iter().flat_map(pieces) {
            while !window.has_room_for(piece) {
                came += self.take(window).await;
            }
            self.plan.wait(from).await;
            window.push(piece.count, self.begin(piece, from));
        }
        came
    }

    /// Takes the oldest piece out of the window, once it has come or cannot be had; or all of them where the plan rests
    /// between windows. How many blocks have come.
    async fn take(&self, window: &mut Window) -> u64 {
        let (began, mut came) = (Instant::now(), 0);
        let rests = self.plan.rests();
        while let Some((count, ended)) = window.pop() {
            // What could not be pulled is read when a guest needs it.
            if let Ok(Ok(())) = ended.await {
                came += u64::from(count);
                self.plan.have_come(count);
            }
            if !rests {
                return came;
            }
        }
        tokio::time::sleep(began.elapsed()).await;
        came
    }

    fn begin(&self, run: Run, from: Place) -> Ending {
        let id = self.disk;
        shards::send(&self.shard, |handle, reply| match from {
            Place::Lender => handle.pull(id, run, reply),
            Place::Origin => {
                let bytes = u64::from(run.count) * units::BLOCK_BYTES;
                self.plan.asks_origin(Bytes::new(bytes));
                handle.prefetch(id, run, reply);
            }
        })
    }
}

/// Pieces that are under way.
#[derive(Default)]
struct Window {
    pieces: VecDeque<(u32, Ending)>,
    blocks: u32,
}

/// Tells whether a piece is in the cache now.
type Ending = oneshot::Receiver<Result<(), ShardError>>;

impl Window {
    fn has_room_for(&self, piece: Run) -> bool {
        self.blocks + piece.count <= WINDOW_BLOCKS_MAX
    }

    fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    fn push(&mut self, count: u32, ending: Ending) {
        self.blocks += count;
        self.pieces.push_back((count, ending));
    }

    /// The oldest.
    fn pop(&mut self) -> Option<(u32, Ending)> {
        let oldest = self.pieces.pop_front()?;
        self.blocks -= oldest.0;
        Some(oldest)
    }
}

/// The parts of a run that are pulled one after the other.
fn pieces(run: Run) -> impl Iterator<Item = Run> {
    let starts = (0..run.count).step_by(PIECE_BLOCKS_MAX as usize);
    starts.map(move |start| Run {
        first: run.first.advance(u64::from(start)),
        count: (run.count - start).min(PIECE_BLOCKS_MAX),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_pulled_in_pieces() {
        let run = |first, count| Run {
            first: BlockIndex::new(first),
            count,
        };
        let all: Vec<Run> = pieces(run(5, 2 * PIECE_BLOCKS_MAX + 1)).collect();
        let size = u64::from(PIECE_BLOCKS_MAX);
        let expected = [
            run(5, PIECE_BLOCKS_MAX),
            run(5 + size, PIECE_BLOCKS_MAX),
            run(5 + 2 * size, 1),
        ];
        assert_eq!(all, expected);
        assert_eq!(pieces(run(5, 0)).count(), 0);
    }
}
