//! A disk whose origin is a unit of an iSCSI target roams between two hosts: the reservation goes with it, and a host that is
//! gone loses it by an operator's word.

use anyhow::ensure;
use e2e::{
    DiskSettings, Image, Lab, RoamingPair, RoamingSettings, SHORT, Tgt, block, hearth, scenario,
    there_and_back, wait_until,
};

const TOOLS: &[&str] = &["tgtd", "tgtadm", "openssl"];

fn start(lab: &Lab, write_policy: &'static str) -> anyhow::Result<(RoamingPair, Tgt)> {
    let image = Image::new(lab, "origin.raw", RoamingPair::IMAGE_MIB)?;
    let tgt = Tgt::start(lab, &[&image])?;
    let settings = RoamingSettings {
        write_policy,
        ..RoamingSettings::default()
    };
    let disk = DiskSettings::on_iscsi(RoamingPair::DISK, &tgt.address(1), "both");
    let pair = RoamingPair::over_disk(lab, image, disk, settings)?.started()?;
    Ok((pair, tgt))
}

fn goes_there_and_back(write_policy: &'static str) {
    scenario(TOOLS, |lab| {
        let (mut pair, _tgt) = start(lab, write_policy)?;
        there_and_back(&mut pair, write_policy == "back")?;
        pair.stop_both()
    });
}

#[test]
fn a_disk_on_a_unit_that_is_written_through_goes_there_and_back() {
    goes_there_and_back("through");
}

#[test]
fn a_disk_on_a_unit_with_unwritten_data_goes_there_and_back() {
    goes_there_and_back("back");
}

#[test]
fn a_host_that_is_gone_loses_its_reservation_by_an_operators_word() {
    scenario(TOOLS, |lab| {
        let (mut pair, _tgt) = start(lab, "through")?;
        let mut source = pair.client(0)?;
        source.write(0, &block(0, 1))?;
        pair.kill(0)?;
        let socket = pair.host(1).admin_socket().display().to_string();
        let words = [
            "--socket",
            &socket,
            "migrate",
            "take",
            RoamingPair::DISK,
            "--yes-its-owner-is-dead",
        ];
        wait_until("the disk to be taken", SHORT, || {
            Ok(hearth(&words)?.code == 0)
        })?;
        let mut destination = pair.client(1)?;
        ensure!(destination.read(0, 4096)? == block(0, 1), "an older block");
        destination.write(0, &block(0, 3))?;
        destination.flush()?;
        ensure!(
            std::fs::read(pair.image.path())?[..4096] == block(0, 3)[..],
            "it was not written"
        );
        destination.close()?;
        pair.stop(1)
    });
}
