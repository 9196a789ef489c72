//! `hearth migrate check` says whether a live migration would be right, in both directions, and if not what is in the way
//! at which host: a link that is cut, a peer that is down or does not know the disk, an origin that is away or another file,
//! a hand-over that is under way.

use anyhow::{Context as _, ensure};
use e2e::{
    Answer, DiskSettings, Flash, Hearth, HearthSettings, Image, RoamingPair, RoamingSettings,
    SHORT, Wire, hearth, scenario, wait_until,
};
use rustix::process::Signal;
use serde_json::Value;

const DISK: &str = RoamingPair::DISK;

fn ask(hearth_host: &Hearth, words: &[&str]) -> anyhow::Result<Answer> {
    let socket = hearth_host.admin_socket().display().to_string();
    let all = [&["--socket", &socket, "--json", "migrate", "check"], words].concat();
    hearth(&all)
}

/// What a host says of the disk's way to the other host.
fn check(pair: &mut RoamingPair, at: usize) -> anyhow::Result<(i32, Value)> {
    let answer = ask(pair.host(at), &[DISK, "--to", RoamingPair::NAMES[1 - at]])?;
    let said = serde_json::from_str(&answer.stdout).with_context(|| answer.stderr.clone())?;
    Ok((answer.code, said))
}

/// The codes of what is in the way, each with its host.
fn codes(said: &Value) -> Vec<(String, String)> {
    let reasons = said["disks"][0]["reasons"].as_array().cloned();
    let reasons = reasons.unwrap_or_default().into_iter();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    reasons
        .map(|reason| (text(&reason["code"]), text(&reason["host"])))
        .collect()
}

/// Waits until a host finds just this in the way.
fn until(pair: &mut RoamingPair, at: usize, expected: &[(&str, &str)]) -> anyhow::Result<Value> {
    let mut last = Value::Null;
    let wanted = expected
        .iter()
        .map(|(code, host)| ((*code).to_owned(), (*host).to_owned()));
    let wanted: Vec<(String, String)> = wanted.collect();
    let seen = wait_until("what is in the way", SHORT, || {
        let (code, said) = check(pair, at)?;
        let is_right = said["is_right"] == true;
        ensure!(
            is_right == (code == 0) && [0, 4].contains(&code),
            "{code}: {said}"
        );
        last = said;
        Ok(codes(&last) == wanted)
    });
    seen.with_context(|| last.to_string())?;
    Ok(last)
}

#[test]
fn a_disk_can_go_either_way_while_all_is_well() {
    scenario(RoamingPair::TOOLS, |lab| {
        let mut pair = RoamingPair::start(lab, RoamingSettings::default())?;
        for at in 0..2 {
            until(&mut pair, at, &[])?;
            let here = ask(pair.host(at), &[DISK, "--here"])?;
            let said = here.json()?;
            ensure!(said["to"] == RoamingPair::NAMES[at], "{said}");
        }
        // And still when it has gone there.
        pair.client(1)?.write(0, &[1; 4096])?;
        pair.wait_until_owned_by(1)?;
        for at in 0..2 {
            until(&mut pair, at, &[])?;
        }
        let text = pair
            .host(0)
            .command(&["migrate", "check", DISK, "--here"])?;
        ensure!(
            text.stdout.contains("disk: can go to node-a"),
            "{}",
            text.stdout
        );
        pair.stop_both()
    });
}

#[test]
fn a_cut_link_and_a_peer_that_is_down_or_stands_still_are_in_the_way() {
    scenario(RoamingPair::TOOLS, |lab| {
        let mut pair = RoamingPair::start(lab, RoamingSettings::default())?;
        until(&mut pair, 0, &[])?;
        pair.wire.cut();
        for at in 0..2 {
            let said = until(&mut pair, at, &[("link-down", "")])?;
            ensure!(
                said["disks"][0]["reasons"][0]["remedy"].is_string(),
                "{said}"
            );
        }
        pair.wire.mend();
        until(&mut pair, 0, &[])?;
        pair.host(1).process().pause()?;
        until(&mut pair, 0, &[("peer-silent", "")])?;
        pair.host(1).process().signal(Signal::CONT)?;
        until(&mut pair, 0, &[])?;
        pair.kill(1)?;
        until(&mut pair, 0, &[("link-down", "")])?;
        pair.start_host(1)?;
        until(&mut pair, 0, &[])?;
        pair.stop_both()
    });
}

#[test]
fn an_origin_that_is_away_or_was_resized_is_in_the_way_at_both_hosts() {
    scenario(RoamingPair::TOOLS, |lab| {
        let mut pair = RoamingPair::start(lab, RoamingSettings::default())?;
        until(&mut pair, 0, &[])?;
        let (path, away) = (
            pair.image.path().to_path_buf(),
            pair.image.path().with_extension("away"),
        );
        std::fs::rename(&path, &away)?;
        until(&mut pair, 0, &[("origin", "node-a"), ("origin", "node-b")])?;
        until(&mut pair, 1, &[("origin", "node-b"), ("origin", "node-a")])?;
        std::fs::rename(&away, &path)?;
        until(&mut pair, 0, &[])?;
        let file = std::fs::File::options().write(true).open(&path)?;
        file.set_len((RoamingPair::IMAGE_MIB + 1) << 20)?;
        until(
            &mut pair,
            0,
            &[("resized", "node-a"), ("resized", "node-b")],
        )?;
        pair.stop_both()
    });
}

#[test]
fn a_hand_over_that_is_under_way_is_waited_for() {
    scenario(RoamingPair::TOOLS, |lab| {
        let mut pair = RoamingPair::start(lab, RoamingSettings::default())?;
        until(&mut pair, 0, &[])?;
        // A guest of the owner that runs: the claim of another one is refused again and again.
        let mut guest = pair.client(0)?;
        guest.write(0, &[1; 4096])?;
        let mut second = pair.client(1)?;
        let writing = std::thread::spawn(move || second.try_write(0, &[2; 4096]));
        until(&mut pair, 0, &[("busy", "node-b")])?;
        let said = until(&mut pair, 1, &[("busy", "node-b")])?;
        let detail = said["disks"][0]["reasons"][0]["detail"].to_string();
        ensure!(
            detail.contains("claiming") && detail.contains("refuses"),
            "{detail}"
        );
        let written = writing.join().map_err(|_| anyhow::anyhow!("a panic"))??;
        ensure!(written.is_err(), "two guests write");
        until(&mut pair, 0, &[])?;
        pair.stop_both()
    });
}

/// Two hosts of which each has the same link, and disks of its own.
fn hosts_with(lab: &e2e::Lab, disks: [&[DiskSettings]; 2]) -> anyhow::Result<([Hearth; 2], Wire)> {
    let (links, wire) = e2e::linked(lab)?;
    let host = |at: usize| -> anyhow::Result<Hearth> {
        let own = lab.host(RoamingPair::NAMES[at])?;
        let flash = Flash::format(&own, "flash.img", 128)?;
        let settings = HearthSettings::new(&flash).section(&links[at]);
        let settings = disks[at].iter().fold(settings, HearthSettings::disk);
        let settings = settings.in_trouble("b");
        Hearth::start(&own, &settings)
    };
    Ok(([host(0)?, host(1)?], wire))
}

fn roaming(name: &str, id: u128, image: &Image) -> DiskSettings {
    let disk = DiskSettings::on_file(name, image.path());
    disk.key(&format!("id = '{id:032x}'\nroams = true\nvm = 'web'"))
}

#[test]
fn a_vm_can_go_if_each_of_its_disks_can() {
    scenario(RoamingPair::TOOLS, |lab| {
        let images = ["a.raw", "b.raw", "c.raw", "d.raw", "other.raw"];
        let images = images.map(|name| Image::new(lab, name, 8));
        let [a, b, c, d, other] = images;
        let (a, b, c, d, other) = (a?, b?, c?, d?, other?);
        // One goes, one has another identity there, one stays where it is, and one has another origin there.
        let still = DiskSettings::on_file("c", c.path()).key("vm = 'web'");
        let here = [
            roaming("a", 1, &a),
            roaming("b", 2, &b),
            still,
            roaming("d", 4, &d),
        ];
        let there = [
            roaming("a", 1, &a),
            roaming("b", 7, &b),
            roaming("d", 4, &other),
        ];
        let (hosts, _wire) = hosts_with(lab, [&here, &there])?;
        let expected = [
            ("a", vec!["disks-differ"]),
            ("b", vec!["disks-differ", "unknown-at-peer"]),
            ("c", vec!["does-not-roam"]),
            ("d", vec!["disks-differ", "records-differ"]),
        ];
        let mut seen = Value::Null;
        let waited = wait_until("the hosts to meet", SHORT, || {
            let answer = ask(&hosts[0], &["web", "--to", "node-b"])?;
            ensure!(answer.code == 4, "{}: {}", answer.code, answer.stderr);
            seen = serde_json::from_str(&answer.stdout)?;
            let disks = seen["disks"].as_array().context("disks")?;
            let found = disks.iter().map(|disk| {
                let reasons = disk["reasons"].as_array().cloned().unwrap_or_default();
                let codes = reasons
                    .iter()
                    .map(|one| one["code"].as_str().unwrap_or_default().to_owned());
                (
                    disk["name"].as_str().unwrap_or_default().to_owned(),
                    codes.collect::<Vec<_>>(),
                )
            });
            let wanted = expected.iter().map(|(name, codes)| {
                let codes = codes.iter().map(|code| (*code).to_owned());
                ((*name).to_owned(), codes.collect::<Vec<_>>())
            });
            Ok(found.eq(wanted))
        });
        waited.with_context(|| seen.to_string())?;
        // None of its disks goes alone.
        let one = ask(&hosts[0], &["a", "--to", "node-b"])?;
        let said: Value = serde_json::from_str(&one.stdout)?;
        let names = said["disks"].as_array().context("disks")?.iter();
        let names: Vec<_> = names.map(|disk| disk["name"].clone()).collect();
        ensure!(one.code == 4 && names == ["a", "b", "d"], "{said}");
        for hearth in hosts {
            hearth.stop()?;
        }
        Ok(())
    });
}

#[test]
fn what_is_unknown_is_exit_code_6_and_what_does_not_roam_4() {
    scenario(RoamingPair::TOOLS, |lab| {
        let flash = Flash::format(lab, "flash.img", 128)?;
        let image = Image::new(lab, "origin.raw", 8)?;
        let still = DiskSettings::on_file("still", image.path());
        let alone = Hearth::start(lab, &HearthSettings::new(&flash).disk(&still))?;
        for (words, code, kind) in [
            (&["still", "--here"][..], 4, "refused"),
            (&["still", "--to", "node-b"], 6, "no-such-peer"),
            (&["nothing", "--to", "node-b"], 6, "no-such-disk"),
        ] {
            let answer = ask(&alone, words)?;
            let error: Value = serde_json::from_str(&answer.stderr)?;
            ensure!(
                answer.code == code && error["kind"] == kind,
                "{words:?}: {error}"
            );
            ensure!(error["remedy"].is_string(), "{words:?}: {error}");
        }
        alone.stop()?;
        let mut pair = RoamingPair::start(lab, RoamingSettings::default())?;
        let answer = ask(pair.host(0), &[DISK, "--to", "node-a"])?;
        ensure!(answer.code == 6, "{}", answer.stderr);
        ensure!(
            answer.stderr.contains("its peer is 'node-b'"),
            "{}",
            answer.stderr
        );
        pair.stop_both()
    });
}
