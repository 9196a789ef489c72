//! Whose turn it is at a disk.
//!
//! ```text
//!  first connection   rings run ─────────► all stopped, or finished
//!                                            │ the turn is free
//!  second connection  talks ─► waits ────────┴─► rings start
//! ```
//!
//! Two connections to one disk are usual: a VM that migrates within a host, whose destination
//! connects long before its source stops; and a QEMU that connects again while what its former
//! connection has at the disk is not done. Each may say what it likes, but rings run on one at a
//! time: what the earlier one still has at the disk could otherwise happen after what the later
//! one takes up anew. The first message that starts a ring takes the turn, or waits for it; no
//! message is read meanwhile. The turn is free again when every ring of its owner was stopped, or
//! its owner is dropped, which it is when nothing of it is in flight.

use std::cell::Cell;
use std::rc::Rc;

/// The turn at a disk, shared by the connections to it.
#[derive(Clone, Debug, Default)]
pub struct Turn {
    is_taken: Rc<Cell<bool>>,
}

/// A connection's part in a turn.
#[derive(Debug, Default)]
pub(crate) struct Hold {
    turn: Turn,
    is_ours: bool,
}

impl Hold {
    pub(crate) fn new(turn: &Turn) -> Self {
        Self {
            turn: turn.clone(),
            is_ours: false,
        }
    }

    pub(crate) fn turn(&self) -> &Turn {
        &self.turn
    }

    pub(crate) fn is_ours(&self) -> bool {
        self.is_ours
    }

    /// True if it is ours now.
    pub(crate) fn take(&mut self) -> bool {
        if !self.is_ours && !self.turn.is_taken.replace(true) {
            self.is_ours = true;
        }
        self.is_ours
    }

    pub(crate) fn let_go(&mut self) {
        if std::mem::take(&mut self.is_ours) {
            self.turn.is_taken.set(false);
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.let_go();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_has_one_owner_until_it_lets_go_or_is_gone() {
        let turn = Turn::default();
        let (mut first, mut second) = (Hold::new(&turn), Hold::new(&turn));
        assert!(first.take());
        assert!(first.take());
        assert!(!second.take());
        second.let_go();
        assert!(!second.take());
        first.let_go();
        assert!(second.take());
        drop(second);
        assert!(first.take());
    }
}
