//! Whether the flash can be relied on: late, given up, or taken back.

mod late_writes;
mod retirement;

use super::State;

/// Judges the flash by what of it is late or has failed, and lets nobody wait for it who need not.
pub(super) struct FlashHealth<'a> {
    state: &'a mut State,
}

impl<'a> FlashHealth<'a> {
    pub(super) fn new(state: &'a mut State) -> Self {
        Self { state }
    }
}
