//! A disk that does not exist is refused by name, and the next client is served.

use anyhow::ensure;
use e2e::{Stack, StackSettings, nbdsh, scenario};

#[test]
fn an_unknown_export_is_refused_and_the_next_client_is_served() {
    scenario(&["nbdsh", "nbdkit"], |lab| {
        let mut stack = Stack::start(lab, &StackSettings::default())?;
        let wrong = stack.hearth().uri("no-such-disk");
        let refused = nbdsh(Some(&wrong), "pass");
        ensure!(refused.is_err(), "a disk that does not exist was served");
        nbdsh(Some(&stack.uri()), "assert len(h.pread(4096, 0)) == 4096")?;
        Ok(())
    });
}
