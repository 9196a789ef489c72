//! `kill -9` of the daemon in the middle of writes, again and again: after each restart every block
//! holds its last acknowledged write, or one that was still in flight, and never goes back.

use std::process::Command;

use anyhow::ensure;
use e2e::{LONG, Lab, Process, SHORT, Stack, StackSettings, run, scenario, wait_until};

const ROUNDS: u32 = 4;

fn client() -> Command {
    let mut command = Command::new("/usr/bin/python3");
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/clients/versions.py"));
    command
}

fn verify(lab: &Lab, stack: &mut Stack) -> anyhow::Result<()> {
    run(client()
        .arg("verify")
        .arg(stack.uri())
        .arg(lab.path("versions.json")))?;
    Ok(())
}

fn nothing_acknowledged_is_lost(write_policy: &'static str) {
    scenario(&["nbdsh", "nbdkit", "nbdcopy"], |lab| {
        let mut stack = Stack::start(
            lab,
            &StackSettings {
                image_mib: 16,
                write_policy,
                ..StackSettings::default()
            },
        )?;
        for round in 0..ROUNDS {
            // Cached first, so that every write meets an older copy on flash.
            stack.read_disk(lab)?;
            let name = format!("writer-{round}");
            let mut command = client();
            command
                .arg("write")
                .arg(stack.uri())
                .arg(lab.path("versions.json"))
                .arg("60");
            let writer = Process::start(lab, &name, &mut command)?;
            wait_until("the writer to be in full swing", SHORT, || {
                Ok(std::fs::read_to_string(writer.log())?.contains("warm"))
            })?;
            stack.kill_hearth()?;
            let log = writer.log().to_path_buf();
            ensure!(writer.wait(LONG)?.success(), "the writer failed");
            let said = std::fs::read_to_string(log)?;
            ensure!(
                said.contains("the server is gone"),
                "the writer ended before the kill: {said}"
            );
            stack.start_hearth(lab)?;
            verify(lab, &mut stack)?;
            // Now from flash, for the most part: the same must come again.
            verify(lab, &mut stack)?;
            stack.check_disk_equals_origin(lab)?;
        }
        Ok(())
    });
}

#[test]
fn nothing_acknowledged_is_lost_with_write_through() {
    nothing_acknowledged_is_lost("through");
}

#[test]
fn nothing_acknowledged_is_lost_with_write_around() {
    nothing_acknowledged_is_lost("around");
}
