//! A host's side of the driver's lease: which actions of drivers it carries out.

use crate::guard::{Guard, holds};

/// The highest step of one move that a host has carried out an action of. Kept as long as the move's record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Fence(u64);

impl Fence {
    /// Whether an action of this step is carried out. A driver that has lost its lease, or that has gone on, may have
    /// an older one on its way.
    pub fn admits(&mut self, step: u64) -> bool {
        if holds(Guard::Fenced) && step < self.0 {
            return false;
        }
        self.0 = step;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_action_is_refused_and_the_same_one_is_not() {
        let mut fence = Fence::default();
        assert!(fence.admits(3));
        assert!(fence.admits(3));
        assert!(fence.admits(5));
        assert!(!fence.admits(4));
    }
}
