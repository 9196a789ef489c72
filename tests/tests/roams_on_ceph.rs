//! A disk whose origin is an image of Ceph roams between two hosts: the image's lock goes with it, and a host that is gone loses
//! the lock by an operator's word.

use anyhow::ensure;
use e2e::{
    Ceph, DiskSettings, Image, Lab, RoamingPair, RoamingSettings, SHORT, block, hearth, scenario,
    there_and_back_over, wait_until,
};

/// Two hosts over a new image, host 0 has the disk.
fn start(lab: &Lab, ceph: &Ceph, write_policy: &'static str) -> anyhow::Result<RoamingPair> {
    let bytes = Image::new(lab, "origin.raw", RoamingPair::IMAGE_MIB)?;
    let address = ceph.image_of("disk", &bytes)?;
    let disk = DiskSettings::on_rbd(RoamingPair::DISK, &address);
    let settings = RoamingSettings {
        write_policy,
        ..RoamingSettings::default()
    };
    RoamingPair::over_disk(lab, bytes, disk, settings)?.started()
}

fn goes_there_and_back(write_policy: &'static str) {
    scenario(&[Ceph::TOOLS, RoamingPair::TOOLS].concat(), |lab| {
        let ceph = Ceph::start(lab)?;
        let mut pair = start(lab, &ceph, write_policy)?;
        there_and_back_over(&mut pair, write_policy == "back", &|| ceph.bytes("disk"))?;
        pair.stop_both()
    });
}

#[test]
fn an_image_of_ceph_that_is_written_through_goes_there_and_back() {
    goes_there_and_back("through");
}

#[test]
fn an_image_of_ceph_with_unwritten_data_goes_there_and_back() {
    goes_there_and_back("back");
}

#[test]
fn a_host_that_is_gone_loses_the_images_lock_by_an_operators_word() {
    scenario(&[Ceph::TOOLS, RoamingPair::TOOLS].concat(), |lab| {
        let ceph = Ceph::start(lab)?;
        let mut pair = start(lab, &ceph, "through")?;
        let mut source = pair.client(0)?;
        source.write(0, &block(0, 1))?;
        pair.kill(0)?;
        let socket = pair.host(1).admin_socket().display().to_string();
        let take = ["--socket", &socket, "migrate", "take", RoamingPair::DISK];
        let take = [&take[..], &["--yes-its-owner-is-dead"]].concat();
        wait_until("the disk to be taken", SHORT, || {
            Ok(hearth(&take)?.code == 0)
        })?;
        let mut destination = pair.client(1)?;
        ensure!(destination.read(0, 4096)? == block(0, 1), "an older block");
        destination.write(0, &block(0, 3))?;
        destination.flush()?;
        ensure!(
            ceph.bytes("disk")?[..4096] == block(0, 3)[..],
            "it was not written"
        );
        destination.close()?;
        pair.stop(1)
    });
}
