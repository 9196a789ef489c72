//! What connections tell about themselves.

use std::ops::AddAssign;

/// A connection at a moment. A front end without queues in shared memory has none of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Whether it waits for another connection's queues to stop.
    pub is_waiting: bool,
    /// Queues that run.
    pub queues: usize,
    /// Counters since it began.
    pub counters: Counters,
}

/// What a connection has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Chains taken from rings.
    pub chains: u64,
    /// Kicks received.
    pub kicks: u64,
    /// Interrupts that guests wanted for their answers.
    pub interrupts: u64,
    /// Requests taken up that an earlier connection had begun and not answered.
    pub resumed: u64,
    /// Queues that were broken by their guest.
    pub broken: u64,
}

impl AddAssign for Counters {
    fn add_assign(&mut self, other: Self) {
        let Self {
            chains,
            kicks,
            interrupts,
            resumed,
            broken,
        } = other;
        self.chains += chains;
        self.kicks += kicks;
        self.interrupts += interrupts;
        self.resumed += resumed;
        self.broken += broken;
    }
}
