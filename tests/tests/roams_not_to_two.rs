//! Of two guests that use a disk which roams at most one goes on: a guest that writes all the time, or flushes now and
//! then, keeps the disk from one that was started a second time by mistake, over a restart of its daemon, too; such a
//! second one that ends waits for nothing any more, over NBD and vhost-user; a guest whose disk was written elsewhere
//! gets errors for ever, and one whose disk was only read there gets it back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use e2e::{
    Expected, RingGuest, RoamingPair, RoamingSettings, SHORT, Session, block, scenario, wait_until,
};

const BLOCK: u64 = 4096;
/// How long a guest that is about to come waits at least, with some time for the word of it to get through.
const INCOMING_WAITS: Duration = Duration::from_millis(1300);
/// After how long a guest connects again whose daemon was restarted.
const CONNECTS_AGAIN: Duration = Duration::from_millis(500);
/// How long a guest that has been stopped is silent at least.
const SILENCE: Duration = Duration::from_millis(30);
/// After how long a second guest ends that waits in vain.
const ENDS_SOON: Duration = Duration::from_millis(500);
/// For how long it is looked whether the disk goes to where nobody waits: longer than a guest of which nothing is heard may take to
/// connect again, and shorter than a guest waits.
const NOBODY_COMES: Duration = Duration::from_secs(3);
/// Between two flushes of a guest that does nothing else: long enough to look stopped, also behind a write.
const BETWEEN_FLUSHES: Duration = Duration::from_millis(1300);

/// Lets this guest, which stays connected, look as if it had been stopped to go on at the other host, where a client waits.
fn looks_stopped(guest: &mut Session) -> anyhow::Result<()> {
    std::thread::sleep(INCOMING_WAITS);
    guest.flush()?;
    std::thread::sleep(SILENCE);
    Ok(())
}

#[test]
fn a_guest_whose_disk_was_written_elsewhere_gets_errors_for_ever() {
    scenario(RoamingPair::TOOLS, |lab| {
        let mut pair = RoamingPair::start(lab, RoamingSettings::default())?;
        let mut expected = Expected::of(&pair.image)?;
        let mut old = pair.client(0)?;
        expected.write(&mut old, 0..100, 1)?;
        let mut new = pair.client(1)?;
        looks_stopped(&mut old)?;
        new.write(50 * BLOCK, &block(50, 2))?;
        expected.put(50 * BLOCK, &block(50, 2));
        pair.wait_until_owned_by(1)?;

        for _ in 0..3 {
            ensure!(old.try_read(0, BLOCK)?.is_err(), "an old guest reads");
            ensure!(
                old.try_write(0, &[9; 4096])?.is_err(),
                "an old guest writes"
            );
            ensure!(old.try_discard(0, BLOCK)?.is_err(), "an old guest discards");
            ensure!(old.try_flush()?.is_err(), "an old guest flushes");
        }
        let log = pair.log(0)?;
        ensure!(log.contains("changed elsewhere"), "the log says why");
        // Nor when the disk is back: its connection is of another time.
        new.flush()?;
        new.close()?;
        let mut third = pair.client(0)?;
        expected.write(&mut third, 60..80, 3)?;
        pair.wait_until_owned_by(0)?;
        ensure!(old.try_read(0, BLOCK)?.is_err(), "an old guest reads");
        ensure!(
            old.try_write(0, &[9; 4096])?.is_err(),
            "an old guest writes"
        );
        expected.check("the third guest", &mut third)?;
        third.flush()?;
        pair.flush_and_compare(&expected)?;
        pair.stop_both()
    });
}

#[test]
fn a_guest_whose_disk_was_only_taken_elsewhere_gets_it_back() {
    scenario(RoamingPair::TOOLS, |lab| {
        let mut pair = RoamingPair::start(lab, RoamingSettings::default())?;
        let mut expected = Expected::of(&pair.image)?;
        let mut old = pair.client(0)?;
        expected.write(&mut old, 0..100, 1)?;
        let mut new = pair.client(1)?;
        new.flush()?;
        looks_stopped(&mut old)?;
        // The claim arrives, and the grant does not: the other guest's write fails, and the disk is
        // granted all the same.
        pair.wire.hold(1);
        let written = new.try_write(0, &[7; 4096])?;
        new.close()?;
        ensure!(written.is_err(), "it was written without a grant");
        pair.wait_until_recorded(1)?;
        pair.wire.mend();
        pair.wait_until_owned_by(1)?;
        expected.check("the guest that was stopped", &mut old)?;
        expected.write(&mut old, 50..150, 2)?;
        pair.wait_until_owned_by(0)?;
        old.flush()?;
        expected.check("the guest that goes on", &mut old)?;
        pair.flush_and_compare(&expected)?;
        pair.stop_both()
    });
}

#[test]
fn a_guest_that_was_started_twice_by_mistake_disturbs_nobody() {
    scenario(RoamingPair::TOOLS, |lab| {
        let mut pair = RoamingPair::start(lab, RoamingSettings::default())?;
        let mut expected = Expected::of(&pair.image)?;
        let mut running = pair.client(0)?;
        let mut mistake = pair.client(1)?;
        mistake.read(0, BLOCK)?;
        let ends = Arc::new(AtomicBool::new(false));
        let has_ended = Arc::clone(&ends);
        let guest = std::thread::spawn(move || -> anyhow::Result<_> {
            let mut round = 0;
            while !has_ended.load(Ordering::Relaxed) {
                round = round % 250 + 1;
                let began = Instant::now();
                expected.write(&mut running, 0..32, round)?;
                // As a database does: this looks like the last one of a guest that is stopped.
                running.flush()?;
                let took = began.elapsed();
                ensure!(took < Duration::from_secs(5), "a round took {took:?}");
            }
            Ok((running, expected))
        });
        let began = Instant::now();
        let refused = mistake.try_write(0, &[7; 4096])?;
        let took = began.elapsed();
        ends.store(true, Ordering::Relaxed);
        let joined = guest.join().map_err(|_| anyhow::anyhow!("a panic"))?;
        let (mut running, expected) = joined.context("the guest that runs")?;
        ensure!(refused.is_err(), "the second guest has written");
        let patience = Duration::from_secs(9)..Duration::from_secs(15);
        ensure!(patience.contains(&took), "it waited {took:?}");
        pair.wait_until_owned_by(0)?;
        expected.check("the guest that runs", &mut running)?;
        pair.flush_and_compare(&expected)?;
        drop(mistake);
        pair.stop_both()
    });
}

/// What an idle guest does, whose kernel flushes a journal now and then, and what QEMU does when it stops one for a move look
/// alike. But a guest that moves does not ask for its disk before.
#[test]
fn an_idle_guest_keeps_its_disk_from_one_that_waits_for_it() {
    scenario(RoamingPair::TOOLS, |lab| {
        let mut pair = RoamingPair::start(lab, RoamingSettings::default())?;
        let mut expected = Expected::of(&pair.image)?;
        let mut idle = pair.client(0)?;
        expected.write(&mut idle, 0..32, 1)?;
        let mut mistake = pair.client(1)?;
        let writing = std::thread::spawn(move || mistake.try_write(0, &[7; 4096]));
        let mut block = 32;
        while !writing.is_finished() {
            expected.write(&mut idle, block..=block, 2)?;
            idle.flush()?;
            if block.is_multiple_of(2) {
                expected.write(&mut idle, block..=block, 3)?;
            }
            block += 1;
            std::thread::park_timeout(BETWEEN_FLUSHES);
        }
        let written = writing.join().map_err(|_| anyhow::anyhow!("a panic"))??;
        ensure!(written.is_err(), "the second guest has written");
        pair.wait_until_owned_by(0)?;
        expected.check("the idle guest", &mut idle)?;
        pair.flush_and_compare(&expected)?;
        pair.stop_both()
    });
}

#[test]
fn a_new_guest_is_not_forgotten_beside_one_whose_disk_was_written_elsewhere() {
    scenario(RoamingPair::TOOLS, |lab| {
        let mut pair = RoamingPair::start(lab, RoamingSettings::default())?;
        let mut expected = Expected::of(&pair.image)?;
        let mut old = pair.client(0)?;
        expected.write(&mut old, 0..100, 1)?;
        let mut there = pair.client(1)?;
        looks_stopped(&mut old)?;
        there.write(50 * BLOCK, &block(50, 2))?;
        expected.put(50 * BLOCK, &block(50, 2));
        // It asks while the guest there runs, and so is refused until that one stops.
        let mut new = pair.client(0)?;
        let writing = std::thread::spawn(move || {
            new.write(60 * BLOCK, &block(60, 3))?;
            anyhow::Ok(new)
        });
        wait_until("the new guest to be refused", SHORT, || {
            Ok(pair.log(0)?.contains("the peer refuses"))
        })?;
        ensure!(
            old.try_write(0, &[9; 4096])?.is_err(),
            "an old guest writes"
        );
        there.close()?;
        let mut new = writing.join().map_err(|_| anyhow::anyhow!("a panic"))??;
        expected.put(60 * BLOCK, &block(60, 3));
        expected.check("the new guest", &mut new)?;
        new.flush()?;
        pair.flush_and_compare(&expected)?;
        pair.stop_both()
    });
}

#[test]
fn a_guest_keeps_its_disk_over_a_restart_of_its_daemon_though_another_one_asks() {
    scenario(RoamingPair::TOOLS, |lab| {
        let mut pair = RoamingPair::start(lab, RoamingSettings::default())?;
        let mut expected = Expected::of(&pair.image)?;
        let mut running = pair.client(0)?;
        expected.write(&mut running, 0..100, 1)?;
        running.flush()?;
        let mut mistake = pair.client(1)?;
        let writing = std::thread::spawn(move || mistake.try_write(0, &[7; 4096]));
        wait_until("the second guest to be refused", SHORT, || {
            Ok(pair.log(1)?.contains("the peer refuses"))
        })?;
        pair.kill(0)?;
        pair.start_host(0)?;
        pair.wait_until_owned_by(0)?;
        std::thread::sleep(CONNECTS_AGAIN);
        let mut running = pair.client(0)?;
        while !writing.is_finished() {
            expected.write(&mut running, 50..60, 2)?;
        }
        let written = writing.join().map_err(|_| anyhow::anyhow!("a panic"))??;
        ensure!(written.is_err(), "the second guest has written");
        pair.wait_until_owned_by(0)?;
        expected.check("the guest that runs", &mut running)?;
        pair.flush_and_compare(&expected)?;
        pair.stop_both()
    });
}

/// A guest runs at host 0, and a second one at host 1 asks for its disk and ends, which `second` does. Then the first one ends,
/// too: a guest that still waited at host 1 would get the disk.
fn second_guest_ends(
    settings: RoamingSettings,
    second: impl FnOnce(&mut RoamingPair) -> anyhow::Result<std::thread::JoinHandle<bool>>,
) {
    scenario(RoamingPair::TOOLS, |lab| {
        let mut pair = RoamingPair::start(lab, settings)?;
        let mut expected = Expected::of(&pair.image)?;
        let mut running = pair.client(0)?;
        let waiting = second(&mut pair)?;
        let mut round = 0;
        while !waiting.is_finished() {
            round = round % 250 + 1;
            expected.write(&mut running, 0..32, round)?;
            running.flush()?;
        }
        let gave_up = waiting.join().map_err(|_| anyhow::anyhow!("a panic"))?;
        ensure!(gave_up, "the second guest has got an answer");
        running.close()?;
        std::thread::sleep(NOBODY_COMES);
        pair.wait_until_owned_by(0)?;
        let log = pair.log(1)?;
        ensure!(
            log.contains("the peer refuses"),
            "the second one has not asked:\n{log}"
        );
        ensure!(
            !log.contains("the disk is here"),
            "the other host has taken it:\n{log}"
        );
        let mut running = pair.client(0)?;
        expected.check("the guest that comes back", &mut running)?;
        running.close()?;
        pair.stop_both()
    });
}

#[test]
fn a_second_guest_that_has_ended_waits_for_nothing() {
    second_guest_ends(RoamingSettings::default(), |pair| {
        let mut second = pair.client(1)?;
        second.set_patience(ENDS_SOON)?;
        Ok(std::thread::spawn(move || {
            second.try_write(0, &[7; 4096]).is_err()
        }))
    });
}

#[test]
fn a_second_guest_that_has_ended_waits_for_nothing_over_vhost_user() {
    let settings = RoamingSettings {
        vhost_user: true,
        ..RoamingSettings::default()
    };
    second_guest_ends(settings, |pair| {
        let mut second = RingGuest::connect(&pair.vhost_socket(1))?;
        second.boot()?;
        second.set_patience(ENDS_SOON);
        Ok(std::thread::spawn(move || {
            second.try_write(0, &[7; 4096]).is_err()
        }))
    });
}
