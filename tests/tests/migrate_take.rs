//! `hearth migrate take`: a disk whose owner's host is gone for good goes to its standby, unless the owner is there, has the
//! origin locked, or may have bytes that the origin lacks. Where those are given up with `--lose-dirty`, they never come
//! back, whatever the old host has on its flash.

use anyhow::ensure;
use e2e::{
    Answer, Expected, Flash, RoamingPair, RoamingSettings, SHORT, hearth, scenario, wait_until,
};

const DISK: &str = RoamingPair::DISK;

fn take(pair: &mut RoamingPair, at: usize) -> anyhow::Result<Answer> {
    take_with(pair, at, &[])
}

fn take_with(pair: &mut RoamingPair, at: usize, flags: &[&str]) -> anyhow::Result<Answer> {
    let socket = pair.host(at).admin_socket().display().to_string();
    let yes = "--yes-its-owner-is-dead";
    let words = ["--socket", &socket, "--json", "migrate", "take", DISK, yes];
    hearth(&[&words[..], flags].concat())
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

/// Takes a disk whose owner had bytes which the origin lacks. What the origin has, and the epoch.
fn lose_dirty(pair: &mut RoamingPair) -> anyhow::Result<Expected> {
    let mut expected = Expected::of(&pair.image)?;
    let mut guest = pair.client(0)?;
    expected.write(&mut guest, 0..50, 1)?;
    pair.flush_to_origin(0)?;
    let at_origin = expected.clone();
    expected.write(&mut guest, (0..400).step_by(3), 2)?;
    guest.flush()?;
    drop(guest);
    let epoch = pair.record()?.1;
    pair.kill(0)?;
    is_refused(pair, 1, "dirty")?;
    let said = take(pair, 1)?.stderr;
    for words in [RoamingPair::NAMES[0], "up to 32MiB", "--lose-dirty"] {
        ensure!(said.contains(words), "no '{words}' in {said}");
    }
    let taken = take_with(pair, 1, &["--lose-dirty"])?;
    ensure!(taken.code == 0, "{}", taken.stderr);
    ensure!(pair.record()? == (RoamingPair::NAMES[1].to_owned(), epoch + 1));
    let mut guest = pair.client(1)?;
    at_origin.check("who has it now", &mut guest)?;
    guest.close()?;
    pair.flush_and_compare_at(1, &at_origin)?;
    Ok(at_origin)
}

#[test]
fn bytes_that_only_a_dead_hosts_flash_has_are_given_up_by_the_operators_word_alone() {
    scenario(RoamingPair::TOOLS, |lab| {
        let mut pair = RoamingPair::start(lab, RoamingSettings::default())?;
        let mut expected = lose_dirty(&mut pair)?;
        // The host gets new flash, and the disk moves there.
        std::fs::remove_file(pair.lab(0).path("flash.img"))?;
        Flash::format(pair.lab(0), "flash.img", 128)?;
        pair.start_host(0)?;
        let mut guest = pair.client(0)?;
        expected.check("the standby", &mut guest)?;
        expected.write(&mut guest, 60..80, 3)?;
        pair.wait_until_owned_by(0)?;
        expected.check("who has it again", &mut guest)?;
        pair.flush_and_compare(&expected)?;
        pair.stop_both()
    });
}

#[test]
fn bytes_that_were_given_up_stay_so_when_their_host_comes_back() {
    scenario(RoamingPair::TOOLS, |lab| {
        let mut pair = RoamingPair::start(lab, RoamingSettings::default())?;
        let mut expected = lose_dirty(&mut pair)?;
        let mut guest = pair.client(1)?;
        expected.write(&mut guest, 30..60, 3)?;
        guest.flush()?;
        // By hand they do not come there either.
        let flash = pair.lab(0).path("flash.img").display().to_string();
        let config = pair.lab(0).path("hearth.toml").display().to_string();
        let words = [
            "recover", "destage", &flash, "--disk", DISK, "--config", &config,
        ];
        let by_hand = hearth(&words)?;
        ensure!(by_hand.code == 4, "{}", by_hand.stderr);
        pair.start_host(0)?;
        ensure!(pair.owner()? == 1, "it has the disk again");
        let mut late = pair.client(0)?;
        expected.check("who had it", &mut late)?;
        pair.flush_and_compare(&expected)?;
        guest.close()?;
        // And with the disk itself they do not come either.
        expected.write(&mut late, 60..80, 4)?;
        pair.wait_until_owned_by(0)?;
        expected.check("who has it again", &mut late)?;
        late.flush()?;
        pair.flush_and_compare(&expected)?;
        pair.kill(0)?;
        pair.start_host(0)?;
        pair.wait_until_owned_by(0)?;
        expected.check("after a crash", &mut pair.client(0)?)?;
        pair.stop_both()
    });
}
