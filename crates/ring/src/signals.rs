//! Signals of eventfds that the kernel carries out while it takes the submissions, and that complete
//! only if they fail: they wake nobody, and cost no system call beside that of the turn.
//!
//! ```text
//!   63  62          40 39                     16 15           0
//!  ┌───┬──────────────┬─────────────────────────┬──────────────┐
//!  │ 1 │ opening      │ desk                    │ token        │  user_data
//!  └───┴──────────────┴─────────────────────────┴──────────────┘
//! ```
//!
//! A desk is used again after its source was dropped: the number of its opening tells a late failure
//! from one of the source that has the desk now.
//!
//! Invariants:
//! - `RWF_NOWAIT` is set: a signal that would wait fails with `EAGAIN` at once. Nothing of a signal
//!   stays in the kernel, however many there are and whatever the eventfd's other side does.
//! - The descriptor is held until the kernel has taken the submission; the eight bytes are a constant.

#![allow(
    unsafe_code,
    reason = "a raw operation is made of a constant and a descriptor that is held"
)]

use io_uring::{opcode, squeue, types};
use std::os::fd::{AsRawFd, OwnedFd};
use std::rc::Rc;

/// What is added to a counter.
static ONE: u64 = 1;

const MARK: u64 = 1 << 63;
const OPENING_AT: u32 = 40;
const DESK_AT: u32 = 16;
const OPENINGS: u32 = 1 << 23;
/// One less than fits: all ones are the name of cancellations.
const DESKS_MAX: u32 = (1 << 24) - 1;

/// Signals queued, which the kernel may not have taken yet.
pub(crate) struct Signals {
    /// Whether the kernel knows operations that complete only if they fail: Linux 5.17.
    is_known: bool,
    held: Vec<Rc<OwnedFd>>,
}

/// The signal that has failed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failed {
    pub(crate) desk: u32,
    opening: u32,
    pub(crate) token: u16,
}

impl Signals {
    pub(crate) fn new(is_known: bool) -> Self {
        let held = Vec::new();
        Self { is_known, held }
    }

    /// The submission of a signal; `None` where it cannot be asked for so.
    pub(crate) fn load(
        &mut self,
        desk: u32,
        opening: u32,
        token: u16,
        eventfd: &Rc<OwnedFd>,
    ) -> Option<squeue::Entry> {
        if !self.is_known || desk >= DESKS_MAX {
            return None;
        }
        self.held.push(Rc::clone(eventfd));
        let length = u32::try_from(size_of_val(&ONE)).expect("eight");
        let entry = opcode::Write::new(
            types::Fd(eventfd.as_raw_fd()),
            (&raw const ONE).cast(),
            length,
        )
        .rw_flags(libc::RWF_NOWAIT)
        .build()
        .flags(squeue::Flags::SKIP_SUCCESS)
        .user_data(name(desk, opening, token));
        Some(entry)
    }

    /// The kernel has taken everything that was queued.
    pub(crate) fn were_taken(&mut self) {
        self.held.clear();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }
}

impl Failed {
    /// By a completion's `user_data`; `None` if that is no signal's.
    pub(crate) fn of(user_data: u64) -> Option<Self> {
        let bits = |at: u32, count: u32| {
            let masked = user_data >> at & ((1 << count) - 1);
            u32::try_from(masked).expect("fewer than 32 bits")
        };
        (user_data & MARK != 0).then(|| Self {
            desk: bits(DESK_AT, OPENING_AT - DESK_AT),
            opening: bits(OPENING_AT, 63 - OPENING_AT),
            token: u16::try_from(bits(0, DESK_AT)).expect("16 bits"),
        })
    }

    /// Whether it is of the source that has the desk now.
    pub(crate) fn is_of(&self, opening: u32) -> bool {
        self.opening == opening % OPENINGS
    }
}

fn name(desk: u32, opening: u32, token: u16) -> u64 {
    MARK | u64::from(opening % OPENINGS) << OPENING_AT
        | u64::from(desk) << DESK_AT
        | u64::from(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_names_its_desk_its_opening_and_its_token() {
        let (desk, opening) = (DESKS_MAX - 1, OPENINGS + 5);
        let failed = Failed::of(name(desk, opening, u16::MAX)).expect("a signal's name");
        assert_eq!((failed.desk, failed.token), (desk, u16::MAX));
        assert!(failed.is_of(opening));
        assert!(!failed.is_of(opening + 1));
    }

    #[test]
    fn operations_with_a_seat_are_no_signals() {
        assert_eq!(Failed::of(u64::from(u32::MAX)), None);
    }
}
