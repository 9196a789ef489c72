//! A disk whose origin is an NBD export roams between two hosts that share a folder of owner's records: it goes there
//! and back, also amid faults, and waits for a server that is away. It is not given away while a write of its last host may
//! still land, and where that host is gone for good, requests wait as long.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use e2e::{
    Expected, HeldOrigin, HeldServer, Image, Lab, Origin, OriginSettings, Relay, RoamingPair,
    RoamingSettings, SHORT, Session, block, hearth, moves, scenario, there_and_back, wait_until,
};

const KEYS: &str = RoamingPair::EXPORT_KEYS;
/// How long the server may go on with a write whose connection has ended, where a test waits for that.
const SETTLE_TIME: Duration = Duration::from_secs(5);
const SLOW_KEYS: &str =
    "reconnect_pause_max = '200ms', request_timeout = '60s', settle_time = '5s'";
const TOOLS: &[&str] = &["nbdkit", "openssl"];

fn start(lab: &Lab, write_policy: &'static str) -> anyhow::Result<(RoamingPair, Origin)> {
    let image = Image::new(lab, "origin.raw", RoamingPair::IMAGE_MIB)?;
    let origin = Origin::start(lab, &image, OriginSettings::default())?;
    let settings = RoamingSettings {
        write_policy,
        ..RoamingSettings::default()
    };
    let pair = RoamingPair::over_export(lab, image, (&origin.uri(), KEYS), settings)?.started()?;
    Ok((pair, origin))
}

fn goes_there_and_back(write_policy: &'static str) {
    scenario(TOOLS, |lab| {
        let (mut pair, _origin) = start(lab, write_policy)?;
        there_and_back(&mut pair, write_policy == "back")?;
        pair.stop_both()
    });
}

#[test]
fn a_disk_on_an_export_that_is_written_through_goes_there_and_back() {
    goes_there_and_back("through");
}

#[test]
fn a_disk_on_an_export_with_unwritten_data_goes_there_and_back() {
    goes_there_and_back("back");
}

#[test]
fn a_server_that_is_away_holds_the_disk_and_loses_nothing() {
    scenario(TOOLS, |lab| {
        let (mut pair, mut origin) = start(lab, "back")?;
        let mut expected = Expected::of(&pair.image)?;
        let mut source = pair.client(0)?;
        expected.write(&mut source, 0..300, 1)?;
        source.flush()?;
        origin.kill()?;
        expected.write(&mut source, (0..300).step_by(5), 2)?;
        source.flush()?;
        source.close()?;
        let mut destination = pair.client(1)?;
        let before = pair.record()?;
        let writing = std::thread::spawn(move || {
            let written = destination.write(0, &block(0, 3));
            (destination, written)
        });
        // What the origin lacks cannot go there.
        std::thread::sleep(Duration::from_secs(3));
        ensure!(pair.record()? == before, "it was given away");
        origin.restart(lab)?;
        let (mut destination, written) = writing.join().map_err(|_| anyhow::anyhow!("a panic"))?;
        written?;
        expected.put(0, &block(0, 3));
        pair.wait_until_owned_by(1)?;
        expected.check("the destination", &mut destination)?;
        pair.flush_and_compare(&expected)?;
        destination.close()?;
        pair.stop_both()
    });
}

#[test]
fn a_vm_that_moves_amid_faults_loses_nothing() {
    scenario(TOOLS, |lab| {
        let settings = RoamingSettings {
            on_export: true,
            ..RoamingSettings::default()
        };
        let moved = moves(lab, 10, 7, settings, &mut |_| {})?;
        let faults = moved.cuts + moved.kills[0] + moved.kills[1];
        ensure!(faults > 0 && moved.cancelled > 0, "{moved:?}");
        Ok(())
    });
}

/// Two hosts over a server that holds writes, behind a relay that can be cut.
fn start_held(
    lab: &Lab,
    server: HeldServer,
    keys: &str,
) -> anyhow::Result<(RoamingPair, HeldOrigin, Relay)> {
    let held = HeldOrigin::start(lab, RoamingPair::IMAGE_MIB, server)?;
    let relay = Relay::start(lab.path("relay.sock"), held.socket().to_path_buf())?;
    let uri = format!("nbd+unix:///disk?socket={}", relay.socket().display());
    let settings = RoamingSettings {
        write_policy: "through",
        ..RoamingSettings::default()
    };
    let image = Image::existing(held.image().path())?;
    let pair = RoamingPair::over_export(lab, image, (&uri, keys), settings)?.started()?;
    Ok((pair, held, relay))
}

/// Checks that the origin has a write of the host that has the disk now, and not an older one.
fn origin_has(pair: &mut RoamingPair, client: &mut Session, round: u8) -> anyhow::Result<()> {
    client.flush()?;
    let bytes = std::fs::read(pair.image.path()).context("the image")?;
    ensure!(
        bytes[..4096] == block(0, round)[..],
        "an older write landed"
    );
    Ok(())
}

#[test]
fn a_write_that_was_given_up_keeps_the_disk_where_it_is() {
    let tools = [HeldOrigin::TOOLS, RoamingPair::TOOLS].concat();
    scenario(&tools, |lab| {
        let keys = "reconnect_pause_max = '200ms', request_timeout = '1s', settle_time = '1s'";
        let (mut pair, held, _relay) = start_held(lab, HeldServer::Nbdkit, keys)?;
        let mut source = pair.client(0)?;
        source.write(0, &block(0, 1))?;
        held.hold_next_write()?;
        ensure!(source.write(0, &block(0, 2)).is_err(), "the server held it");
        held.wait_until_held()?;
        source.close()?;
        let before = pair.record()?;
        let mut destination = pair.client(1)?;
        // Its patience ends first.
        ensure!(
            destination.write(0, &block(0, 3)).is_err(),
            "it has the disk"
        );
        ensure!(pair.record()? == before, "it was given away");
        let check = pair.host(0).json(&[
            "migrate",
            "check",
            RoamingPair::DISK,
            "--to",
            RoamingPair::NAMES[1],
        ]);
        ensure!(format!("{check:?}").contains("late-writes"), "{check:?}");
        held.release()?;
        wait_until("the destination to have the disk", SHORT, || {
            Ok(destination.write(0, &block(0, 3)).is_ok())
        })?;
        pair.wait_until_owned_by(1)?;
        origin_has(&mut pair, &mut destination, 3)?;
        destination.close()?;
        pair.stop_both()
    });
}

fn a_write_that_was_cut_off_keeps_the_disk(server: HeldServer) {
    let tools = [HeldOrigin::TOOLS, RoamingPair::TOOLS].concat();
    scenario(&tools, |lab| {
        let (mut pair, held, relay) = start_held(lab, server, SLOW_KEYS)?;
        let mut source = pair.client(0)?;
        source.write(0, &block(0, 1))?;
        held.hold_next_write()?;
        let writing = std::thread::spawn(move || {
            let written = source.write(0, &block(0, 2));
            (source, written)
        });
        held.wait_until_held()?;
        let cut = Instant::now();
        relay.cut();
        // It is sent again, and answered; the server still has the first attempt.
        let (source, written) = writing.join().map_err(|_| anyhow::anyhow!("a panic"))?;
        written?;
        source.close()?;
        let before = pair.record()?;
        let mut destination = pair.client(1)?;
        let writing = std::thread::spawn(move || {
            wait_until("the destination to have the disk", SHORT, || {
                Ok(destination.write(0, &block(0, 3)).is_ok())
            })?;
            anyhow::Ok(destination)
        });
        std::thread::sleep(SETTLE_TIME / 2);
        ensure!(pair.record()? == before, "it was given away");
        held.release()?;
        let destination = writing.join().map_err(|_| anyhow::anyhow!("a panic"))?;
        ensure!(cut.elapsed() >= SETTLE_TIME, "it came too early");
        pair.wait_until_owned_by(1)?;
        origin_has(&mut pair, &mut destination?, 3)?;
        pair.stop_both()
    });
}

#[test]
fn a_write_that_was_cut_off_keeps_the_disk_where_it_is() {
    a_write_that_was_cut_off_keeps_the_disk(HeldServer::Nbdkit);
}

#[test]
fn a_write_that_was_cut_off_keeps_the_disk_where_it_is_with_qemu_as_the_server() {
    a_write_that_was_cut_off_keeps_the_disk(HeldServer::Qemu);
}

#[test]
fn requests_wait_for_what_a_host_that_is_gone_may_have_left_in_the_servers_hands() {
    let tools = [HeldOrigin::TOOLS, RoamingPair::TOOLS].concat();
    scenario(&tools, |lab| {
        let (mut pair, held, _relay) = start_held(lab, HeldServer::Qemu, SLOW_KEYS)?;
        let mut source = pair.client(0)?;
        source.write(0, &block(0, 1))?;
        held.hold_next_write()?;
        let writing = std::thread::spawn(move || source.write(0, &block(0, 2)));
        held.wait_until_held()?;
        pair.kill(0)?;
        let written = writing.join().map_err(|_| anyhow::anyhow!("a panic"))?;
        ensure!(written.is_err(), "it was answered");
        let socket = pair.host(1).admin_socket().display().to_string();
        let words = [
            "--socket",
            &socket,
            "migrate",
            "take",
            RoamingPair::DISK,
            "--yes-its-owner-is-dead",
        ];
        let mut taken = Instant::now();
        wait_until("the disk to be taken", SHORT, || {
            taken = Instant::now();
            Ok(hearth(&words)?.code == 0)
        })?;
        let mut destination = pair.client(1)?;
        let writing = std::thread::spawn(move || {
            let written = destination.write(0, &block(0, 3));
            (destination, written)
        });
        std::thread::sleep(SETTLE_TIME / 2);
        ensure!(!writing.is_finished(), "it was not waited for");
        held.release()?;
        let (mut destination, written) = writing.join().map_err(|_| anyhow::anyhow!("a panic"))?;
        written?;
        ensure!(taken.elapsed() >= SETTLE_TIME, "it came too early");
        origin_has(&mut pair, &mut destination, 3)?;
        pair.stop(1)
    });
}
