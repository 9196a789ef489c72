//! The next use of each access, for policies that know the future (Belady's).
//!
//! This is the one thing that is kept of a whole trace: 4 bytes an access, and while it is made 4 bytes
//! more a distinct block. It is made by the first pass and read along by the second.
//!
//! ```text
//!   keys, in order        7  3  7  9  3          first pass, backwards from the end:
//!   next use of each      2  4  -  -  -          each key's place becomes that of the access after it
//! ```
//!
//! What drops a block in between (a discard; a write under `around`) makes the next use never: keeping
//! the block until then is worth nothing. Dropping is no access and has no number.

use crate::error::SimError;
use crate::write_policy::WritePolicy;
use std::sync::Arc;
use trace::Op;

/// The place of an access that never comes.
pub(crate) const NEVER: u32 = u32::MAX;

/// The next use of each access, in order; shared by all runs that want it.
#[derive(Clone, Debug)]
pub(crate) struct Future(pub(crate) Arc<[u32]>);

/// What the first pass notes.
pub(crate) struct Uses {
    write_policy: WritePolicy,
    keys: Vec<u32>,
    /// Blocks that are dropped, each with the number of accesses before.
    drops: Vec<(usize, u32)>,
    distinct: usize,
}

impl Uses {
    pub(crate) fn new(write_policy: WritePolicy) -> Self {
        Self {
            write_policy,
            keys: Vec::new(),
            drops: Vec::new(),
            distinct: 0,
        }
    }

    pub(crate) fn request(&mut self, op: Op, keys: &[u32]) {
        let drops = match op {
            Op::Read => false,
            Op::Write => self.write_policy == WritePolicy::Around,
            Op::Flush | Op::Discard | Op::WriteZeroes => true,
        };
        if drops {
            let before = self.keys.len();
            self.drops.extend(keys.iter().map(|key| (before, *key)));
        } else {
            self.keys.extend_from_slice(keys);
        }
        let most = keys.iter().max().map_or(0, |key| *key as usize + 1);
        self.distinct = self.distinct.max(most);
    }

    pub(crate) fn finish(mut self) -> Result<Future, SimError> {
        if u32::try_from(self.keys.len()).is_err() {
            return Err(SimError::TooLongForTheFuture);
        }
        let mut next = vec![NEVER; self.distinct];
        for place in (0..self.keys.len()).rev() {
            let number = u32::try_from(place).expect("checked above");
            while let Some((_, key)) = self.drops.pop_if(|(before, _)| *before > place) {
                next[key as usize] = NEVER;
            }
            let key = std::mem::replace(&mut self.keys[place], NEVER) as usize;
            self.keys[place] = std::mem::replace(&mut next[key], number);
        }
        Ok(Future(self.keys.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_access_knows_the_next_of_its_block() {
        let mut uses = Uses::new(WritePolicy::Through);
        uses.request(Op::Read, &[7, 3]);
        uses.request(Op::Write, &[7, 9]);
        uses.request(Op::Read, &[3]);
        assert_eq!(uses.finish().unwrap().0[..], [2, 4, NEVER, NEVER, NEVER]);
    }

    #[test]
    fn what_is_dropped_in_between_has_no_next_use() {
        let mut uses = Uses::new(WritePolicy::Around);
        uses.request(Op::Read, &[0, 1, 2]);
        uses.request(Op::Write, &[0]);
        uses.request(Op::Discard, &[1]);
        uses.request(Op::Read, &[0, 1, 2, 0]);
        let expected = [NEVER, NEVER, 5, 6, NEVER, NEVER, NEVER];
        assert_eq!(uses.finish().unwrap().0[..], expected);
    }
}
