//! Which durable writes and flushes wait for a sync of their file, and for which one.
//!
//! A write that has to be durable is written like any other; then it waits for a sync. Syncs of a
//! file are under way one at a time, and each begins when all that it covers has been written, so
//! the writes that end during one share the next.
//!
//! ```text
//!  write a ████ · sync a ▓▓▓▓▓▓▓▓▓▓
//!  write b     ████ · · · · · · · ·│sync b, c ▓▓▓▓▓▓▓▓▓▓
//!  write c            ████ · · · · │
//! ```
//!
//! Why not a sync of its own for each write, linked to it: a kernel that lost bytes says so to one
//! sync of a file and not to the next one. With one at a time it is known whom a failure concerns:
//! everybody whose bytes may have been among those lost, which is whoever had asked before.
//!
//! Pure: the shell writes and syncs, and says here what has ended. Invariants:
//! - A token is handed back once.
//! - A success covers only what had been written before that sync began.
//! - What was submitted before a failed sync ended fails.

use crate::{IoError, Token};
use std::mem;

/// The durable writes and flushes of one file.
#[derive(Debug, Default)]
pub struct Syncs {
    /// For the next sync.
    waiting: Vec<Token>,
    /// By the sync that is under way; empty if there is none.
    covered: Vec<Token>,
    failures: u64,
}

/// When something was submitted, among the failures of a file's syncs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Since(u64);

impl Since {
    /// Before anything: for one who does not forgive a failure as long as the file is open.
    pub const OPENED: Self = Self(0);
}

impl Syncs {
    /// To be kept with a durable write from its submission to [`Syncs::wait`].
    pub const fn now(&self) -> Since {
        Since(self.failures)
    }

    /// A flush was asked for, or a durable write has been written whole: it waits for a sync.
    ///
    /// # Errors
    /// [`IoError::Failed`] if a sync has failed since it was submitted. Then nothing waits.
    pub fn wait(&mut self, token: Token, since: Since) -> Result<(), IoError> {
        if since != self.now() {
            return Err(IoError::Failed);
        }
        self.waiting.push(token);
        Ok(())
    }

    /// Whether a sync is to be issued now. If so it covers all that waits.
    #[must_use = "the sync has to be issued"]
    pub fn begin(&mut self) -> bool {
        if !self.covered.is_empty() || self.waiting.is_empty() {
            return false;
        }
        mem::swap(&mut self.covered, &mut self.waiting);
        true
    }

    /// The sync under way has ended: what shares its outcome. After a failure that is also what
    /// waited for the next one.
    ///
    /// # Panics
    /// If none was under way.
    pub fn end(&mut self, is_ok: bool) -> Vec<Token> {
        assert!(!self.covered.is_empty(), "a sync that ends has begun");
        let mut ended = mem::take(&mut self.covered);
        if !is_ok {
            self.failures += 1;
            ended.append(&mut self.waiting);
        }
        ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(syncs: &mut Syncs, token: u64) {
        assert_eq!(syncs.wait(Token(token), syncs.now()), Ok(()));
    }

    #[test]
    fn what_was_written_during_a_sync_shares_the_next() {
        let mut syncs = Syncs::default();
        assert!(!syncs.begin(), "nothing waits");
        wait(&mut syncs, 1);
        assert!(syncs.begin());
        wait(&mut syncs, 2);
        wait(&mut syncs, 3);
        assert!(!syncs.begin(), "one at a time");
        assert_eq!(syncs.end(true), [Token(1)]);
        assert!(syncs.begin());
        assert_eq!(syncs.end(true), [Token(2), Token(3)]);
        assert!(!syncs.begin());
    }

    #[test]
    fn a_failed_sync_fails_all_that_had_been_submitted() {
        let mut syncs = Syncs::default();
        let since = syncs.now();
        wait(&mut syncs, 1);
        assert!(syncs.begin());
        wait(&mut syncs, 2);
        assert_eq!(syncs.end(false), [Token(1), Token(2)]);
        // It was being written meanwhile, and the next sync would not tell of its loss.
        assert_eq!(syncs.wait(Token(3), since), Err(IoError::Failed));
        assert!(!syncs.begin());
        wait(&mut syncs, 4);
        assert!(syncs.begin());
        assert_eq!(syncs.end(true), [Token(4)]);
    }

    #[test]
    #[should_panic(expected = "a sync that ends has begun")]
    fn no_sync_ends_that_did_not_begin() {
        Syncs::default().end(true);
    }
}
