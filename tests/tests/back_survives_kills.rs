//! `kill -9` of the daemon under write-back, in the middle of writes, again and again: after each
//! restart every block holds its last answered write or one that was in flight, flushed or not; and
//! in the end the origin has all of it.
//!
//! `HEARTH_KILLS=300 cargo nextest run -p e2e -E 'binary(back_survives_kills)'` is the long form.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, ensure};
use e2e::{Back, LONG, Lab, Pace, Process, SHORT, run, scenario, wait_until};

/// Kills unless the environment says otherwise.
const KILLS: u32 = 12;

fn kills() -> anyhow::Result<u32> {
    match std::env::var("HEARTH_KILLS") {
        Ok(text) => text.parse().context("HEARTH_KILLS"),
        Err(_) => Ok(KILLS),
    }
}

fn client() -> Command {
    let mut command = Command::new("/usr/bin/python3");
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/clients/versions.py"));
    command
}

fn verify(lab: &Lab, back: &mut Back) -> anyhow::Result<()> {
    run(client()
        .arg("verify")
        .arg(back.uri())
        .arg(lab.path("versions.json")))?;
    Ok(())
}

#[test]
fn nothing_answered_is_lost_by_a_kill() {
    scenario(&["nbdsh", "nbdcopy"], |lab| {
        let mut back = Back::start(lab, Pace::Eager)?;
        for round in 0..kills()? {
            let mut command = client();
            command
                .arg("write")
                .arg(back.uri())
                .arg(lab.path("versions.json"))
                .arg("60");
            let writer = Process::start(lab, &format!("writer-{round}"), &mut command)?;
            wait_until("the writer to be in full swing", SHORT, || {
                Ok(std::fs::read_to_string(writer.log())?.contains("warm"))
            })?;
            // Not to wait for something, but to hit another moment each time.
            std::thread::sleep(Duration::from_millis(u64::from(round * 37 % 400)));
            back.kill()?;
            let log = writer.log().to_path_buf();
            ensure!(writer.wait(LONG)?.success(), "the writer failed");
            let said = std::fs::read_to_string(log)?;
            ensure!(
                said.contains("the server is gone"),
                "the writer ended before the kill: {said}"
            );
            back.start_again(lab)?;
            verify(lab, &mut back)?;
        }
        back.hearth()
            .command(&["disk", "flush", Back::DISK, "--wait"])?;
        let copy = lab.path("copy.raw");
        run(Command::new("nbdcopy").arg(back.uri()).arg(&copy))?;
        ensure!(
            std::fs::read(copy)? == std::fs::read(back.image.path())?,
            "the origin is not what the disk is"
        );
        Ok(())
    });
}
