//! A Linux guest on a vhost-user disk is live-migrated by stock QEMUs from a host to another one and back while it
//! writes, and each host serves it through a daemon of its own: it loses nothing.

use std::path::Path;
use std::process::Command;

use anyhow::ensure;
use e2e::{
    GUEST_TOOLS, Guest, GuestKit, LONG, Lab, RoamingPair, RoamingSettings, VhostUserSettings, run,
    scenario, wait_for_listener, wait_until,
};

/// How many files the guest writes, and how many each host has to see.
const FILES: u64 = 600;
const FILES_A_HOST: u64 = 30;

/// Boots a guest from the disk at a host, or lets one come there.
fn guest(
    lab: &Lab,
    kit: &GuestKit,
    pair: &RoamingPair,
    at: usize,
    (name, incoming): (&str, Option<&Path>),
) -> anyhow::Result<Guest> {
    let steps = format!(
        "write,dir=/var/probe,from=1,files={FILES},kib=16+verify,dir=/var/probe,through={FILES}"
    );
    let socket = pair.vhost_socket(at);
    let settings = VhostUserSettings {
        disks: &[&socket],
        incoming,
        ..VhostUserSettings::default()
    };
    Guest::boot_with(lab, kit, name, &steps, &settings)
}

/// Moves a running guest to the QEMU that listens at `link`, and ends the one where it was.
fn migrate(source: Guest, link: &Path) -> anyhow::Result<u64> {
    wait_for_listener(link)?;
    let mut monitor = source.monitor()?;
    monitor.begin_move(link)?;
    monitor.wait_for_move("completed")?;
    let moved_at = source.files_synced();
    drop(monitor);
    source.kill()?;
    Ok(moved_at)
}

fn goes_there_and_back(write_policy: &'static str) {
    scenario(&[GUEST_TOOLS, RoamingPair::TOOLS].concat(), |lab| {
        let kit = GuestKit::build()?;
        let settings = RoamingSettings {
            write_policy,
            flash_mib: 256,
            vhost_user: true,
            ..RoamingSettings::default()
        };
        let mut pair = RoamingPair::start_over(lab, kit.disk(lab)?, settings)?;

        let mut running = guest(lab, &kit, &pair, 0, ("first", None))?;
        for (round, there) in [1, 0].into_iter().enumerate() {
            let name = format!("guest-{round}");
            let link = lab.path(&format!("{name}.sock"));
            let target = guest(lab, &kit, &pair, there, (&name, Some(&link)))?;
            let before = running.files_synced();
            wait_until("the guest to write", LONG, || {
                Ok(running.files_synced() >= before + FILES_A_HOST)
            })?;
            let moved_at = migrate(running, &link)?;
            ensure!(
                moved_at < FILES,
                "it had written everything before it moved"
            );
            wait_until("the guest to write where it is", LONG, || {
                Ok(target.files_synced() > moved_at)
            })?;
            pair.wait_until_owned_by(there)?;
            running = target;
        }
        running.finish()?;
        pair.host(0)
            .command(&["disk", "flush", RoamingPair::DISK, "--wait"])?;
        let image = pair.image.path().to_owned();
        pair.stop_both()?;
        run(Command::new("e2fsck").args(["-f", "-y"]).arg(image)).map(drop)
    });
}

#[test]
fn with_unwritten_data() {
    goes_there_and_back("back");
}

#[test]
fn written_through() {
    goes_there_and_back("through");
}
