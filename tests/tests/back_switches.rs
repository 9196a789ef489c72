//! The write policy changes to and from write-back while a client writes: nothing is lost, and when
//! it is `through` again the origin has everything.

use std::process::Command;

use anyhow::ensure;
use e2e::{Back, LONG, Pace, Process, SHORT, run, scenario, wait_until};

#[test]
fn the_policy_changes_under_load() {
    scenario(&["nbdsh", "nbdcopy"], |lab| {
        let mut back = Back::start(lab, Pace::Held)?;
        let client = concat!(env!("CARGO_MANIFEST_DIR"), "/clients/versions.py");
        let mut command = Command::new("/usr/bin/python3");
        command
            .arg(client)
            .arg("write")
            .arg(back.uri())
            .arg(lab.path("versions.json"))
            .arg("6");
        let writer = Process::start(lab, "writer", &mut command)?;
        wait_until("the writer to be in full swing", SHORT, || {
            Ok(std::fs::read_to_string(writer.log())?.contains("warm"))
        })?;
        for policy in ["through", "back", "around", "back", "through"] {
            back.hearth()
                .command(&["disk", "set", Back::DISK, "--policy", policy])?;
            let state = if policy == "back" { "open" } else { "closed" };
            ensure!(
                back.owner()?["state"] == state,
                "{policy}: {}",
                back.owner()?
            );
        }
        ensure!(writer.wait(LONG)?.success(), "the writer failed");
        run(Command::new("/usr/bin/python3")
            .arg(client)
            .arg("verify")
            .arg(back.uri())
            .arg(lab.path("versions.json")))?;
        let copy = lab.path("copy.raw");
        run(Command::new("nbdcopy").arg(back.uri()).arg(&copy))?;
        ensure!(
            std::fs::read(copy)? == std::fs::read(back.image.path())?,
            "the origin is not what the disk is"
        );
        // What was changed last holds after a kill.
        back.kill()?;
        back.start_again(lab)?;
        let shown = back.hearth().json(&["disk", "show", Back::DISK])?;
        ensure!(shown["write_policy"] == "through", "{shown}");
        ensure!(
            shown["changed"] == serde_json::json!(["write_policy"]),
            "{shown}"
        );
        back.hearth()
            .command(&["disk", "set", Back::DISK, "--reset"])?;
        let shown = back.hearth().json(&["disk", "show", Back::DISK])?;
        ensure!(shown["write_policy"] == "back", "{shown}");
        Ok(())
    });
}
