//! Changes of former sessions that the server may still carry out.
//!
//! A session that ended with the process, or with its disk's detachment, may have left changes in the
//! server's hands. Whoever drives the client knows which, and when they are over. Until then no newer
//! change of their ranges is sent, which they could undo, and no read, which they could make stale.

use units::{Duration, Instant, Map};

/// The changes, by their cookies.
#[derive(Debug, Default)]
pub(crate) struct Late {
    ranges: Map<u64, (u64, u64)>,
    /// Operations that wait for them have all their time from then on.
    patience: Option<Instant>,
}

impl Late {
    /// These may still happen; most likely not after `patience`.
    pub(crate) fn begin(
        &mut self,
        changes: impl Iterator<Item = (u64, u64, u64)>,
        patience: Instant,
    ) {
        let ranges = changes.map(|(cookie, offset, length)| {
            let end = offset.saturating_add(length);
            (cookie, (offset, end))
        });
        self.ranges.extend(ranges);
        self.patience = Some(patience);
    }

    /// This one is over. Gives its range, if it was expected.
    pub(crate) fn end(&mut self, cookie: u64) -> Option<(u64, u64)> {
        self.ranges.remove(&cookie)
    }

    /// Whether an operation of `[offset, end)` has to wait.
    pub(crate) fn holds(&self, offset: u64, end: u64) -> bool {
        let mut ranges = self.ranges.values();
        ranges.any(|(start, stop)| *start < end && offset < *stop)
    }

    /// When the time of an operation of `[offset, end)` is up that may take this long and is asked
    /// for now: what it waits for here does not count.
    pub(crate) fn deadline(&self, offset: u64, end: u64, now: Instant, time: Duration) -> Instant {
        let patience = self.patience.filter(|_| self.holds(offset, end));
        patience.map_or(now, |patience| patience.max(now)) + time
    }

    /// How many bytes they have together; bytes of two count twice.
    pub(crate) fn bytes(&self) -> u64 {
        let lengths = self.ranges.values().map(|(start, stop)| stop - start);
        lengths.fold(0, u64::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_held_until_each_of_its_changes_is_over() {
        let mut late = Late::default();
        let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        let changes = [(1, 0, 10), (2, 5, 10), (3, 100, u64::MAX)];
        late.begin(changes.into_iter(), at(30));
        assert!(late.holds(0, 1) && late.holds(14, 15) && late.holds(1 << 40, 1 << 41));
        assert!(!late.holds(15, 100));
        late.end(3);
        late.end(1);
        assert!(!late.holds(0, 5) && late.holds(0, 6));
        assert_eq!(late.bytes(), 10);
        let time = Duration::from_secs(60);
        assert_eq!(late.deadline(0, 6, at(1), time), at(90));
        assert_eq!(late.deadline(0, 6, at(40), time), at(100));
        assert_eq!(late.deadline(0, 5, at(1), time), at(61));
        late.end(2);
        assert!(!late.holds(0, u64::MAX));
    }
}
