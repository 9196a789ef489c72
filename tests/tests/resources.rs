//! What the host and its VMs use, as `hearth monitor` reads it: a real guest is seen at work, and is gone with its process;
//! the monitor goes on when the daemon was killed.

use std::process::Command;

use anyhow::ensure;
use e2e::{
    GUEST_TOOLS, Guest, GuestKit, Hearth, LONG, Process, SHORT, Stack, StackSettings,
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
