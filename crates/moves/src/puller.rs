//! Blocks that are copied without being asked for: which are to come, how many are under way, when the next may.

use crate::setup::Pace;
use std::collections::VecDeque;
use units::number::{count_near, real};
use units::{BLOCK_BYTES, Duration, Instant};

/// From where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum From {
    /// The other host's flash.
    Lender,
    /// The origin.
    Origin,
    /// The copy of the disk that passes.
    Passing,
}

/// What may be copied now.
pub(crate) enum Next {
    /// These.
    Blocks(Vec<u32>),
    /// Nothing before then.
    Later(Instant),
    /// Nothing while these are under way.
    UnderWay,
    /// Everything has been copied.
    Over,
}

/// Blocks that are copied.
pub(crate) struct Puller {
    pub(crate) from: From,
    pace: Pace,
    queue: VecDeque<u32>,
    under_way: u32,
    /// Of the window that is under way.
    began: Instant,
    in_window: u32,
    /// Nothing is copied before then.
    free: Instant,
}

impl Puller {
    /// Copies these, in this order.
    pub(crate) fn new(from: From, pace: Pace, blocks: Vec<u32>, now: Instant) -> Self {
        Self {
            from,
            pace,
            queue: blocks.into(),
            under_way: 0,
            began: now,
            in_window: 0,
            free: now,
        }
    }

    /// What may be copied now of those that are wanted still.
    pub(crate) fn next(&mut self, now: Instant, mut is_wanted: impl FnMut(u32) -> bool) -> Next {
        if self.pace.rests && self.under_way == 0 {
            if self.in_window > 0 {
                self.free = now + now.since(self.began);
                self.in_window = 0;
            }
            self.began = now.max(self.free);
        }
        if self.queue.is_empty() && self.under_way == 0 {
            return Next::Over;
        }
        let window = if self.pace.rests {
            self.in_window
        } else {
            self.under_way
        };
        if window >= self.pace.window || self.queue.is_empty() {
            return Next::UnderWay;
        }
        if self.free > now {
            return Next::Later(self.free);
        }
        let most = self.pace.piece.min(self.pace.window - window) as usize;
        let mut blocks = Vec::with_capacity(most);
        while blocks.len() < most
            && let Some(block) = self.queue.pop_front()
        {
            if is_wanted(block) {
                blocks.push(block);
            }
        }
        let count = u32::try_from(blocks.len()).unwrap_or(u32::MAX);
        self.under_way += count;
        self.in_window += count;
        if let Some(rate) = self.pace.rate {
            let bytes = real(u64::from(count) * BLOCK_BYTES);
            let took = count_near(bytes * 1e9 / real(rate.get()));
            self.free = self.free.max(now) + Duration::from_nanos(took);
        }
        if blocks.is_empty() {
            return if self.under_way == 0 {
                Next::Over
            } else {
                Next::UnderWay
            };
        }
        Next::Blocks(blocks)
    }

    /// Blocks have come, or will not.
    pub(crate) fn ended(&mut self, blocks: u32) {
        self.under_way -= blocks;
    }
}
