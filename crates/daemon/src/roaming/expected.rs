//! Whether a VM is expected to move: an operator or a hook of either host says so before QEMU comes.

use std::time::{Duration, Instant};

/// How long a move is expected that nobody comes for.
pub(super) const EXPECTED_MAX: Duration = Duration::from_mins(10);

/// What is expected of one disk.
#[derive(Default)]
pub(super) struct Expected {
    until: Option<Instant>,
    /// The client that is here is not prepared for: an operator has aborted that.
    is_aborted: bool,
}

impl Expected {
    /// A move is announced.
    pub(super) fn announce(&mut self, now: Instant) {
        self.until = Some(now + EXPECTED_MAX);
        self.is_aborted = false;
    }

    /// It will not come, or has ended. Whether one was expected.
    pub(super) fn end(&mut self) -> bool {
        self.until.take().is_some()
    }

    /// An operator gives it up, whoever is here.
    pub(super) fn abort(&mut self) {
        self.until = None;
        self.is_aborted = true;
    }

    /// A client has come, or the last one has gone: it is another matter than the one before.
    pub(super) fn client(&mut self) {
        self.is_aborted = false;
    }

    /// Whether it has been expected for long enough.
    pub(super) fn is_late(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now >= until)
    }

    pub(super) fn is_announced(&self) -> bool {
        self.until.is_some()
    }

    /// Whether to prepare for it at the host that the VM comes to.
    pub(super) fn prepares(&self, has_client: bool) -> bool {
        self.until.is_some() || (has_client && !self.is_aborted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_move_is_expected_until_it_is_late_or_aborted() {
        let (now, mut expected) = (Instant::now(), Expected::default());
        assert!(expected.prepares(true) && !expected.prepares(false));
        expected.announce(now);
        assert!(expected.prepares(false) && !expected.is_late(now));
        assert!(expected.is_late(now + EXPECTED_MAX));
        assert!(expected.end() && !expected.end());
        assert!(!expected.prepares(false) && !expected.is_late(now + EXPECTED_MAX));
        expected.announce(now);
        expected.abort();
        assert!(!expected.prepares(true), "whoever is here");
        expected.client();
        assert!(expected.prepares(true), "another one came");
    }
}
