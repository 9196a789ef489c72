//! A disk that comes to a host finds its cache there: what the last host has cached is lent, and pulled. The origin
//! has other bytes in these tests from when the disk has come, so that nobody can mistake where bytes come from.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use e2e::{Expected, RoamingPair, RoamingSettings, Session, scenario, wait_until};

const BLOCK: u64 = 4096;
const COME: &str = "the disk's cache has come";
const IN_PLACE: &str = "the disk's cache is read where it is";
const AHEAD: &str = "the disk's cache is copied ahead";
const LIMIT: Duration = Duration::from_secs(10);

fn comes(write_policy: &'static str, strategy: &'static str) {
    scenario(RoamingPair::TOOLS, |lab| {
        let settings = RoamingSettings {
            write_policy,
            strategy,
            lend_timeout: "30s",
            ..RoamingSettings::default()
        };
        let mut pair = RoamingPair::start(lab, settings)?;
        let mut expected = Expected::of(&pair.image)?;
        let mut source = pair.client(0)?;
        expected.write(&mut source, (0..400).step_by(3), 1)?;
        expected.check("the source", &mut source)?;
        source.flush()?;
        expected.check("the source", &mut source)?;
        source.close()?;
        pair.wait_until_owned_by(0)?;
        let mut destination = pair.client(1)?;
        let written_here = || (1..400).step_by(50);
        expected.write(&mut destination, written_here(), 2)?;
        pair.wait_until_owned_by(1)?;
        let is_warm = strategy != "none";
        if is_warm {
            wait_until(COME, LIMIT, || Ok(pair.log(1)?.contains(COME)))?;
        }
        destination.flush()?;
        pair.flush_and_compare(&expected)?;
        let origin = std::fs::read(pair.image.path())?;
        let mut other_bytes = vec![0xee; origin.len()];
        for block in written_here() {
            let bytes = usize::try_from(block * BLOCK)?..usize::try_from((block + 1) * BLOCK)?;
            other_bytes[bytes.clone()].copy_from_slice(&origin[bytes]);
        }
        std::fs::write(pair.image.path(), other_bytes)?;
        let seen = expected.check("the destination", &mut destination);
        ensure!(seen.is_ok() == is_warm, "{strategy}: {seen:?}");
        destination.close()?;
        std::fs::write(pair.image.path(), &origin)?;
        pair.stop_both()
    });
}

#[test]
fn a_disk_that_is_written_through_comes_warm() {
    comes("through", "on-demand");
}

#[test]
fn a_disk_with_unwritten_data_comes_warm() {
    comes("back", "on-demand");
}

#[test]
fn a_disk_whose_blocks_are_only_listed_is_warmed_by_the_origin() {
    comes("through", "hotlist");
}

#[test]
fn a_disk_of_which_nothing_is_lent_comes_cold() {
    comes("through", "none");
}

/// How many blocks were cached of the disk when a host attached it last.
fn warm_blocks(pair: &RoamingPair, at: usize) -> anyhow::Result<u64> {
    let log = pair.log(at)?;
    let attached = log.lines().rfind(|line| line.contains("disk attached"));
    let said = attached.and_then(|line| line.split_once("warm_blocks="));
    let (_, said) = said.with_context(|| log.clone())?;
    let number: String = said.chars().take_while(char::is_ascii_digit).collect();
    Ok(number.parse()?)
}

/// What is copied ahead is there when the disk comes, and is what the source has written last.
fn is_copied_ahead(write_policy: &'static str, strategy: &'static str) {
    scenario(RoamingPair::TOOLS, |lab| {
        let settings = RoamingSettings {
            write_policy,
            strategy,
            lend_timeout: "30s",
            ..RoamingSettings::default()
        };
        let mut pair = RoamingPair::start(lab, settings)?;
        let mut expected = Expected::of(&pair.image)?;
        let mut source = pair.client(0)?;
        expected.write(&mut source, (0..400).step_by(3), 1)?;
        expected.check("the source", &mut source)?;
        expected.check("the source", &mut source)?;
        let mut destination = pair.client(1)?;
        wait_until(AHEAD, LIMIT, || Ok(pair.log(1)?.contains(AHEAD)))?;
        // Copies of these are stale.
        expected.write(&mut source, (0..400).step_by(5), 2)?;
        source.flush()?;
        expected.check("the standby", &mut destination)?;
        source.close()?;
        expected.write(&mut destination, (7..8).step_by(1), 3)?;
        pair.wait_until_owned_by(1)?;
        let warm = warm_blocks(&pair, 1)?;
        ensure!(warm >= 250, "{warm} blocks were there");
        expected.check("the destination", &mut destination)?;
        destination.flush()?;
        pair.flush_and_compare(&expected)?;
        destination.close()?;
        pair.stop_both()
    });
}

#[test]
fn a_disk_that_is_written_through_is_copied_ahead() {
    is_copied_ahead("through", "live");
}

#[test]
fn a_disk_with_unwritten_data_is_copied_ahead() {
    is_copied_ahead("back", "live");
}

#[test]
fn a_disk_that_is_written_through_is_copied_ahead_from_its_origin() {
    is_copied_ahead("through", "proactive");
}

#[test]
fn a_disk_with_unwritten_data_is_copied_ahead_from_its_origin() {
    is_copied_ahead("back", "proactive");
}

/// Lets the other host have a warm disk, with one write there; and the origin other bytes then, but of that block.
fn moves(pair: &mut RoamingPair, written: u64) -> anyhow::Result<(Expected, Session)> {
    let mut expected = Expected::of(&pair.image)?;
    let mut source = pair.client(0)?;
    expected.write(&mut source, (0..400).step_by(3), 1)?;
    expected.check("the source", &mut source)?;
    expected.check("the source", &mut source)?;
    source.close()?;
    let mut destination = pair.client(1)?;
    expected.write(&mut destination, std::iter::once(written), 2)?;
    Ok((expected, destination))
}

#[test]
fn a_vm_waits_until_everything_is_copied() {
    scenario(RoamingPair::TOOLS, |lab| {
        let settings = RoamingSettings {
            write_policy: "through",
            strategy: "copy",
            lend_timeout: "30s",
            ..RoamingSettings::default()
        };
        let mut pair = RoamingPair::start(lab, settings)?;
        let (expected, mut destination) = moves(&mut pair, 7)?;
        // Its write is answered, so everything is there.
        let origin = pair.replace_origin(7)?;
        let warm = warm_blocks(&pair, 1)?;
        ensure!(warm == expected.blocks(), "{warm} blocks were there");
        expected.check("the destination", &mut destination)?;
        destination.close()?;
        std::fs::write(pair.image.path(), origin)?;
        pair.stop_both()
    });
}

#[test]
fn a_pool_is_read_at_the_last_host_each_time_and_nothing_is_kept() {
    scenario(RoamingPair::TOOLS, |lab| {
        let settings = RoamingSettings {
            write_policy: "through",
            strategy: "pool",
            lend_timeout: "30s",
            ..RoamingSettings::default()
        };
        let mut pair = RoamingPair::start(lab, settings)?;
        let (expected, mut destination) = moves(&mut pair, 7)?;
        wait_until(IN_PLACE, LIMIT, || Ok(pair.log(1)?.contains(IN_PLACE)))?;
        let origin = pair.replace_origin(7)?;
        for round in ["first", "again"] {
            let mut seen = Vec::new();
            // One at a time: a read that has block 7, too, goes to the origin.
            for block in 0..expected.blocks() {
                seen.extend(destination.read(block * BLOCK, BLOCK)?);
            }
            expected.compare(round, &seen)?;
        }
        // Without that host its bytes are nowhere.
        pair.wire.cut();
        let are_others = |bytes: Vec<u8>| bytes.iter().all(|byte| *byte == 0xee);
        wait_until("the origin's bytes", LIMIT, || {
            Ok(are_others(destination.read(0, BLOCK)?))
        })?;
        for block in 8..400 {
            let bytes = destination.read(block * BLOCK, BLOCK)?;
            ensure!(are_others(bytes), "{block} was kept");
        }
        destination.close()?;
        std::fs::write(pair.image.path(), origin)?;
        pair.stop_both()
    });
}

#[test]
fn a_disk_is_filtered_while_its_blocks_are_copied() {
    comes("through", "copy-filter");
}
