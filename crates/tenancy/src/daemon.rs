//! What `hearth serve` does unless its configuration says otherwise: one place for the daemon's
//! configuration and for the simulator's policy `daemon`.
//!
//! The settings that were measured to be the best of what there is; `book/src/reproduction.md` has the
//! figures.

use crate::settings::Settings;
use units::Bytes;

/// Whether a block that is written whole and is not cached may enter the flash too.
pub const ALLOCATE_WRITES: bool = false;

/// Staging is the flash divided by this: half as much costs three hundredths of the read hits, twice as
/// much wins one.
const STAGING_PART: u64 = 200;
/// The least of it: a small cache has a few hundred blocks and addresses at any rate.
const STAGING_MIN: Bytes = Bytes::mib(1);

/// Memory for what admission stages and remembers beside that much flash, if all may have `memory`.
pub fn staging(flash: Bytes, memory: Bytes) -> Bytes {
    let half = Bytes::new(memory.get() / 2);
    let part = Bytes::new(flash.get() / STAGING_PART);
    part.max(STAGING_MIN).min(half)
}

/// What holds for all tenants of that much flash.
#[allow(clippy::missing_panics_doc, reason = "the names are registered")]
pub fn settings(flash: Bytes) -> Settings {
    let spec = "it is registered by this name";
    let plain = Settings::default();
    Settings {
        admission: "reuse-age".parse().expect(spec),
        fill: true,
        staging: staging(flash, plain.memory),
        allocation: "utility".parse().expect(spec),
        ..plain
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn staging_follows_the_flash_within_its_bounds() {
        let auto = |flash| staging(flash, Bytes::gib(1));
        assert_eq!(auto(Bytes::mib(64)), Bytes::mib(1));
        assert_eq!(auto(Bytes::gib(20)), Bytes::new(Bytes::gib(20).get() / 200));
        assert_eq!(auto(Bytes::gib(4096)), Bytes::mib(512));
    }
}
