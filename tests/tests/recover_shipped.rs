//! `hearth recover` on flash whose log counts at another host: one that is kept ahead of a disk that may come, and one
//! that went along with its disk. Nothing of either gets to the origin, and no record is written: the disk goes on as its
//! owner has it.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use e2e::{Answer, Expected, Lab, RoamingPair, RoamingSettings, hearth, scenario, wait_until};
use serde_json::Value;

const DISK: &str = RoamingPair::DISK;
const HERE: &str = "what the origin lacks is here";
const DECIDED: &str = "who has the disk now is not recorded yet";
const LIMIT: Duration = Duration::from_secs(10);

fn recover(pair: &RoamingPair, at: usize, words: &[&str]) -> anyhow::Result<Answer> {
    let [flash, config] =
        ["flash.img", "hearth.toml"].map(|name| pair.lab(at).path(name).display().to_string());
    let more: &[&str] = match words[0] {
        "list" | "verify" => &[],
        _ => &["--disk", DISK],
    };
    let places = ["--config", &config];
    hearth(&[&["recover", words[0], &flash], &words[1..], more, &places].concat())
}

/// Two hosts of which the first has the disk and what the origin lacks, and the second has kept that.
fn kept(lab: &Lab) -> anyhow::Result<(RoamingPair, Expected)> {
    let settings = RoamingSettings {
        dirty: "ship",
        ..RoamingSettings::default()
    };
    let mut pair = RoamingPair::start(lab, settings)?;
    let mut expected = Expected::of(&pair.image)?;
    let mut source = pair.client(0)?;
    expected.write(&mut source, 0..200, 1)?;
    source.flush()?;
    let _destination = pair.client(1)?;
    wait_until(HERE, LIMIT, || Ok(pair.log(1)?.contains(HERE)))?;
    source.close()?;
    Ok((pair, expected))
}

/// The same after the first host has decided to give the disk away, and died before the record names the other one; that is
/// dead, too, unless the record is to name it.
fn decided(lab: &Lab, is_recorded: bool) -> anyhow::Result<(RoamingPair, Expected)> {
    let (mut pair, expected) = kept(lab)?;
    // A folder where the record would be written before it replaces the old one.
    let mut obstacle = pair.record_path().into_os_string();
    obstacle.push(".new");
    std::fs::create_dir(&obstacle).context("an obstacle")?;
    let mut guest = pair.client(1)?;
    // It does not come to be carried out.
    let asking = std::thread::spawn(move || guest.try_write(900 * 4096, &[7; 4096]).is_ok());
    wait_until(DECIDED, LIMIT, || Ok(pair.log(0)?.contains(DECIDED)))?;
    ensure!(pair.decision_path(0).is_file(), "nothing was decided");
    if is_recorded {
        pair.wire.hold(1);
        std::fs::remove_dir(&obstacle)?;
        pair.wait_until_recorded(1)?;
        pair.kill(1)?;
        pair.kill(0)?;
        pair.wire.mend();
    } else {
        pair.kill(1)?;
        pair.kill(0)?;
        std::fs::remove_dir(&obstacle)?;
    }
    ensure!(matches!(asking.join(), Ok(false)), "the write was answered");
    Ok((pair, expected))
}

/// The origin and the owner's record, which no command may change here.
fn untouched(pair: &RoamingPair) -> anyhow::Result<(Vec<u8>, String)> {
    let record = std::fs::read_to_string(pair.record_path()).context("the owner's record")?;
    Ok((std::fs::read(pair.image.path())?, record))
}

fn stands(pair: &RoamingPair, at: usize, standing: &str) -> anyhow::Result<()> {
    let listed = recover(pair, at, &["list", "--json"])?.json()?;
    ensure!(listed["disks"][0]["standing"] == standing, "{listed}");
    ensure!(listed["disks"][0]["dirty_bytes"] == 200 * 4096, "{listed}");
    Ok(())
}

/// Everything that could change the origin or the record is refused, forced or not, and says why and what to do.
fn is_refused(pair: &RoamingPair, at: usize, (standing, why): (&str, &str)) -> anyhow::Result<()> {
    let before = untouched(pair)?;
    stands(pair, at, standing)?;
    for words in [
        &["destage"][..],
        &["destage", "--dry-run"],
        &["destage", "--force", "--yes-lose-data"],
        &["drop", "--yes-lose-data"],
        &["drop", "--dry-run"],
    ] {
        let said = recover(pair, at, &[words, &["--json"]].concat())?;
        ensure!(said.code == 4, "{words:?}: {} {}", said.code, said.stderr);
        let error: Value = serde_json::from_str(&said.stderr)?;
        let [detail, remedy] = ["detail", "remedy"].map(|key| error[key].as_str().unwrap_or(""));
        ensure!(detail.contains(why), "{words:?}: {error}");
        ensure!(remedy.contains("start the daemon"), "{words:?}: {error}");
        ensure!(untouched(pair)? == before, "{words:?} changed something");
    }
    // Without the flash neither.
    let config = pair.lab(at).path("hearth.toml").display().to_string();
    let drop = ["recover", "drop", "--disk", DISK, "--yes-lose-data"];
    let said = hearth(&[&drop[..], &["--config", &config]].concat())?;
    ensure!(
        said.code == 4 && said.stderr.contains(why),
        "{}",
        said.stderr
    );
    ensure!(untouched(pair)? == before, "giving up changed something");
    Ok(())
}

const KEPT: (&str, &str) = ("kept", "kept for another host");

#[test]
fn what_a_standby_has_kept_stays_off_the_origin() {
    scenario(RoamingPair::TOOLS, |lab| {
        let (mut pair, mut expected) = kept(lab)?;
        pair.kill(1)?;
        // What it has kept is old by now.
        let mut source = pair.client(0)?;
        expected.write(&mut source, (0..200).step_by(2), 9)?;
        source.flush()?;
        source.close()?;
        is_refused(&pair, 1, KEPT)?;
        pair.flush_to_origin(0)?;
        pair.kill(0)?;
        let said = recover(&pair, 1, &["destage", "--force", "--yes-lose-data"])?;
        ensure!(said.code == 4, "{}", said.stderr);
        expected.compare("the origin", &std::fs::read(pair.image.path())?)?;
        pair.start_host(1)?;
        pair.start_host(0)?;
        expected.check("the owner", &mut pair.client(0)?)?;
        pair.flush_and_compare(&expected)?;
        pair.stop_both()
    });
}

#[test]
fn what_a_host_has_decided_to_give_away_stays_off_the_origin() {
    scenario(RoamingPair::TOOLS, |lab| {
        let (mut pair, expected) = decided(lab, false)?;
        let why = "has decided to give";
        is_refused(&pair, 0, ("leaving", why))?;
        is_refused(&pair, 1, KEPT)?;
        pair.start_host(0)?;
        pair.wait_until_recorded(1)?;
        pair.start_host(1)?;
        pair.wait_until_owned_by(1)?;
        expected.check("who has it now", &mut pair.client(1)?)?;
        pair.flush_and_compare(&expected)?;
        pair.stop_both()
    });
}

#[test]
fn what_a_host_has_given_away_is_brought_to_the_origin_by_the_other_one_alone() {
    scenario(RoamingPair::TOOLS, |lab| {
        let (mut pair, expected) = decided(lab, true)?;
        is_refused(&pair, 0, KEPT)?;
        stands(&pair, 1, "waiting")?;
        let record = pair.record()?;
        let brought = recover(&pair, 1, &["destage", "--json"])?.json()?;
        ensure!(brought["bytes"] == 200 * 4096, "{brought}");
        expected.compare("the origin", &std::fs::read(pair.image.path())?)?;
        ensure!(pair.record()? == record, "the disk has another owner now");
        stands(&pair, 1, "void")?;
        stands(&pair, 0, "void")?;
        let said = recover(&pair, 0, &["destage", "--force", "--yes-lose-data"])?;
        ensure!(said.code == 4, "{}", said.stderr);
        pair.start_host(0)?;
        pair.start_host(1)?;
        pair.wait_until_owned_by(1)?;
        expected.check("who has it now", &mut pair.client(1)?)?;
        expected.check("who had it", &mut pair.client(0)?)?;
        pair.flush_and_compare(&expected)?;
        pair.stop_both()
    });
}
