//! Under write-back a flushed write is on flash and not at the origin; it survives a kill and a stop,
//! and reaches the origin when it is asked for. Detaching asks what becomes of it.

use anyhow::{Context as _, ensure};
use e2e::{Back, Pace, block, nbdsh, scenario, writes};

const BLOCKS: u64 = 500;

#[test]
fn what_was_flushed_waits_for_the_origin_over_kills_and_stops() {
    scenario(&["nbdsh"], |lab| {
        let mut back = Back::start(lab, Pace::Held)?;
        let before = std::fs::read(back.image.path())?;
        nbdsh(Some(&back.uri()), &writes(0, BLOCKS, 1))?;
        ensure!(
            back.dirty_bytes()? == BLOCKS * 4096,
            "{}",
            back.write_back()?
        );
        ensure!(back.owner()?["state"] == "open", "{}", back.owner()?);
        back.kill()?;
        ensure!(
            std::fs::read(back.image.path())? == before,
            "something reached the origin too early"
        );
        back.start_again(lab)?;
        ensure!(
            back.dirty_bytes()? == BLOCKS * 4096,
            "{}",
            back.write_back()?
        );
        back.stop()?;
        back.start_again(lab)?;
        let check = format!(
            "for b in range({BLOCKS}):\n    assert h.pread(4096, b * 4096) == bytes([b % 251, 1]) * 2048, b"
        );
        nbdsh(Some(&back.uri()), &check)?;
        ensure!(
            std::fs::read(back.image.path())? == before,
            "something reached the origin too early"
        );
        let listed = back.hearth().command(&["disk", "list"])?.stdout;
        let row = listed.lines().nth(1).context(listed.clone())?;
        ensure!(row.contains("1.95MiB") && row.contains("idle"), "{listed}");
        let words = ["top", "--once", "--interval", "100ms"];
        let shown = &back.hearth().json(&words)?["disks"][0];
        ensure!(shown["dirty_bytes"] == BLOCKS * 4096, "{shown}");
        ensure!(
            shown["dirty_oldest_seconds"].as_f64() > Some(0.0),
            "{shown}"
        );
        ensure!(shown["destage"] == "idle", "{shown}");

        let refused = back
            .hearth()
            .refused_command(&["disk", "detach", Back::DISK])?;
        ensure!(refused.stderr.contains("--flush"), "{}", refused.stderr);
        back.hearth()
            .command(&["disk", "flush", Back::DISK, "--wait"])?;
        for number in [0, 250, BLOCKS - 1] {
            let at = back.image.read(number * 4096, 4096)?;
            ensure!(
                at == block(number, 1),
                "block {number} is not at the origin"
            );
        }
        ensure!(back.dirty_bytes()? == 0, "{}", back.write_back()?);
        back.hearth().command(&["disk", "detach", Back::DISK])?;
        ensure!(back.owner()?["state"] == "closed", "{}", back.owner()?);
        Ok(())
    });
}

#[test]
fn a_barrier_ends_when_the_origin_has_everything() {
    scenario(&["nbdsh"], |lab| {
        let mut back = Back::start(lab, Pace::Held)?;
        nbdsh(Some(&back.uri()), &writes(7, 20, 3))?;
        let barrier = back.hearth().json(&["disk", "barrier", Back::DISK])?;
        ensure!(barrier["reached_at_seconds"].as_f64() >= barrier["asked_at_seconds"].as_f64());
        ensure!(back.image.read(7 * 4096, 4096)? == block(7, 3), "{barrier}");
        back.hearth()
            .command(&["disk", "set", Back::DISK, "--order", "unordered"])?;
        let refused = back
            .hearth()
            .refused_command(&["disk", "barrier", Back::DISK])?;
        ensure!(
            refused.stderr.contains("--order ordered"),
            "{}",
            refused.stderr
        );
        Ok(())
    });
}

#[test]
fn what_is_dropped_with_a_word_of_its_own_is_gone() {
    scenario(&["nbdsh"], |lab| {
        let mut back = Back::start(lab, Pace::Held)?;
        let before = back.image.read(0, 4096)?;
        nbdsh(Some(&back.uri()), &writes(0, 10, 9))?;
        let words = ["disk", "detach", Back::DISK, "--drop-dirty"];
        back.hearth().refused_command(&words)?;
        back.hearth()
            .command(&[&words[..], &["--yes-lose-data"]].concat())?;
        ensure!(back.owner()?["state"] == "closed", "{}", back.owner()?);
        back.stop()?;
        back.start_again(lab)?;
        nbdsh(
            Some(&back.uri()),
            "assert h.pread(4096, 0) != bytes([0, 9]) * 2048",
        )?;
        ensure!(back.image.read(0, 4096)? == before);
        Ok(())
    });
}
