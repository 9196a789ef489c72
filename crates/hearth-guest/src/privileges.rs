//! What the process may do, and gives up once it need not.

use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities, set_no_new_privs};
use std::io;

/// Keeps `CAP_DAC_READ_SEARCH` alone, for this process and all that it could start.
pub(crate) fn give_up() -> io::Result<()> {
    let kept = CapabilitySet::DAC_READ_SEARCH;
    set_no_new_privs(true)?;
    set_capabilities(
        None,
        CapabilitySets {
            effective: kept,
            permitted: kept,
            inheritable: CapabilitySet::empty(),
        },
    )?;
    Ok(())
}
