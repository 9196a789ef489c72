//! A VM moves five times between two hosts, played by clients that do what QEMU does, while the link is cut and daemons
//! are killed: it loses nothing. The long form is the program `moves`.

use anyhow::ensure;
use e2e::{RoamingPair, moves, scenario};

#[test]
fn a_vm_that_moves_amid_faults_loses_nothing() {
    scenario(RoamingPair::TOOLS, |lab| {
        let moved = moves(lab, 5, 1, "back", &mut |_| {})?;
        let faults = moved.cuts + moved.kills[0] + moved.kills[1];
        ensure!(faults > 0 && moved.cancelled > 0, "{moved:?}");
        Ok(())
    });
}
