//! A VM moves ten times between two hosts, played by clients that do what QEMU does, while the link is cut, daemons
//! are killed, and the VM is started twice by mistake: it loses nothing. Between hosts that do not know of each other
//! the same VM is seen to lose what it wrote, or to write twice. The long form is the program `moves`.

use anyhow::{Context as _, ensure};
use e2e::{RoamingPair, RoamingSettings, moves, scenario};

#[test]
fn a_vm_that_moves_amid_faults_loses_nothing() {
    scenario(RoamingPair::TOOLS, |lab| {
        let moved = moves(lab, 10, 8, RoamingSettings::default(), &mut |_| {})?;
        let faults = moved.cuts + moved.kills[0] + moved.kills[1];
        let others = moved.cancelled.min(moved.mistakes);
        ensure!(faults > 0 && others > 0, "{moved:?}");
        Ok(())
    });
}

/// Without a hand-over a VM that moves must be seen to find old blocks.
fn without_a_hand_over_something_is_lost(write_policy: &'static str) {
    scenario(&["nbdkit", "openssl"], |lab| {
        let strangers = RoamingSettings {
            write_policy,
            roams: false,
            ..RoamingSettings::default()
        };
        let played = moves(lab, 10, 1, strangers, &mut |_| {});
        let said = played.err().context("nothing was noticed")?;
        let said = format!("{said:#}");
        let noticed = ["is of round", "is torn", "has written"];
        ensure!(noticed.iter().any(|words| said.contains(words)), "{said}");
        Ok(())
    });
}

#[test]
fn without_a_hand_over_what_waits_at_the_source_is_lost() {
    without_a_hand_over_something_is_lost("back");
}

#[test]
fn without_a_hand_over_what_was_changed_elsewhere_is_not_seen() {
    without_a_hand_over_something_is_lost("through");
}
