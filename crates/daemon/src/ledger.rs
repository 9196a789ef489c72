//! What was written to flash within the last day, from counters that only grow.
//!
//! A counter is noted every [`STEP`]; what it was a day ago, or when it was first seen, is subtracted
//! from what it is. So the answer reaches back a day and at most a step more. Memory: 97 notes for each
//! VM and image on each cache.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

/// Time between two notes: an answer is that much too old at worst, one part in 96.
pub(super) const STEP: Duration = Duration::from_mins(15);
const DAY: Duration = Duration::from_hours(24);

/// Whose bytes: a cache, and of it a VM or image, or none for all together.
pub(super) type Account = (String, Option<String>);

/// Counters of the last day.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    notes: BTreeMap<Account, VecDeque<(Instant, u64)>>,
}

impl Ledger {
    /// Notes counters, if the last note of one is a step old. Accounts that are not among them are
    /// forgotten: they have gone, and begin anew when they come again.
    pub(super) fn note(&mut self, now: Instant, counters: &BTreeMap<Account, u64>) {
        self.notes
            .retain(|account, _| counters.contains_key(account));
        for (account, &bytes) in counters {
            let notes = self.notes.entry(account.clone()).or_default();
            if notes.back().is_some_and(|(_, last)| *last > bytes) {
                // It began anew.
                notes.clear();
            }
            if notes.is_empty() {
                // What it had counted before it was first seen was in this day too: it began with the
                // daemon, or with its first disk, and is looked at from then on.
                notes.push_back((now, 0));
            }
            let last = notes.back().map_or(now, |(at, _)| *at);
            if now.saturating_duration_since(last) >= STEP {
                notes.push_back((now, bytes));
            }
            while notes.len() > 1
                && notes
                    .get(1)
                    .is_some_and(|(at, _)| now.saturating_duration_since(*at) >= DAY)
            {
                notes.pop_front();
            }
        }
    }

    /// Bytes of the last day of a counter that is at `bytes` now.
    pub(super) fn last_day(&self, account: &Account, bytes: u64) -> u64 {
        let notes = self.notes.get(account);
        let before = notes.and_then(VecDeque::front).map_or(0, |(_, then)| *then);
        bytes.saturating_sub(before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_older_than_a_day_is_not_counted() {
        let (mut ledger, start) = (Ledger::default(), Instant::now());
        let web: Account = ("main".to_owned(), Some("web".to_owned()));
        // A GiB an hour for 30 hours.
        for quarter in 0..=120_u64 {
            let now = start + STEP * u32::try_from(quarter).unwrap();
            ledger.note(now, &BTreeMap::from([(web.clone(), quarter << 28)]));
        }
        assert_eq!(ledger.last_day(&web, 120 << 28), 24 << 30);
    }

    #[test]
    fn all_counts_until_a_day_is_over_and_a_counter_that_begins_anew_too() {
        let (mut ledger, start) = (Ledger::default(), Instant::now());
        let web: Account = ("main".to_owned(), None);
        let at = |bytes| BTreeMap::from([(web.clone(), bytes)]);
        ledger.note(start, &at(100));
        ledger.note(start + STEP, &at(300));
        assert_eq!(ledger.last_day(&web, 350), 350);
        ledger.note(start + STEP * 2, &at(20));
        assert_eq!(ledger.last_day(&web, 30), 30);
        ledger.note(start + STEP * 3, &BTreeMap::new());
        assert_eq!(ledger.last_day(&web, 40), 40);
    }
}
