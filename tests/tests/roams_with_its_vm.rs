//! A disk that two hosts list goes to the one whose guest writes: until then that one reads what the other
//! has, bytes included that the origin lacks; afterwards the other has nothing. And back again. Hosts that do
//! not know of each other are a negative control: what verifies a move notices.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use e2e::{
    Expected, Lab, RoamingPair, RoamingSettings, Session, block, scenario, there_and_back,
    wait_until,
};

fn goes_there_and_back(write_policy: &'static str) {
    scenario(RoamingPair::TOOLS, |lab| {
        let settings = RoamingSettings {
            write_policy,
            ..RoamingSettings::default()
        };
        let mut pair = RoamingPair::start(lab, settings)?;
        there_and_back(&mut pair, write_policy == "back")?;
        pair.stop_both()
    });
}

#[test]
fn a_disk_with_unwritten_data_goes_there_and_back() {
    goes_there_and_back("back");
}

#[test]
fn a_disk_that_is_written_through_goes_there_and_back() {
    goes_there_and_back("through");
}

#[test]
fn what_is_dirty_goes_to_the_origin_when_a_guest_comes_at_the_other_host() {
    scenario(RoamingPair::TOOLS, |lab| {
        let settings = RoamingSettings {
            write_policy: "back",
            ..RoamingSettings::default()
        };
        let mut pair = RoamingPair::start(lab, settings)?;
        let mut expected = Expected::of(&pair.image)?;
        let mut source = pair.client(0)?;
        expected.write(&mut source, 0..300, 1)?;
        pair.wait_until_owned_by(0)?;
        let has_all = |pair: &RoamingPair, expected: &Expected| {
            let at_origin = std::fs::read(pair.image.path())?;
            anyhow::Ok(expected.compare("the origin", &at_origin).is_ok())
        };
        ensure!(
            !has_all(&pair, &expected)?,
            "the origin lacks what was just written"
        );
        let destination = pair.client(1)?;
        let limit = Duration::from_secs(10);
        wait_until("the origin to have all", limit, || {
            has_all(&pair, &expected)
        })?;
        // And what is written from then on.
        expected.write(&mut source, 200..400, 2)?;
        wait_until("the origin to have more", limit, || {
            has_all(&pair, &expected)
        })?;
        destination.close()?;
        source.close()?;
        pair.stop_both()
    });
}

#[test]
fn a_disk_that_is_written_around_goes_there_and_back() {
    goes_there_and_back("around");
}

#[test]
fn guests_that_come_while_the_disk_does_are_let_in() {
    scenario(RoamingPair::TOOLS, |lab| {
        let mut pair = RoamingPair::start(lab, RoamingSettings::default())?;
        for there in [1, 0, 1] {
            let mut guest = pair.client(there)?;
            let socket = pair.host(there).nbd_socket().to_path_buf();
            let writing = std::thread::spawn(move || {
                guest.write(0, &block(0, 1))?;
                guest.close()
            });
            while !writing.is_finished() {
                Session::open(&socket, RoamingPair::DISK)?.close()?;
                // A disk has places for 16 clients, and those that have just gone keep theirs for a moment.
                std::thread::sleep(Duration::from_millis(5));
            }
            writing.join().map_err(|_| anyhow::anyhow!("a panic"))??;
            pair.wait_until_owned_by(there)?;
        }
        pair.stop_both()
    });
}

/// Two hosts that use one export without a word to each other.
fn strangers(lab: &Lab, write_policy: &'static str) -> anyhow::Result<RoamingPair> {
    let settings = RoamingSettings {
        write_policy,
        roams: false,
        ..RoamingSettings::default()
    };
    let mut pair = RoamingPair::new(lab, settings)?;
    pair.start_host(0)?;
    pair.start_host(1)?;
    Ok(pair)
}

fn is_noticed(checked: anyhow::Result<()>) -> anyhow::Result<()> {
    let said = checked.err().context("it was not noticed")?;
    let said = format!("{said:#}");
    ensure!(said.contains("blocks differ"), said);
    Ok(())
}

#[test]
fn without_a_hand_over_the_destination_is_seen_to_lack_what_waits_at_the_source() {
    scenario(&["nbdkit", "openssl"], |lab| {
        let mut pair = strangers(lab, "back")?;
        let mut expected = Expected::of(&pair.image)?;
        let (mut source, mut destination) = (pair.client(0)?, pair.client(1)?);
        expected.write(&mut source, (0..400).step_by(3), 1)?;
        source.flush()?;
        expected.check("the source", &mut source)?;
        is_noticed(expected.check("the destination", &mut destination))?;
        source.close()?;
        expected.write(&mut destination, (2..400).step_by(11), 2)?;
        is_noticed(expected.check("the destination", &mut destination))?;
        destination.flush()?;
        pair.host(1)
            .command(&["disk", "flush", RoamingPair::DISK, "--wait"])?;
        let at_origin = std::fs::read(pair.image.path())?;
        is_noticed(expected.compare("the origin", &at_origin))
    });
}

#[test]
fn without_a_hand_over_the_source_is_seen_to_keep_what_was_changed_elsewhere() {
    scenario(&["nbdkit", "openssl"], |lab| {
        let mut pair = strangers(lab, "through")?;
        let mut expected = Expected::of(&pair.image)?;
        let (mut source, mut destination) = (pair.client(0)?, pair.client(1)?);
        expected.write(&mut source, (0..400).step_by(3), 1)?;
        source.flush()?;
        expected.check("the source", &mut source)?;
        source.close()?;
        expected.write(&mut destination, (0..400).step_by(6), 2)?;
        destination.flush()?;
        expected.check("the destination", &mut destination)?;
        is_noticed(expected.check("the source", &mut pair.client(0)?))
    });
}
