//! Cells that the live view and the list of disks share.

use crate::terminal::quantity;
use api::write_back::DestageState;

/// What an origin lacks, for how long, and what is done about it; dashes for a disk that is not under
/// write-back.
pub(crate) fn dirty_cells(
    bytes: Option<u64>,
    oldest_seconds: Option<f64>,
    state: Option<DestageState>,
) -> [String; 3] {
    let none = || "-".to_owned();
    [
        bytes.map_or_else(none, quantity::bytes),
        oldest_seconds.map_or_else(none, quantity::time),
        state.map_or_else(none, |state| match state {
            // What needs the operator is to be seen among many disks.
            DestageState::Failing | DestageState::Locked => state.word().to_uppercase(),
            _ => state.word().to_owned(),
        }),
    ]
}
