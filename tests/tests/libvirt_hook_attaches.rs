//! libvirt's hook when an adopted VM starts and ends: it attaches the disk that is not attached and detaches it afterwards. While the
//! daemon is down the VM runs on its file alone, and not at all if the flash has bytes that the file lacks.

use anyhow::ensure;
use e2e::{
    Adoption, GUEST_TOOLS, LONG, Lab, Libvirt, is_root, run_expecting_failure, scenario, wait_until,
};
use std::process::Command;

fn tools() -> Vec<&'static str> {
    let more = ["qemu-storage-daemon"];
    [GUEST_TOOLS, Libvirt::TOOLS, more.as_slice()].concat()
}

/// The start of the VM is refused; with these words.
fn is_not_started(host: &Adoption<'_>, words: &[&str]) -> anyhow::Result<()> {
    let mut start = Command::new("virsh");
    start.args(["-c", host.libvirt.uri(), "start", Libvirt::VM]);
    let said = run_expecting_failure(&mut start)?.stderr;
    ensure!(words.iter().all(|word| said.contains(word)), "{said}");
    Ok(())
}

fn attaches_and_detaches(lab: &Lab, via: &str) -> anyhow::Result<()> {
    let (host, hearth) = Adoption::new(lab)?;
    host.adopt(&["--via", via, "--yes"])?;
    hearth.command(&["disk", "detach", Adoption::DISK])?;
    let through = host.runs(0)?;
    let disk = hearth.json(&["disk", "show", Adoption::DISK])?;
    ensure!(disk["connections"].as_u64() > Some(0), "{disk}");
    let through = through.max(host.cut_off()?);
    wait_until("the hook to detach the disk", LONG, || {
        let disks = hearth.json(&["disk", "list"])?;
        Ok(disks["disks"].as_array().is_some_and(Vec::is_empty))
    })?;
    // What was attached before stays.
    let record = host.definition()?;
    ensure!(record.contains("urn:hearth:libvirt:1"), "{record}");
    let origin = host.image.path().display().to_string();
    let socket = lab.path(&format!(
        "{}.{}.sock",
        Adoption::DISK,
        via.split('-').next().unwrap_or(via)
    ));
    let socket = socket.display().to_string();
    let option = if via == "nbd" {
        "--nbd-socket"
    } else {
        "--vhost-socket"
    };
    hearth.command(&[
        "disk",
        "attach",
        Adoption::DISK,
        "--vm",
        Libvirt::VM,
        "--origin",
        &origin,
        option,
        &socket,
    ])?;
    let through = host.runs(through)?.max(host.cut_off()?);
    hearth.command(&["disk", "show", Adoption::DISK])?;
    hearth.stop()?;
    host.account(through)
}

/// The VM runs without the daemon, which comes back meanwhile, and knows afterwards that its blocks are old.
fn runs_without_the_daemon(lab: &Lab, via: &str) -> anyhow::Result<()> {
    let (host, hearth) = Adoption::new(lab)?;
    host.adopt(&["--via", via, "--yes"])?;
    let through = host.runs(0)?.max(host.cut_off()?);
    hearth.stop()?;
    let through = host.runs(through)?;
    let hearth = host.start_daemon(true)?;
    let shown = hearth.json(&["disk", "show", Adoption::DISK])?;
    ensure!(shown["state"] == "waiting", "{shown}");
    let through = host
        .libvirt
        .wait_for_transactions(through)?
        .max(host.cut_off()?);
    let through = host.runs(through)?;
    let shown = hearth.json(&["disk", "show", Adoption::DISK])?;
    let dropped = shown["dropped"].as_str().unwrap_or_default();
    ensure!(dropped.contains("changed while"), "{shown}");
    ensure!(shown["connections"].as_u64() > Some(0), "{shown}");
    let through = through.max(host.cut_off()?);
    hearth.stop()?;
    host.account(through)
}

#[test]
fn a_disk_is_attached_for_its_vm_over_nbd() {
    if is_root("a libvirt of its own") {
        scenario(&tools(), |lab| attaches_and_detaches(lab, "nbd"));
    }
}

#[test]
fn a_disk_is_attached_for_its_vm_over_vhost_user() {
    if is_root("a libvirt of its own") {
        scenario(&tools(), |lab| attaches_and_detaches(lab, "vhost-user"));
    }
}

#[test]
fn a_vm_runs_on_its_file_while_the_daemon_is_down_over_nbd() {
    if is_root("a libvirt of its own") {
        scenario(&tools(), |lab| runs_without_the_daemon(lab, "nbd"));
    }
}

#[test]
fn a_vm_runs_on_its_file_while_the_daemon_is_down_over_vhost_user() {
    if is_root("a libvirt of its own") {
        scenario(&tools(), |lab| runs_without_the_daemon(lab, "vhost-user"));
    }
}

#[test]
fn a_vm_whose_file_lacks_bytes_is_not_started_without_the_daemon() {
    if !is_root("a libvirt of its own") {
        return;
    }
    scenario(&tools(), |lab| {
        let (host, hearth) = Adoption::new(lab)?;
        host.adopt(&["--write-policy", "back", "--yes"])?;
        hearth.command(&[
            "disk",
            "set",
            Adoption::DISK,
            "--age-max",
            "1000s",
            "--idle-after",
            "1000s",
        ])?;
        let through = host.runs(0)?.max(host.cut_off()?);
        let dirty = hearth.json(&["disk", "show", Adoption::DISK])?;
        ensure!(
            dirty["write_back"]["dirty_bytes"].as_u64() > Some(0),
            "{dirty}"
        );
        hearth.kill()?;
        is_not_started(
            &host,
            &[
                "Hearth cannot serve this VM",
                "origin lacks",
                "systemctl start hearth",
            ],
        )?;
        // Whoever has the VM's file otherwise keeps Hearth from it, and the reason is told.
        let hearth = host.start_daemon(false)?;
        let through = host.runs(through)?.max(host.cut_off()?);
        hearth.command(&["disk", "detach", Adoption::DISK, "--flush"])?;
        hearth.stop()?;
        host.account(through)
    });
}
