//! A disk's buckets, and its requests that wait for them.

use crate::gcra::Gcra;
use std::collections::VecDeque;
use std::num::NonZeroU64;
use units::{Bytes, Duration, Instant};

/// What the guests of a disk may ask together. Without limits nothing waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Operations a second.
    pub operations: Option<NonZeroU64>,
    /// Bytes a second.
    pub bytes: Option<NonZeroU64>,
    /// How long a disk that was idle may ask without a wait, as time at its limits.
    pub burst: Duration,
}

impl Limits {
    /// Whether there is a limit.
    pub fn is_any(&self) -> bool {
        self.operations.is_some() || self.bytes.is_some()
    }
}

/// What has waited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Throttled {
    /// Requests that waited and do so no more.
    pub requests: u64,
    /// How long they waited, all together.
    pub time: Duration,
    /// Requests that wait now.
    pub waiting: usize,
}

struct Waiting<T> {
    request: T,
    bytes: Bytes,
    since: Instant,
}

/// The buckets of a disk, and the requests that wait for them.
pub struct Throttle<T> {
    limits: Limits,
    operations: Option<Gcra>,
    bytes: Option<Gcra>,
    waiting: VecDeque<Waiting<T>>,
    requests: u64,
    time: Duration,
}

impl<T> Throttle<T> {
    /// Nothing waits yet.
    pub fn new(limits: Limits) -> Self {
        let mut throttle = Self {
            limits,
            operations: None,
            bytes: None,
            waiting: VecDeque::new(),
            requests: 0,
            time: Duration::ZERO,
        };
        throttle.set(limits);
        throttle
    }

    /// Other limits hold from now on, with empty buckets: what waits passes as they allow.
    pub fn set(&mut self, limits: Limits) {
        let bucket = |rate: NonZeroU64| Gcra::new(rate, limits.burst);
        self.operations = limits.operations.map(bucket);
        self.bytes = limits.bytes.map(bucket);
        self.limits = limits;
    }

    /// What holds.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// What has waited so far.
    pub fn throttled(&self) -> Throttled {
        Throttled {
            requests: self.requests,
            time: self.time,
            waiting: self.waiting.len(),
        }
    }

    /// A request of so many bytes: it comes back if it passes now.
    pub fn request(&mut self, request: T, bytes: Bytes, now: Instant) -> Option<T> {
        if self.waiting.is_empty() && self.ready_at() <= now {
            self.take(bytes, now);
            return Some(request);
        }
        let since = now;
        self.waiting.push_back(Waiting {
            request,
            bytes,
            since,
        });
        None
    }

    /// A request that has waited and passes now.
    pub fn take_due(&mut self, now: Instant) -> Option<T> {
        if self.next_deadline()? > now {
            return None;
        }
        let first = self.waiting.pop_front()?;
        self.take(first.bytes, now);
        Some(self.ends(first, now))
    }

    /// When the first request that waits may pass.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.waiting.front().map(|_| self.ready_at())
    }

    /// Takes out those that wait and are meant, first ones first; they use nothing of the limits.
    pub fn take_out(&mut self, is_meant: impl Fn(&T) -> bool, now: Instant) -> Vec<T> {
        let mut out = Vec::new();
        for one in std::mem::take(&mut self.waiting) {
            if is_meant(&one.request) {
                out.push(self.ends(one, now));
            } else {
                self.waiting.push_back(one);
            }
        }
        out
    }

    fn ready_at(&self) -> Instant {
        let both = self.operations.iter().chain(&self.bytes);
        both.map(Gcra::ready_at).max().unwrap_or(Instant::ZERO)
    }

    fn take(&mut self, bytes: Bytes, now: Instant) {
        if let Some(bucket) = &mut self.operations {
            bucket.take(1, now);
        }
        if let Some(bucket) = &mut self.bytes {
            bucket.take(bytes.get(), now);
        }
    }

    fn ends(&mut self, one: Waiting<T>, now: Instant) -> T {
        let waited = now.since(one.since).as_nanos();
        self.time = Duration::from_nanos(self.time.as_nanos().saturating_add(waited));
        self.requests += 1;
        one.request
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    fn limits(operations: u64, bytes: u64) -> Limits {
        Limits {
            operations: NonZeroU64::new(operations),
            bytes: NonZeroU64::new(bytes),
            burst: Duration::ZERO,
        }
    }

    #[test]
    fn without_limits_nothing_waits() {
        let mut throttle = Throttle::new(limits(0, 0));
        assert!(!throttle.limits().is_any());
        for request in 0..1_000 {
            let passed = throttle.request(request, Bytes::gib(1), at(0));
            assert_eq!(passed, Some(request));
        }
        assert_eq!(throttle.throttled(), Throttled::default());
    }

    #[test]
    fn requests_wait_for_both_buckets_in_their_order() {
        let mut throttle = Throttle::new(limits(10, 1_000));
        let mut ask = |name, bytes| throttle.request(name, Bytes::new(bytes), at(0));
        assert_eq!(ask("first", 500), Some("first"));
        assert_eq!((ask("second", 1), ask("third", 1)), (None, None));
        // The bytes of the first take half a second, the operation of the second a tenth.
        assert_eq!(throttle.next_deadline(), Some(at(500)));
        assert_eq!(throttle.take_due(at(499)), None);
        assert_eq!(throttle.take_due(at(500)), Some("second"));
        assert_eq!(throttle.take_due(at(599)), None);
        assert_eq!(throttle.take_due(at(600)), Some("third"));
        let throttled = Throttled {
            requests: 2,
            time: Duration::from_millis(1_100),
            waiting: 0,
        };
        assert_eq!(throttle.throttled(), throttled);
        assert_eq!(throttle.next_deadline(), None);
    }

    #[test]
    fn a_request_does_not_overtake_those_that_wait() {
        let mut throttle = Throttle::new(limits(10, 0));
        assert_eq!(throttle.request(1, Bytes::ZERO, at(0)), Some(1));
        assert_eq!(throttle.request(2, Bytes::ZERO, at(50)), None);
        assert_eq!(throttle.request(3, Bytes::ZERO, at(150)), None);
        assert_eq!(throttle.take_due(at(150)), Some(2));
    }

    #[test]
    fn other_limits_hold_at_once_for_what_waits() {
        let mut throttle = Throttle::new(limits(1, 0));
        for request in 0..3 {
            throttle.request(request, Bytes::ZERO, at(0));
        }
        assert_eq!(throttle.next_deadline(), Some(at(1_000)));
        throttle.set(limits(0, 0));
        assert_eq!(throttle.take_due(at(1)), Some(1));
        assert_eq!(throttle.take_due(at(1)), Some(2));
    }

    #[test]
    fn what_is_taken_out_uses_nothing_of_the_limits() {
        let mut throttle = Throttle::new(limits(1, 0));
        for request in 0..5 {
            throttle.request(request, Bytes::ZERO, at(0));
        }
        assert_eq!(
            throttle.take_out(|request| request % 2 == 0, at(10)),
            [2, 4]
        );
        assert_eq!(throttle.throttled().waiting, 2);
        assert_eq!(throttle.take_due(at(1_000)), Some(1));
    }
}
