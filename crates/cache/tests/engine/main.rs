//! The cache as its surroundings see it, one behaviour a file. All are one program: each alone would be linked with the whole cache.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod admission;
mod ahead;
mod back;
mod back_changes;
mod back_random;
mod detach;
mod encryption;
mod failed_flush;
mod following;
mod hints;
mod hot;
mod in_place;
mod late_changes;
mod late_writes;
mod lending;
mod memory;
mod prefetch;
mod rig;
mod scrub;
mod sequential;
mod shipping;
mod slow_flash;
mod standby;
mod stands_still;
mod support;
mod tables;
