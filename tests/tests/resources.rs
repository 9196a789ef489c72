//! What the host and its VMs use, as `hearth monitor` reads it: a real guest is seen at work, and is gone with its process;
//! the monitor goes on when the daemon was killed. QEMU says what its VM was given, and its reads weigh by that.

use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, ensure};
use e2e::{
    GUEST_TOOLS, Guest, GuestKit, Hearth, LONG, Lab, Process, SHORT, Stack, StackSettings,
    hearth_program, scenario, wait_until,
};
use serde_json::Value;

const MIB: u64 = 1 << 20;

/// The VM's last sample, if it is in it.
fn vm(hearth: &Hearth) -> anyhow::Result<Option<Value>> {
    let known = hearth.json(&["resources"])?;
    let vms = known["samples"][0]["vms"].as_array().cloned();
    Ok(vms
        .unwrap_or_default()
        .into_iter()
        .find(|vm| vm["vm"] == Stack::DISK))
}

#[test]
fn a_guest_is_seen_at_work_and_is_gone_with_its_process() {
    scenario(GUEST_TOOLS, |lab| {
        let kit = GuestKit::build()?;
        let mut stack = Stack::start_on(lab, kit.disk(lab)?, &StackSettings::default())?;
        let socket = stack.hearth().admin_socket().to_path_buf();
        let mut monitor = Command::new(hearth_program()?);
        monitor
            .args(["monitor", "--every", "200ms", "--socket"])
            .arg(&socket);
        let monitor = Process::start(lab, "monitor", &mut monitor)?;
        let steps = "read,dir=/srv/files+forever";
        let mut guest = Guest::boot(lab, &kit, &stack.socket(), Stack::DISK, "guest", steps)?;
        let hearth = stack.hearth();
        wait_until("the guest to be seen at work", LONG, || {
            let at_work = |vm: Value| {
                vm["processes"] == 1
                    && vm["cpu_share"].as_f64() > Some(0.05)
                    && vm["memory_bytes"].as_u64() > Some(64 * MIB)
            };
            Ok(vm(hearth)?.is_some_and(at_work))
        })?;
        guest.wait_for("PROBE waiting")?;
        let known = hearth.json(&["resources", "--samples", "720"])?;
        let samples = known["samples"].as_array().map_or(0, Vec::len);
        ensure!(samples > 2, "{known}");
        let cpu = known["vm_cpu"][0]["seconds"].as_f64();
        ensure!(cpu > Some(0.5), "{known}");
        let text = hearth.command(&["resources", "--samples", "720"])?.stdout;
        ensure!(
            text.lines().count() > samples,
            "a line for each sample:\n{text}"
        );
        guest.kill()?;
        wait_until("the guest to be gone", SHORT, || Ok(vm(hearth)?.is_none()))?;
        // Nothing but the host's figures hangs on the monitor; it goes on when the daemon comes back.
        stack.kill_hearth()?;
        stack.start_hearth(lab)?;
        let hearth = stack.hearth();
        wait_until("the new daemon to be told", SHORT, || {
            Ok(hearth.json(&["resources"])?["samples"][0].is_object())
        })?;
        monitor.terminate()?;
        let refused = hearth.refused_command(&["monitor", "--every", "1ms"])?;
        ensure!(
            refused.stderr.contains("at least 100ms"),
            "{}",
            refused.stderr
        );
        stack.stop_hearth()
    });
}

/// A QEMU with a disk of the daemon's and a QMP socket in this folder; nothing boots.
fn qemu(lab: &Lab, vm: &str, nbd: &Path, folder: &Path, more: &[&str]) -> anyhow::Result<Process> {
    let nbd = nbd.display();
    let qmp = folder.join(format!("{vm}.qmp"));
    let mut command = Command::new("qemu-system-x86_64");
    command
        .args(["-accel", "tcg", "-nodefaults", "-display", "none"])
        .arg("-blockdev")
        .arg(format!(
            "driver=nbd,node-name=disk,server.type=unix,server.path={nbd},export={vm}"
        ))
        .args(["-device", "virtio-blk-pci,drive=disk"])
        .arg("-qmp")
        .arg(format!("unix:{},server=on,wait=off", qmp.display()))
        .args(more);
    Process::start(lab, &format!("{vm}-qemu"), &mut command)
}

/// Whether a VM's reads weigh so much on the cache: it is not told of a change by less than a fifth.
fn weighs(hearth: &Hearth, vm: &str, weight: f64) -> anyhow::Result<bool> {
    let shown = hearth.json(&["vm", "show", vm])?;
    let told = shown["shares"][0]["memory_weight"].as_f64();
    let told = told.with_context(|| format!("{vm} weighs nothing: {shown}"))?;
    Ok(told.max(weight) <= 1.2 * told.min(weight))
}

#[test]
fn qemu_says_what_its_vm_was_given_and_reads_weigh_by_that() {
    scenario(&["qemu-system-x86_64", "nbdkit"], |lab| {
        let mut stack = Stack::start(lab, &StackSettings::default())?;
        std::fs::File::create(lab.path("db.raw"))?.set_len(8 * MIB)?;
        let origin = format!("file:{}", lab.path("db.raw").display());
        let nbd = stack.socket();
        let hearth = stack.hearth();
        let policy = ["--hot", "frequency", "--frames", "64MiB"];
        hearth.command(&[&["cache", "set", "flash"][..], &policy].concat())?;
        hearth.command(&["disk", "attach", "db", "--origin", &origin])?;
        let folder = lab.path("qmp");
        std::fs::create_dir(&folder).context("a folder of sockets")?;
        // One that takes clients and says nothing holds nobody up.
        let _silent = UnixListener::bind(folder.join("silent.sock"))?;
        let balloon = "virtio-balloon-pci";
        let large = ["-m", "384", "-smp", "3", "-device", balloon];
        let large = qemu(lab, Stack::DISK, &nbd, &folder, &large)?;
        let small = qemu(lab, "db", &nbd, &folder, &["-m", "128"])?;
        let mut monitor = Command::new(hearth_program()?);
        monitor
            .args(["monitor", "--every", "200ms", "--socket"])
            .arg(hearth.admin_socket())
            .arg("--qmp")
            .arg(&folder);
        let monitor = Process::start(lab, "monitor", &mut monitor)?;
        // On a busy machine a QEMU may be too late for a round; its figures are then in the next one.
        let given = 384 * MIB;
        wait_until("QEMU's figures", LONG, || {
            let known = vm(hearth)?.unwrap_or_default();
            Ok(known["vcpus"] == 3
                && known["given_memory_bytes"] == given
                && known["balloon_bytes"] == given
                && known["block"]["reads"].as_u64() > Some(0))
        })?;
        // Of two VMs: 3 of 4 processors, 384 of 512 MiB, times four.
        wait_until("the weight", SHORT, || {
            Ok(vm(hearth)?.unwrap_or_default()["weight"] == 2.25)
        })?;
        for (vm, weight) in [(Stack::DISK, 2.25), ("db", 0.25)] {
            wait_until("the cache to be told", SHORT, || weighs(hearth, vm, weight))?;
        }
        wait_until("the weight as text", SHORT, || {
            let text = hearth.command(&["vm", "show", "db"])?.stdout;
            Ok(text.contains("reads weigh 0."))
        })?;
        let text = hearth.command(&["top", "--vms", "--once"])?.stdout;
        ensure!(text.contains("CPU") && text.contains("MEM"), "{text}");
        small.kill()?;
        std::fs::remove_file(folder.join("db.qmp")).context("the socket of a VM that is gone")?;
        wait_until("a VM alone to weigh one", SHORT, || {
            weighs(hearth, Stack::DISK, 1.0)
        })?;
        let said = std::fs::read_to_string(monitor.log()).context("what the monitor said")?;
        let silent = said.lines().filter(|line| line.contains("silent.sock"));
        ensure!(silent.count() == 1, "a reason is told once:\n{said}");
        monitor.terminate()?;
        large.kill()?;
        stack.stop_hearth()
    });
}
