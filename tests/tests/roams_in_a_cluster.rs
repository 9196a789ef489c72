//! A disk on an export roams between two hosts of a cluster whose state is in etcd: it goes there and back, stays where
//! it is while etcd stands still, and is taken from a host that is gone only when the cluster hears of it no more.

use anyhow::ensure;
use e2e::{
    Etcd, Expected, Image, Lab, Origin, OriginSettings, RoamingPair, RoamingSettings, SHORT, block,
    scenario, there_and_back, wait_until,
};
use std::time::Duration;

const TOOLS: &[&str] = &["etcd", "etcdctl", "nbdkit", "openssl"];

fn start(lab: &Lab, write_policy: &'static str) -> anyhow::Result<(RoamingPair, Origin)> {
    let etcd = Etcd::start(lab, 1)?;
    let image = Image::new(lab, "origin.raw", RoamingPair::IMAGE_MIB)?;
    let origin = Origin::start(lab, &image, OriginSettings::default())?;
    let settings = RoamingSettings {
        write_policy,
        ..RoamingSettings::default()
    };
    let pair = RoamingPair::in_cluster(lab, etcd, &origin.uri(), settings, image)?.started()?;
    Ok((pair, origin))
}

#[test]
fn a_disk_goes_there_and_back() {
    for write_policy in ["through", "back"] {
        scenario(TOOLS, |lab| {
            let (mut pair, _origin) = start(lab, write_policy)?;
            there_and_back(&mut pair, write_policy == "back")?;
            for at in [0, 1] {
                let status = pair.host(at).json(&["cluster", "status"])?;
                let disk = &status["disks"][0];
                ensure!(disk["host"] == RoamingPair::NAMES[1], "{status}");
            }
            pair.stop_both()
        });
    }
}

#[test]
fn while_etcd_stands_still_a_disk_stays_where_it_is() {
    scenario(TOOLS, |lab| {
        let (mut pair, _origin) = start(lab, "back")?;
        let mut expected = Expected::of(&pair.image)?;
        let mut source = pair.client(0)?;
        expected.write(&mut source, 0..50, 1)?;
        source.flush()?;
        pair.etcd().pause()?;
        let mut destination = pair.client(1)?;
        expected.check("the destination", &mut destination)?;
        source.close()?;
        let refused = destination.write(0, &block(0, 9));
        ensure!(refused.is_err(), "it was given away without a record");
        destination.close()?;
        ensure!(pair.is_owner(0)? && !pair.is_owner(1)?);
        // The VM goes on where it was.
        let mut source = pair.client(0)?;
        expected.write(&mut source, 20..70, 2)?;
        source.flush()?;
        expected.check("the source", &mut source)?;
        source.close()?;
        pair.etcd().go_on()?;
        let mut destination = pair.client(1)?;
        wait_until("the destination to get the disk", SHORT, || {
            Ok(destination.write(0, &block(0, 3)).is_ok())
        })?;
        expected.put(0, &block(0, 3));
        pair.wait_until_owned_by(1)?;
        expected.check("the destination", &mut destination)?;
        destination.flush()?;
        pair.flush_and_compare(&expected)?;
        destination.close()?;
        pair.stop_both()
    });
}

/// The record has said where the disk may go: then etcd may stand still, and either daemon be killed.
#[test]
fn a_move_that_was_foreseen_needs_no_etcd() {
    for write_policy in ["through", "back"] {
        scenario(TOOLS, |lab| {
            let (mut pair, _origin) = start(lab, write_policy)?;
            let mut expected = Expected::of(&pair.image)?;
            let mut source = pair.client(0)?;
            expected.write(&mut source, 0..50, 1)?;
            source.flush()?;
            let mut destination = pair.client(1)?;
            let read = pair
                .lab(1)
                .path(&format!("state/owners/{}.next", RoamingPair::ID));
            wait_until("node-b to read that it may have the disk", SHORT, || {
                Ok(read.exists())
            })?;
            let status = pair.host(1).json(&["cluster", "status"])?;
            ensure!(status["disks"][0]["may_go_to"] == "node-b", "{status}");
            pair.etcd().pause()?;
            expected.write(&mut source, 20..60, 2)?;
            source.flush()?;
            source.close()?;
            expected.write(&mut destination, 40..80, 3)?;
            destination.flush()?;
            pair.wait_until_owned_by(1)?;
            expected.check("the destination", &mut destination)?;
            destination.close()?;
            for (at, told) in [(0, "went to the peer"), (1, "is attached here")] {
                let shown = pair.shown(at)?;
                let reason = shown["reason"].as_str().unwrap_or_default();
                ensure!(reason.contains(told), "{shown}");
            }
            for at in [1, 0] {
                pair.kill(at)?;
                pair.start_host_in_trouble(at)?;
            }
            pair.wait_until_owned_by(1)?;
            let mut destination = pair.client(1)?;
            expected.check("the destination's next daemon", &mut destination)?;
            expected.write(&mut destination, 60..90, 4)?;
            destination.flush()?;
            pair.etcd().go_on()?;
            wait_until("etcd to be told by both hosts", SHORT, || {
                let (host, _) = pair.record()?;
                let owing =
                    [pair.shown(0)?, pair.shown(1)?].map(|shown| shown["owes_record"] == true);
                Ok(host == "node-b" && owing == [false; 2])
            })?;
            destination.close()?;
            // And back, with etcd.
            let mut source = pair.client(0)?;
            expected.write(&mut source, 80..100, 5)?;
            source.flush()?;
            pair.wait_until_owned_by(0)?;
            expected.check("the source", &mut source)?;
            pair.flush_and_compare(&expected)?;
            source.close()?;
            pair.stop_both()
        });
    }
}

#[test]
fn a_disk_is_taken_from_a_host_that_is_not_heard_of() {
    scenario(TOOLS, |lab| {
        let (mut pair, _origin) = start(lab, "through")?;
        let mut expected = Expected::of(&pair.image)?;
        let mut source = pair.client(0)?;
        expected.write(&mut source, 0..50, 1)?;
        source.flush()?;
        source.close()?;
        wait_until("both hosts to be heard of", SHORT, || {
            let status = pair.host(1).json(&["cluster", "status"])?;
            Ok(status["hosts"]
                .as_array()
                .is_some_and(|hosts| hosts.len() == 2))
        })?;
        pair.kill(0)?;
        let take = [
            "migrate",
            "take",
            RoamingPair::DISK,
            "--yes-its-owner-is-dead",
        ];
        let mut refused = String::new();
        wait_until("its session to have ended", SHORT, || {
            refused = pair.host(1).refused_command(&take)?.stderr;
            Ok(!refused.contains("session"))
        })?;
        ensure!(
            refused.contains("was heard of in the cluster's store"),
            "{refused}"
        );
        wait_until("its lease to end", Duration::from_mins(1), || {
            let status = pair.host(1).json(&["cluster", "status"])?;
            Ok(status["hosts"]
                .as_array()
                .is_some_and(|hosts| hosts.len() == 1))
        })?;
        pair.host(1).command(&take)?;
        pair.wait_until_owned_by(1)?;
        let mut destination = pair.client(1)?;
        expected.check("the host that took it", &mut destination)?;
        expected.write(&mut destination, 10..60, 2)?;
        destination.flush()?;
        destination.close()?;
        // The host that was gone stands by, and does not have it.
        pair.start_host(0)?;
        pair.wait_until_owned_by(1)?;
        pair.stop_both()
    });
}
