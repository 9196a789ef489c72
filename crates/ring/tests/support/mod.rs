//! Driving a ring to the end of what was asked of it.

use ring::{Completion, Ring, Source};
use units::Duration;

/// Turns of the loop are this long at most, so that a lost completion fails the test.
const TURN: Duration = Duration::from_secs(10);

/// The next completion of `source`.
pub(crate) fn finish(ring: &Ring, source: &Source) -> Completion {
    let mut ready = Vec::new();
    loop {
        if let Some(done) = source.pop() {
            return done;
        }
        ready.clear();
        ring.submit_and_wait(Some(TURN)).unwrap();
        ring.take_ready(&mut ready);
        assert!(!ready.is_empty(), "nothing completed in {TURN}");
    }
}

/// Every completion of what `source` has in flight.
#[allow(dead_code, reason = "each test file uses what it needs")]
pub(crate) fn finish_all(ring: &Ring, source: &Source) -> Vec<Completion> {
    let mut all = Vec::new();
    while source.in_flight() > 0 || !all.is_empty() {
        match source.pop() {
            Some(done) => all.push(done),
            None if source.in_flight() == 0 => break,
            None => all.push(finish(ring, source)),
        }
    }
    all
}
