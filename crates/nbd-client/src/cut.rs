//! Changes whose connection has ended before their answers came.
//!
//! The client sends them again, and its own newer changes are safe: [`crate::work`] says why. A server that
//! the network has cut off from us may carry the first attempt out all the same, over what *another host* has written
//! since. So whoever gives the export to another host waits for `settle_time` after the last such end.
//!
//! Invariant: while any of them may happen, one of them is not reported as answered. So the next process hears of it, too.

use crate::guard::{Guard, holds};
use units::Instant;

/// What may still happen of connections that have ended.
#[derive(Debug, Default)]
pub(crate) struct Cut(Option<Waiting>);

#[derive(Debug)]
struct Waiting {
    until: Instant,
    /// The one that is remembered for all.
    cookie: u64,
    bytes: u64,
}

impl Cut {
    /// A connection has ended before these changes, of which cookie and length are known, were answered; they may happen
    /// until then. Gives those that need not be remembered.
    pub(crate) fn begin(&mut self, mut changes: Vec<(u64, u32)>, until: Instant) -> Vec<u64> {
        let lengths = changes.iter().map(|(_, length)| u64::from(*length));
        let bytes: u64 = lengths.sum();
        match &mut self.0 {
            Some(waiting) if !changes.is_empty() => {
                waiting.until = waiting.until.max(until);
                waiting.bytes = waiting.bytes.saturating_add(bytes);
            }
            Some(_) => {}
            None => {
                let last = changes.pop();
                self.0 = last.map(|(cookie, _)| Waiting {
                    until,
                    cookie,
                    bytes,
                });
            }
        }
        changes.into_iter().map(|(cookie, _)| cookie).collect()
    }

    /// The one that was remembered, once none can happen any more.
    pub(crate) fn end(&mut self, now: Instant) -> Option<u64> {
        let over = self.0.take_if(|waiting| waiting.until <= now)?;
        Some(over.cookie)
    }

    /// Bytes of those that may still happen; bytes of two count twice.
    pub(crate) fn bytes(&self) -> u64 {
        let waiting = self.0.as_ref().filter(|_| holds(Guard::CutMayLand));
        waiting.map_or(0, |waiting| waiting.bytes)
    }

    /// When none can happen any more, if any can now.
    pub(crate) fn until(&self) -> Option<Instant> {
        self.0.as_ref().map(|waiting| waiting.until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Duration;

    #[test]
    fn one_is_remembered_until_the_last_connection_has_settled() {
        let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        let mut cut = Cut::default();
        assert_eq!(cut.begin(Vec::new(), at(1)), [0; 0]);
        assert_eq!(cut.bytes(), 0, "no change was cut off");
        assert_eq!(
            cut.begin(vec![(1, 512), (2, 512), (3, 4096)], at(10)),
            [1, 2]
        );
        assert_eq!(cut.begin(vec![(4, 8)], at(20)), [4]);
        assert_eq!(cut.begin(Vec::new(), at(90)), [0; 0]);
        assert_eq!((cut.end(at(19)), cut.until()), (None, Some(at(20))));
        assert_eq!(cut.bytes(), 5128);
        assert_eq!((cut.end(at(20)), cut.bytes()), (Some(3), 0));
    }
}
