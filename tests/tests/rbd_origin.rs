//! Disks on images of a real Ceph cluster: attached by their address, written through and back, by one host at a time. A
//! daemon that was killed has its disks again at once, although the cluster believes for half a minute that it lives. The
//! parent of clones is a base image of the VMs that have them.

use std::time::Instant;

use anyhow::ensure;
use e2e::{
    Ceph, DiskSettings, Flash, Hearth, HearthSettings, LONG, block, check_config, nbdsh, reads,
    scenario, wait_until, writes,
};
use rustix::process::Signal;

/// How long the cluster takes to notice that a client is gone.
const WATCH_TIMEOUT_SECONDS: u64 = 30;

#[test]
fn an_image_of_ceph_is_written_by_one_host_at_a_time_and_survives_its_daemon() {
    scenario(&[Ceph::TOOLS, &["nbdsh"]].concat(), |lab| {
        let ceph = Ceph::start(lab)?;
        let through = ceph.image("through", 64)?;
        let back = ceph.image("back", 64)?;
        let flash = Flash::format(lab, "flash.img", 256)?;
        let settings = HearthSettings::new(&flash)
            .disk(&DiskSettings::on_rbd("through", &through))
            .disk(&DiskSettings::on_rbd("back", &back).keeping_dirty(32));
        let hearth = Hearth::start(lab, &settings)?;
        nbdsh(Some(&hearth.uri("through")), &writes(0, 40, 3))?;
        nbdsh(Some(&hearth.uri("back")), &writes(0, 40, 4))?;
        ensure!(
            ceph.bytes("through")?[4096..8192] == block(1, 3),
            "it was written through"
        );
        ensure!(
            ceph.bytes("back")?[4096..8192] == [0; 4096],
            "it waits on flash"
        );

        // Another host is refused, and told by whom.
        let elsewhere = lab.host("elsewhere")?;
        let other_flash = Flash::format(&elsewhere, "flash.img", 256)?;
        let other = Hearth::start(&elsewhere, &HearthSettings::new(&other_flash))?;
        let attach = ["disk", "attach", "through", "--origin", &through];
        let refused = other.refused_command(&attach)?.stderr;
        ensure!(refused.contains("in use by client."), "{refused}");

        // A killed daemon's client lives on in the cluster for half a minute; its disks do not wait for that.
        hearth.kill()?;
        let checked = check_config(&settings.write(lab)?)?;
        ensure!(checked.code == 0, "{}", checked.stderr);
        let began = Instant::now();
        let hearth = Hearth::start(lab, &settings)?;
        let (of_through, of_back) = (hearth.uri("through"), hearth.uri("back"));
        nbdsh(Some(&of_through), &(reads(0, 40, 3) + &writes(40, 10, 5)))?;
        nbdsh(Some(&of_back), &(reads(0, 40, 4) + &writes(40, 10, 6)))?;
        ensure!(
            began.elapsed().as_secs() < WATCH_TIMEOUT_SECONDS,
            "it waited for the cluster"
        );

        stands_still(&ceph, &hearth)?;
        has_a_snapshot(&ceph, &hearth, &back)?;
        grows(&ceph, &hearth)?;
        clones_have_a_base_image(&ceph, [&hearth, &other])?;

        // It goes to the other host as soon as it is detached here.
        hearth.command(&["disk", "detach", "through"])?;
        other.command(&attach)?;
        nbdsh(
            Some(&other.uri("through")),
            &(reads(0, 40, 3) + &reads(40, 10, 5)),
        )?;
        hearth.stop()?;
        wait_until("the image to be let go", LONG, || {
            Ok(ceph
                .run(&["rbd", "status", "rbd/back"])?
                .contains("Watchers: none"))
        })?;
        other.stop()?;
        Ok(())
    });
}

/// The cluster stands still: what is cached is served, and nothing is lost.
fn stands_still(ceph: &Ceph, hearth: &Hearth) -> anyhow::Result<()> {
    ceph.signal("osd", Signal::STOP)?;
    nbdsh(Some(&hearth.uri("through")), &reads(0, 40, 3))?;
    nbdsh(
        Some(&hearth.uri("back")),
        &(reads(0, 40, 4) + &writes(50, 10, 7)),
    )?;
    ceph.signal("osd", Signal::CONT)?;
    hearth.command(&["disk", "flush", "back", "--wait"])?;
    let bytes = ceph.bytes("back")?;
    for (number, round) in [(1, 4), (40, 6), (59, 7)] {
        let at = usize::try_from(number)? * 4096;
        ensure!(
            bytes[at..at + 4096] == block(number, round),
            "block {number} of the image"
        );
    }
    Ok(())
}

/// A snapshot after a barrier has all that was answered.
fn has_a_snapshot(ceph: &Ceph, hearth: &Hearth, back: &str) -> anyhow::Result<()> {
    nbdsh(Some(&hearth.uri("back")), &writes(60, 10, 8))?;
    hearth.command(&["disk", "barrier", "back"])?;
    ceph.run(&["rbd", "snap", "create", "--no-progress", "rbd/back@nightly"])?;
    let nightly = format!(
        "rbd:rbd/back@nightly?{}",
        back.split_once('?').map_or("", |(_, query)| query)
    );
    hearth.command(&[
        "disk",
        "attach",
        "nightly",
        "--read-only",
        "--origin",
        &nightly,
    ])?;
    nbdsh(Some(&hearth.uri("nightly")), &reads(60, 10, 8))?;
    hearth.command(&["disk", "detach", "nightly"])?;
    Ok(())
}

/// The parent of two clones is a base image: on two hosts at once, and kept once for both VMs of a host. Each VM writes its clone.
fn clones_have_a_base_image(ceph: &Ceph, hosts: [&Hearth; 2]) -> anyhow::Result<()> {
    const WRITING: u64 = 10;
    let golden = ceph.image("golden", 64)?;
    let [here, _] = hosts;
    here.command(&["disk", "attach", "golden", "--origin", &golden])?;
    nbdsh(Some(&here.uri("golden")), &writes(0, 40, 9))?;
    here.command(&["disk", "detach", "golden"])?;
    ceph.run(&["rbd", "snap", "create", "--no-progress", "rbd/golden@v1"])?;
    ceph.run(&["rbd", "snap", "protect", "rbd/golden@v1"])?;

    let parent = golden.replace("golden?", "golden@v1?");
    for host in hosts {
        host.command(&["disk", "attach", "debian", "--shared", "--origin", &parent])?;
    }
    for (vm, host) in ["web", "db", "mail"].into_iter().zip([0, 0, 1]) {
        let clone = ceph.clone_of("golden@v1", vm)?;
        hosts[host].command(&["disk", "attach", vm, "--origin", &clone])?;
        hosts[host].command(&["vm", "set", vm, "--image", "debian"])?;
        let of_image = hosts[host].uri(&format!("debian@{vm}"));
        nbdsh(Some(&of_image), &reads(0, 40, 9))?;
        let of_clone = hosts[host].uri(vm);
        nbdsh(
            Some(&of_clone),
            &(reads(0, 40, 9) + &writes(0, WRITING, 10)),
        )?;
        nbdsh(Some(&of_image), &reads(0, 40, 9))?;
    }
    let db = here.json(&["vm", "show", "db"])?;
    ensure!(db["images"][0]["saved_blocks"] == 40, "{db}");
    let clone = ceph.bytes("web")?;
    ensure!(
        clone[..4096] == block(0, 10),
        "the clone has what its VM wrote"
    );
    let untouched = usize::try_from(WRITING * 4096)?;
    ensure!(
        clone[untouched..untouched + 4096] == block(WRITING, 9),
        "the clone has the rest of its parent"
    );
    Ok(())
}

/// A grown image is grown in use.
fn grows(ceph: &Ceph, hearth: &Hearth) -> anyhow::Result<()> {
    ceph.run(&[
        "rbd",
        "resize",
        "--no-progress",
        "--size",
        "128M",
        "rbd/through",
    ])?;
    hearth.command(&["disk", "resize", "through"])?;
    nbdsh(
        Some(&hearth.uri("through")),
        "assert h.get_size() == 128 << 20\nh.pwrite(b'n' * 4096, 100 << 20)",
    )?;
    Ok(())
}
