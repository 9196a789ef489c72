//! How fast blocks of caches come from the other host, of one disk; or come from it and go to it, of all disks together.

use borrowing::Bucket;
use configuration::Auto;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use units::Bytes;

struct State {
    rate: Auto<Bytes>,
    bucket: Option<Bucket>,
}

/// A rate that is kept to.
pub(super) struct Pace {
    began: Instant,
    state: Mutex<State>,
}

impl Pace {
    pub(super) fn new(rate: Auto<Bytes>) -> Self {
        let pace = Self {
            began: Instant::now(),
            state: Mutex::new(State {
                rate: Auto::Auto,
                bucket: None,
            }),
        };
        pace.set(rate);
        pace
    }

    /// Keeps to this rate from now on.
    pub(super) fn set(&self, rate: Auto<Bytes>) {
        let now = self.now();
        let bucket = match rate {
            Auto::Auto => None,
            Auto::Fixed(rate) => Some(Bucket::new(rate, now)),
        };
        *self.lock() = State { rate, bucket };
    }

    pub(super) fn rate(&self) -> Auto<Bytes> {
        self.lock().rate
    }

    /// So many bytes are asked for.
    pub(super) fn count(&self, bytes: Bytes) {
        let now = self.now();
        if let Some(bucket) = &mut self.lock().bucket {
            bucket.count(bytes, now);
        }
    }

    /// Waits until more that nobody waits for may be asked for.
    pub(super) async fn wait(&self) {
        loop {
            let now = self.now();
            let wait = self.lock().bucket.as_mut().map(|bucket| bucket.wait(now));
            match wait {
                Some(wait) if wait > units::Duration::ZERO => {
                    // The rate may change meanwhile.
                    let nanos = wait.as_nanos().min(250_000_000);
                    tokio::time::sleep(Duration::from_nanos(nanos)).await;
                }
                _ => return,
            }
        }
    }

    fn now(&self) -> units::Instant {
        let nanos = self.began.elapsed().as_nanos();
        units::Instant::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
