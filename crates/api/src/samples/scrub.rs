//! A cache that was scrubbed.

use crate::scrub::{ScrubFound, ScrubStatus};

pub(super) fn scrub() -> ScrubStatus {
    ScrubStatus {
        last_whole_pass: Some(1_790_000_000),
        last: ScrubFound {
            blocks: 998_000,
            damaged_clean_blocks: 2,
            ..ScrubFound::default()
        },
        ..ScrubStatus::default()
    }
}
