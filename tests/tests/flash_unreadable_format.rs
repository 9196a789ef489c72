//! Flash that was formatted by another version, is torn, or was never formatted: `hearth cache check`
//! says so, and the daemon serves its disks from the origin rather than guess.

use std::process::Command;

use anyhow::ensure;
use e2e::{Flash, Stack, StackSettings, run_expecting_failure, scenario};

fn is_refused_with_a_reason(break_it: impl Fn(&Flash) -> anyhow::Result<()>) {
    scenario(&["nbdcopy", "nbdkit"], |lab| {
        let mut stack = Stack::start(lab, &StackSettings::default())?;
        stack.read_disk(lab)?;
        stack.stop_hearth()?;
        break_it(&stack.flash)?;
        let program = e2e::hearth_program()?;
        let output = run_expecting_failure(
            Command::new(program)
                .args(["cache", "check"])
                .arg(stack.flash.path()),
        )?;
        let reason = output.stderr + &output.stdout;
        ensure!(!reason.trim().is_empty(), "a refusal without a reason");
        ensure!(!reason.contains("panicked"), "{reason}");
        stack.start_hearth(lab)?;
        stack.check_disk_equals_origin(lab)?;
        stack.check_disk_equals_origin(lab)?;
        ensure!(stack.hearth().is_running(), "hearth ended");
        Ok(())
    });
}

#[test]
fn flash_that_was_never_formatted_is_refused() {
    is_refused_with_a_reason(|flash| flash.rot([0], usize::try_from(flash.bytes()?)?));
}

#[test]
fn flash_with_torn_superblocks_is_refused() {
    // All superblock slots lie in the first MiB.
    is_refused_with_a_reason(|flash| {
        flash.flip_bits((0..1 << 20).step_by(512).map(|sector| sector + 100))
    });
}

#[test]
fn flash_cut_short_while_the_daemon_was_away_is_refused() {
    is_refused_with_a_reason(|flash| flash.truncate(flash.bytes()? / 2));
}
