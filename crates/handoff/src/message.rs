//! What two hosts say to each other about the ownership of one unit.

/// A message of a session. A session keeps their order; what it loses with its connection it loses for good.
/// Claims have no numbers: they can be repeated, and an answer to an earlier one is as true as one to the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Message {
    /// A guest of the sender asks to write.
    Claim {
        /// The guest's connection is of the last epoch of the sender: the VM has come back, since its
        /// migration was cancelled.
        is_return: bool,
    },
    /// The receiver is the owner: the record names it.
    Grant {
        /// Its epoch.
        epoch: u64,
    },
    /// The sender stays what it is.
    Refuse {
        /// Why.
        why: Refusal,
    },
}

/// Why a claim is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// Nothing says that the owner's guest has stopped.
    GuestRuns,
    /// The owner's guest asked for something while the disks were being handed over.
    GuestAsked,
    /// The owner could not bring everything to the origin, or could not note its decision.
    Failed,
    /// The owner is about to take the disks itself.
    Busy,
    /// The disks were to come back, and the new owner's guest has changed them.
    Changed,
    /// The receiver of the claim does not have them, and has not given them to the claimant.
    NotOwner,
    /// The disks of the unit are not the same at both hosts.
    OtherDisks,
}

impl Refusal {
    /// Whether the same claim can be granted later.
    pub fn may_pass(self) -> bool {
        self != Self::Changed
    }
}
