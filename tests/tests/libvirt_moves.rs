//! `virsh migrate --live` between two daemons of libvirt, each beside a Hearth of its own and with the packaged hook: the
//! guest's database goes on with each front end, there and back. While the link is cut the hook lets libvirt cancel the
//! migration with the reason, and the guest goes on where it is. libvirt tells the monitor what the VM was given.

use std::path::Path;
use std::process::Command;

use anyhow::ensure;
use e2e::{
    CrashedExt4, GUEST_TOOLS, GuestKit, LONG, Lab, Libvirt, Process, RoamingPair, RoamingSettings,
    SHORT, free_port, hearth_program, is_root, run, run_expecting_failure, scenario, wait_until,
};

/// A VM of one disk has its name.
const VM: &str = Libvirt::VM;

/// `virsh migrate` to another one, where the VM has this definition.
fn migration(from: &Libvirt, to: &Libvirt, definition: &Path) -> anyhow::Result<Command> {
    let mut command = Command::new("virsh");
    command
        .args([
            "-c",
            from.uri(),
            "migrate",
            "--live",
            "--bandwidth",
            "2000",
            VM,
        ])
        .args(["--desturi", to.uri()])
        .args(["--migrateuri", &format!("tcp://127.0.0.1:{}", free_port()?)])
        .arg("--xml")
        .arg(definition);
    Ok(command)
}

/// The monitor asks libvirt what the VM was given.
fn is_known_to_the_monitor(pair: &mut RoamingPair, libvirt: &Libvirt) -> anyhow::Result<()> {
    let reads_by_qemu = !pair.is_vhost_user();
    let mut monitor = Command::new(hearth_program()?);
    monitor
        .args(["monitor", "--every", "200ms", "--socket"])
        .arg(pair.host(0).admin_socket())
        .arg(format!("--libvirt={}", libvirt.uri()));
    let monitor = Process::start(pair.lab(0), "monitor", &mut monitor)?;
    wait_until("libvirt's figures", LONG, || {
        let known = pair.host(0).json(&["resources"])?;
        let vm = &known["samples"][0]["vms"][0];
        let reads = vm["block"]["reads"].as_u64();
        Ok(vm["vm"] == VM
            && vm["vcpus"] == 1
            && vm["given_memory_bytes"] == Libvirt::MEMORY_MIB << 20
            && (!reads_by_qemu || reads > Some(0)))
    })?;
    monitor.terminate()?;
    Ok(())
}

fn goes_there_and_back(lab: &Lab, vhost_user: bool) -> anyhow::Result<()> {
    let kit = GuestKit::build()?;
    let settings = RoamingSettings {
        vhost_user,
        flash_mib: 512,
        ..RoamingSettings::default()
    };
    let mut pair = RoamingPair::start_over(lab, kit.disk(lab)?, settings)?;
    let libvirts = [Libvirt::start(&mut pair, 0)?, Libvirt::start(&mut pair, 1)?];
    let mut definitions = Vec::new();
    for (at, libvirt) in libvirts.iter().enumerate() {
        definitions.push(libvirt.define(&mut pair, at, &kit)?);
    }
    let first = definitions[0].display().to_string();
    libvirts[0].virsh(&["create", &first])?;
    let mut through = libvirts[0].wait_for_transactions(0)?;
    is_known_to_the_monitor(&mut pair, &libvirts[0])?;
    // Nothing is lost by a migration that would not be right.
    pair.wire.cut();
    wait_until("the hosts to have lost each other", SHORT, || {
        let shown = pair.host(1).json(&["migrate", "show", RoamingPair::DISK])?;
        Ok(shown["peer"]["stands"] == false)
    })?;
    let mut refused = migration(&libvirts[0], &libvirts[1], &definitions[1])?;
    let said = run_expecting_failure(&mut refused)?.stderr;
    ensure!(said.contains("link-down"), "{said}");
    through = libvirts[0].wait_for_transactions(through)?;
    pair.wire.mend();
    wait_until("the hosts to have met", SHORT, || {
        let shown = pair.host(1).json(&["migrate", "show", RoamingPair::DISK])?;
        Ok(shown["peer"]["stands"] == true)
    })?;
    for (here, there) in [(0, 1), (1, 0)] {
        // Its next QEMU begins this file anew.
        let _ = std::fs::remove_file(libvirts[there].console_path());
        libvirts[here].move_in_one_pass()?;
        run(&mut migration(
            &libvirts[here],
            &libvirts[there],
            &definitions[there],
        )?)?;
        through = through.max(libvirts[here].committed());
        through = libvirts[there].wait_for_transactions(through)?;
        pair.wait_until_owned_by(there)?;
    }
    libvirts[0].virsh(&["destroy", VM])?;
    through = through.max(libvirts[0].committed());
    pair.flush_to_origin(0)?;
    let image = pair.image.path().to_owned();
    pair.stop_both()?;
    let disk = CrashedExt4::at(&image);
    disk.check()?;
    disk.account(lab, &kit, Libvirt::DATABASE, through)
        .map(drop)
}

fn tools() -> Vec<&'static str> {
    [GUEST_TOOLS, RoamingPair::TOOLS, Libvirt::TOOLS].concat()
}

#[test]
fn over_nbd() {
    if is_root("a libvirt of its own") {
        scenario(&tools(), |lab| goes_there_and_back(lab, false));
    }
}

#[test]
fn over_vhost_user() {
    if is_root("a libvirt of its own") {
        scenario(&tools(), |lab| goes_there_and_back(lab, true));
    }
}
