//! What the origin of a disk lacks goes along with it, if `dirty = "ship"` says so: the other host has it before the
//! disk, serves it, and brings it to the origin. What cannot go along goes to the origin first.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use e2e::{
    Expected, Image, MOUNT_TOOLS, RoamingPair, RoamingSettings, SlowOrigin, block, can_mount,
    scenario, wait_until,
};

const LIMIT: Duration = Duration::from_secs(10);
/// How long a client that has gone may take to connect again, with some time for the word of it to get through.
const RECONNECTS: Duration = Duration::from_millis(1200);
const HERE: &str = "what the origin lacks is here";
const GONE: &str = "what the origin lacks has gone to the other host";
/// What the source logs when it has waited for the destination.
const LATE: &str = "the other host does not get what the origin lacks in time";
const NOT_HERE: &str = "what the origin lacks does not come here";

const SHIPS: RoamingSettings = RoamingSettings {
    encrypted: false,
    link_rates: ["auto"; 2],
    lend_timeout: "200ms",
    on_export: false,
    write_policy: "back",
    certified: RoamingPair::NAMES,
    roams: true,
    strategy: "live",
    // The default, which is to ship with this strategy.
    dirty: "auto",
    dirty_max: ["32MiB"; 2],
    flash_mib: 128,
    vhost_user: false,
};

/// How often a host has logged something.
fn times(pair: &RoamingPair, at: usize, words: &str) -> anyhow::Result<usize> {
    Ok(pair.log(at)?.matches(words).count())
}

/// Whether the origin lacks what must be there.
fn is_behind(pair: &RoamingPair, expected: &Expected) -> anyhow::Result<bool> {
    let at_origin = std::fs::read(pair.image.path())?;
    Ok(expected.compare("the origin", &at_origin).is_err())
}

#[test]
fn it_goes_there_and_back_and_the_origin_gets_it_in_the_end() {
    scenario(RoamingPair::TOOLS, |lab| {
        let mut pair = RoamingPair::start(lab, SHIPS)?;
        let mut expected = Expected::of(&pair.image)?;
        for round in 1..=4_u8 {
            let here = usize::from(round.is_multiple_of(2));
            let there = 1 - here;
            let first = usize::from(round / 3);
            let mut source = pair.client(here)?;
            expected.write(&mut source, (0..400).step_by(3), round)?;
            source.flush()?;
            pair.wait_until_owned_by(here)?;
            let mut destination = pair.client(there)?;
            wait_until(HERE, LIMIT, || Ok(times(&pair, there, HERE)? > first))?;
            // Some of it is written again, and some is erased.
            expected.write(&mut source, (1..400).step_by(7), round + 100)?;
            expected.write(&mut source, (0..400).step_by(9), round + 50)?;
            source.flush()?;
            expected.write(&mut source, (5..90).step_by(5), round + 150)?;
            expected.check("the destination, before it writes", &mut destination)?;
            source.close()?;
            expected.write(&mut destination, (2..400).step_by(11), round + 200)?;
            pair.wait_until_owned_by(there)?;
            ensure!(times(&pair, here, GONE)? > first, "it was not shipped");
            ensure!(is_behind(&pair, &expected)?, "the origin has everything");
            expected.check("the destination", &mut destination)?;
            destination.flush()?;
            if round.is_multiple_of(2) {
                pair.flush_and_compare(&expected)?;
                expected.check("the destination, all clean", &mut destination)?;
            }
            destination.close()?;
        }
        pair.flush_and_compare(&expected)?;
        pair.stop_both()
    });
}

#[test]
fn what_the_other_host_has_no_room_for_goes_to_the_origin_first() {
    scenario(RoamingPair::TOOLS, |lab| {
        let settings = RoamingSettings {
            dirty_max: ["64MiB", "16MiB"],
            flash_mib: 256,
            ..SHIPS
        };
        let mut pair = RoamingPair::start(lab, settings)?;
        let mut expected = Expected::of(&pair.image)?;
        let mut source = pair.client(0)?;
        // 18 MiB: what is written again is in the log, too.
        for round in 1..=3 {
            expected.write(&mut source, 0..1536, round)?;
            source.flush()?;
        }
        let mut destination = pair.client(1)?;
        wait_until(NOT_HERE, LIMIT, || Ok(times(&pair, 1, NOT_HERE)? > 0))?;
        source.close()?;
        let before = expected.clone();
        expected.write(&mut destination, 7..8, 2)?;
        pair.wait_until_owned_by(1)?;
        ensure!(times(&pair, 0, GONE)? == 0, "it was shipped");
        ensure!(
            times(&pair, 0, LATE)? == 0,
            "the VM has waited for who keeps nothing"
        );
        let at_origin = std::fs::read(pair.image.path())?;
        before
            .compare("the origin", &at_origin)
            .context("the disk came before its data")?;
        expected.check("the destination", &mut destination)?;
        destination.flush()?;
        pair.flush_and_compare(&expected)?;
        destination.close()?;
        pair.stop_both()
    });
}

/// What was kept of a disk that did not come counts nothing when it comes later.
#[test]
fn what_was_kept_for_a_move_that_was_cancelled_counts_nothing() {
    scenario(RoamingPair::TOOLS, |lab| {
        let mut pair = RoamingPair::start(lab, SHIPS)?;
        let mut expected = Expected::of(&pair.image)?;
        let mut source = pair.client(0)?;
        expected.write(&mut source, 0..200, 1)?;
        source.flush()?;
        let destination = pair.client(1)?;
        wait_until(HERE, LIMIT, || Ok(times(&pair, 1, HERE)? > 0))?;
        destination.close()?;
        pair.kill(1)?;
        expected.write(&mut source, (0..200).step_by(2), 2)?;
        source.flush()?;
        pair.start_host(1)?;
        let mut destination = pair.client(1)?;
        source.close()?;
        expected.write(&mut destination, 300..301, 3)?;
        pair.wait_until_owned_by(1)?;
        expected.check("the destination", &mut destination)?;
        pair.kill(1)?;
        pair.start_host(1)?;
        let mut destination = pair.client(1)?;
        expected.check("the destination, restarted", &mut destination)?;
        destination.flush()?;
        pair.flush_and_compare(&expected)?;
        destination.close()?;
        pair.stop_both()
    });
}

/// A link that does not bring the rest in time costs the VM a few seconds, and the origin gets it instead.
#[test]
fn what_a_link_does_not_bring_in_time_goes_to_the_origin() {
    scenario(RoamingPair::TOOLS, |lab| {
        let mut pair = RoamingPair::start(lab, SHIPS)?;
        let mut expected = Expected::of(&pair.image)?;
        let mut source = pair.client(0)?;
        expected.write(&mut source, 0..200, 1)?;
        source.flush()?;
        let mut destination = pair.client(1)?;
        wait_until(HERE, LIMIT, || Ok(times(&pair, 1, HERE)? > 0))?;
        // Questions and claims arrive, and answers do not.
        pair.wire.hold(1);
        expected.write(&mut source, (0..200).step_by(2), 2)?;
        source.flush()?;
        source.close()?;
        std::thread::sleep(RECONNECTS);
        let asking = std::thread::spawn(move || {
            let written = destination.try_write(0, &block(0, 3))?;
            anyhow::ensure!(written.is_ok(), "the guest saw an error");
            anyhow::Ok(destination)
        });
        pair.wait_until_recorded(1)?;
        ensure!(times(&pair, 0, GONE)? == 0, "it was shipped");
        let at_origin = std::fs::read(pair.image.path())?;
        expected
            .compare("the origin", &at_origin)
            .context("the disk went before its data")?;
        pair.wire.mend();
        let asked = asking.join().map_err(|_| anyhow::anyhow!("a panic"))?;
        let mut destination = asked?;
        expected.put(0, &block(0, 3));
        pair.wait_until_owned_by(1)?;
        expected.check("the destination", &mut destination)?;
        destination.flush()?;
        pair.flush_and_compare(&expected)?;
        destination.close()?;
        pair.stop_both()
    });
}

/// The VM does not wait for an origin that is far away.
#[test]
fn a_move_does_not_wait_for_a_slow_origin() {
    if !can_mount("a slow origin") {
        return;
    }
    let tools = [RoamingPair::TOOLS, MOUNT_TOOLS].concat();
    scenario(&tools, |lab| {
        let image = Image::new(lab, "image.raw", RoamingPair::IMAGE_MIB)?;
        let slow = SlowOrigin::mount(lab, &image, "100ms")?;
        let mut pair = RoamingPair::start_over(lab, Image::existing(slow.file())?, SHIPS)?;
        let mut expected = Expected::of(&image)?;
        let mut source = pair.client(0)?;
        // 1,000 blocks that do not lie behind each other: more than a minute of such an origin.
        expected.write(&mut source, (0..2000).step_by(2), 1)?;
        source.flush()?;
        let mut destination = pair.client(1)?;
        wait_until(HERE, LIMIT, || Ok(times(&pair, 1, HERE)? > 0))?;
        source.close()?;
        expected.write(&mut destination, 7..8, 2)?;
        pair.wait_until_owned_by(1)?;
        ensure!(times(&pair, 0, GONE)? == 1, "it was not shipped");
        let shown = pair.host(0).json(&["migrate", "show", RoamingPair::DISK])?;
        let held = &shown["last_hand_over"]["held_seconds"];
        let held = held.as_f64().with_context(|| shown.to_string())?;
        ensure!(held < 3.0, "requests were held for {held} s");
        let moves = &shown["cache_move"];
        let shipped = moves["shipped_bytes"].as_u64();
        ensure!(shipped >= Some(1000 * 4096), "{moves:#}");
        destination.read(0, 4096)?;
        destination.close()?;
        pair.kill(1)?;
        pair.kill(0)
    });
}
