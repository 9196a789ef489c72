//! First in, first out: the segment opened first goes, with all that is in it.
//!
//! The yardstick for hits, and the least that can be written to flash: each block is written
//! once, whatever happens to it.

use super::{Heads, Keeps, Reclaim, Turn};

/// Reclaims the segment that was opened first and keeps nothing of it.
#[derive(Clone, Copy, Debug)]
pub struct Fifo;

impl<S: Copy> Reclaim<S> for Fifo {
    fn heat_max(&self) -> u8 {
        0
    }

    fn turn(&self, heads: &Heads<'_, S>) -> Option<Turn<S>> {
        let first = heads.opened_first()?;
        Some(Turn::Reclaim {
            segment: first.segment,
            keeps: Keeps {
                least_heat: 1,
                at_most: 0,
            },
        })
    }
}
