//! What is refused, and why.

use crate::limits::{EXACT_VMS_MAX, NAME_CHARS_MAX, SOURCES_MAX, VMS_MAX};

/// Why traffic is refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum TrafficError {
    /// A rate is no number, negative, or endless.
    #[error(
        "the traffic between '{first}' and '{second}' is {rate}: write bytes a second, from zero"
    )]
    Rate {
        /// One VM of the pair.
        first: String,
        /// The other.
        second: String,
        /// What was given.
        rate: f64,
    },
    /// A name is empty, too long, or has control characters.
    #[error(
        "{name:?} is not the name of a VM: names have 1 to {NAME_CHARS_MAX} characters, and no control characters"
    )]
    Name {
        /// What was given, cut to a length that can be shown.
        name: String,
    },
    /// A VM is named twice where each is named once.
    #[error("the VM '{0}' is named twice")]
    Twice(String),
    /// Too many VMs.
    #[error(
        "a group has at most {VMS_MAX} VMs: name the VMs that move, or make two groups of them"
    )]
    TooMany,
    /// Too many sources.
    #[error("traffic comes from at most {SOURCES_MAX} sources")]
    TooManySources,
    /// An interval without length.
    #[error("source '{0}' counted bytes over no time: an interval has a length")]
    NoTime(String),
}

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// No VM.
    #[error("a group has a VM: none was named")]
    Empty,
    /// The loads are not as many as the VMs of the matrix.
    #[error("there are {loads} loads for {vms} VMs: each VM has one")]
    Loads {
        /// How many loads.
        loads: usize,
        /// How many VMs.
        vms: usize,
    },
    /// A link without bandwidth.
    #[error("the link has less than a byte a second: nothing crosses it")]
    NoLink,
    /// Sizes that do not add up.
    #[error("the sizes of the subgroups add up to {sum}, but {vms} VMs move")]
    Sizes {
        /// What they add up to.
        sum: usize,
        /// How many VMs move.
        vms: usize,
    },
    /// Too many VMs for the exact method.
    #[error("the exact method takes at most {EXACT_VMS_MAX} VMs, and {0} move: take annealed")]
    TooManyForExact(usize),
}
