//! `hearth migrate take`: a disk whose owner's host is gone for good goes to its standby, unless the owner is there, has the
//! origin locked, or may have bytes that the origin lacks.

use anyhow::ensure;
use e2e::{Answer, Expected, RoamingPair, RoamingSettings, SHORT, hearth, scenario, wait_until};

const DISK: &str = RoamingPair::DISK;

fn take(pair: &mut RoamingPair, at: usize) -> anyhow::Result<Answer> {
    let socket = pair.host(at).admin_socket().display().to_string();
    let yes = "--yes-its-owner-is-dead";
    hearth(&["--socket", &socket, "--json", "migrate", "take", DISK, yes])
}

/// Waits until it is refused with this kind of problem.
fn is_refused(pair: &mut RoamingPair, at: usize, kind: &str) -> anyhow::Result<()> {
    let mut said = String::new();
    let refused = wait_until("the refusal", SHORT, || {
        let answer = take(pair, at)?;
        ensure!(answer.code != 0, "it was taken: {}", answer.stdout);
        said = answer.stderr;
        let error: serde_json::Value = serde_json::from_str(&said)?;
        Ok(error["kind"] == kind)
    });
    ensure!(refused.is_ok(), "not {kind}: {said}");
    Ok(())
}

#[test]
fn a_disk_is_taken_from_a_host_that_is_gone_and_its_return_changes_nothing() {
    scenario(RoamingPair::TOOLS, |lab| {
        let settings = RoamingSettings {
            write_policy: "through",
            ..RoamingSettings::default()
        };
        let mut pair = RoamingPair::start(lab, settings)?;
        let mut expected = Expected::of(&pair.image)?;
        let mut guest = pair.client(0)?;
        expected.write(&mut guest, (0..400).step_by(3), 1)?;
        drop(guest);
        let epoch = pair.record()?.1;
        pair.kill(0)?;
        wait_until("the disk to be taken", SHORT, || {
            Ok(take(&mut pair, 1)?.code == 0)
        })?;
        ensure!(pair.record()? == (RoamingPair::NAMES[1].to_owned(), epoch + 1));
        let mut guest = pair.client(1)?;
        expected.check("who has it now", &mut guest)?;
        expected.write(&mut guest, (1..400).step_by(5), 2)?;
        // The host that was given up comes back.
        pair.start_host(0)?;
        ensure!(pair.owner()? == 1, "it has the disk again");
        let mut late = pair.client(0)?;
        expected.check("who had it", &mut late)?;
        guest.close()?;
        expected.write(&mut late, 60..80, 3)?;
        pair.wait_until_owned_by(0)?;
        expected.check("who has it again", &mut late)?;
        pair.flush_and_compare(&expected)?;
        pair.stop_both()
    });
}

#[test]
fn a_disk_is_not_taken_from_a_host_that_is_there() {
    scenario(RoamingPair::TOOLS, |lab| {
        let settings = RoamingSettings {
            write_policy: "through",
            ..RoamingSettings::default()
        };
        let mut pair = RoamingPair::start(lab, settings)?;
        wait_until("a session", SHORT, || {
            let shown = pair.host(1).json(&["migrate", "show", DISK])?;
            Ok(shown["peer"]["stands"] == true)
        })?;
        is_refused(&mut pair, 0, "refused")?;
        is_refused(&mut pair, 1, "refused")?;
        // Behind a link that is cut the owner is alive: it has the origin's lock.
        let record = pair.record()?;
        pair.wire.cut();
        is_refused(&mut pair, 1, "origin")?;
        ensure!(pair.record()? == record, "the record has changed");
        pair.stop_both()
    });
}

#[test]
fn a_disk_is_not_taken_from_a_host_that_has_bytes_which_the_origin_lacks() {
    scenario(RoamingPair::TOOLS, |lab| {
        let mut pair = RoamingPair::start(lab, RoamingSettings::default())?;
        let mut expected = Expected::of(&pair.image)?;
        let mut guest = pair.client(0)?;
        expected.write(&mut guest, 0..50, 1)?;
        guest.flush()?;
        drop(guest);
        let record = pair.record()?;
        pair.kill(0)?;
        is_refused(&mut pair, 1, "dirty")?;
        ensure!(pair.record()? == record, "the record has changed");
        // Nothing is lost: it comes back.
        pair.start_host(0)?;
        pair.wait_until_owned_by(0)?;
        let mut guest = pair.client(1)?;
        expected.check("the standby", &mut guest)?;
        expected.write(&mut guest, 30..60, 2)?;
        pair.flush_and_compare(&expected)?;
        pair.stop_both()
    });
}
