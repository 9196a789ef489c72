//! Daemons are renewed while a disk moves between them. Their guests connect anew, as QEMU does, and find what they have
//! written, wherever the disk is.

use std::time::Duration;

use e2e::{Expected, RoamingPair, RoamingSettings, scenario, wait_until};

const LIMIT: Duration = Duration::from_secs(20);
const AHEAD: &str = "cache is copied ahead";
const HERE: &str = "what the origin lacks is here";

/// Moves a disk from host 0 to host 1. A host is renewed when the other one is about to have everything, and once more when
/// the disk has just moved.
fn moves(write_policy: &'static str, dirty: &'static str, renewed: usize) {
    scenario(RoamingPair::TOOLS, |lab| {
        let settings = RoamingSettings {
            write_policy,
            dirty,
            ..RoamingSettings::default()
        };
        let mut pair = RoamingPair::start(lab, settings)?;
        let mut expected = Expected::of(&pair.image)?;
        let mut clients = [Some(pair.client(0)?), None];
        let source = clients[0].as_mut().expect("it has just been made");
        expected.write(source, (0..400).step_by(3), 1)?;
        source.flush()?;
        expected.check("the source", source)?;
        clients[1] = Some(pair.client(1)?);
        let word = if dirty == "ship" { HERE } else { AHEAD };
        wait_until(word, LIMIT, || Ok(pair.log(1)?.contains(word)))?;

        pair.host(renewed).renew()?;
        clients[renewed] = Some(pair.client(renewed)?);
        let [Some(mut source), Some(mut destination)] = clients else {
            unreachable!("each host has a client")
        };
        expected.write(&mut source, (1..400).step_by(7), 2)?;
        source.flush()?;
        expected.check("the source, when a host was renewed", &mut source)?;
        expected.check("the standby, when a host was renewed", &mut destination)?;
        pair.wait_until_owned_by(0)?;

        source.close()?;
        expected.write(&mut destination, (2..400).step_by(11), 3)?;
        pair.host(renewed).renew()?;
        if renewed == 1 {
            destination = pair.client(1)?;
        }
        pair.wait_until_owned_by(1)?;
        expected.check("the destination, when a host was renewed", &mut destination)?;
        expected.write(&mut destination, (5..400).step_by(13), 4)?;
        destination.flush()?;
        pair.flush_and_compare(&expected)?;
        destination.close()?;
        pair.stop_both()
    });
}

#[test]
fn the_source_of_a_disk_that_is_written_through() {
    moves("through", "drain", 0);
}

#[test]
fn the_destination_of_a_disk_that_is_written_through() {
    moves("through", "drain", 1);
}

#[test]
fn the_source_of_a_disk_whose_unwritten_data_go_to_the_origin() {
    moves("back", "drain", 0);
}

#[test]
fn the_destination_of_a_disk_whose_unwritten_data_go_to_the_origin() {
    moves("back", "drain", 1);
}

#[test]
fn the_source_of_a_disk_whose_unwritten_data_go_along() {
    moves("back", "ship", 0);
}

#[test]
fn the_destination_of_a_disk_whose_unwritten_data_go_along() {
    moves("back", "ship", 1);
}
