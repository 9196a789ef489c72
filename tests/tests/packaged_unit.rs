//! The systemd unit as it is installed: the daemon runs under all that the unit takes away from it,
//! with write-back, a crash, an upgrade in place, and vhost-user.

use std::fs::{self, Permissions};
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use anyhow::{Context as _, ensure};
use e2e::{
    Back, Hearth, Lab, PACKAGE_TOOLS, Package, SHORT, Session, has_status, hearth, is_root, nbdsh,
    reads, scenario, wait_until, writes,
};

const IMAGE: &str = "/srv/images/disk.raw";
const FLASH: &str = "/var/cache/hearth/main.flash";
const VHOST: &str = "/run/hearth/disk.sock";

/// What the guide says to write, with a disk that keeps what its origin lacks.
fn configuration(more: &str) -> String {
    let name = Back::DISK;
    format!(
        "[daemon]\nmetrics_address = 'off'\nlog_target = 'stderr'\n\
         [nbd]\nunix_socket_group = 'kvm'\n{more}\n\
         [[cache]]\nname = 'main'\npath = '{FLASH}'\n\
         [[disk]]\nname = '{name}'\norigin = {{ file = '{IMAGE}' }}\nwrite_policy = 'back'\n\
         write_back = {{ dirty_max = '100MiB', age_max = '1000s', idle_after = '1000s' }}\n\
         vhost_user = {{ socket = '{VHOST}' }}\n"
    )
}

fn install(lab: &Lab) -> anyhow::Result<Package> {
    let package = Package::install(lab)?;
    package.image(IMAGE, 64)?;
    package.flash(FLASH, 256)?;
    let example = fs::read_to_string(package.path("/usr/share/doc/hearth/examples/storage.conf"))?;
    package.drop_in("storage.conf", &example)?;
    package.configure(&configuration(""))?;
    Ok(package)
}

/// A scenario with an installation, where namespaces can be made.
fn installed(tools: &[&str], body: impl FnOnce(&Lab, &Package) -> anyhow::Result<()>) {
    if is_root("a sandbox") {
        let tools = [PACKAGE_TOOLS, tools].concat();
        scenario(&tools, |lab| body(lab, &install(lab)?));
    }
}

fn dirty_bytes(hearth: &Hearth) -> anyhow::Result<u64> {
    let disk = hearth.json(&["disk", "show", Back::DISK])?;
    ensure!(disk["write_policy"] == "back", "{disk}");
    let dirty = &disk["write_back"]["dirty_bytes"];
    dirty.as_u64().with_context(|| disk.to_string())
}

#[test]
fn a_disk_under_write_back_goes_through_a_crash_and_an_upgrade() {
    installed(&["nbdsh"], |lab, package| {
        let mut hearth = package.start(lab)?;
        nbdsh(Some(&hearth.uri(Back::DISK)), &writes(0, 64, 7))?;
        ensure!(dirty_bytes(&hearth)? == 64 * 4096);
        let owner = fs::read_to_string(package.path("/srv/images/disk.raw.hearth"))?;
        let owner: serde_json::Value = serde_json::from_str(&owner)?;
        let host = fs::read_to_string("/proc/sys/kernel/hostname")?;
        ensure!(owner["host"] == host.trim(), "{owner}");

        hearth.kill()?;
        hearth = package.start(lab)?;
        ensure!(dirty_bytes(&hearth)? == 64 * 4096);
        hearth.renew()?;
        ensure!(dirty_bytes(&hearth)? == 64 * 4096);
        nbdsh(Some(&hearth.uri(Back::DISK)), &reads(0, 64, 7))?;
        hearth.command(&["disk", "flush", Back::DISK, "--wait"])?;
        ensure!(dirty_bytes(&hearth)? == 0);
        hearth.stop().map(drop)
    });
}

#[test]
fn a_vm_s_load_over_vhost_user_is_served() {
    installed(&[], |lab, package| {
        let hearth_daemon = package.start(lab)?;
        let target = format!("vhost-user:{}", package.path(VHOST).display());
        let load = ["--rw=randwrite", "--bs=4k", "--size=8m", "--iodepth=16"];
        let words = ["--json", "bench", &target, "--verify=crc32c"];
        let report = hearth(&[&words[..], &load].concat())?.json()?;
        let job = &report["jobs"][0];
        ensure!(job["verify"]["wrong"] == 0 && job["error"] == 0, "{job}");
        ensure!(job["verify"]["right"] == 2048, "{job}");
        hearth_daemon.stop().map(drop)
    });
}

#[test]
fn the_service_is_a_user_of_its_own_and_gives_qemu_its_socket() {
    installed(&[], |lab, package| {
        let hearth = package.start(lab)?;
        let (user, group) = package.user()?;
        has_status(
            hearth.id(),
            &[
                ("Uid:", &user.to_string()),
                ("Gid:", &group.to_string()),
                ("CapBnd:", "0000000000000000"),
                ("CapPrm:", "0000000000000000"),
                ("NoNewPrivs:", "1"),
                ("Seccomp:", "2"),
            ],
        )?;
        let groups = fs::read_to_string(package.path("/etc/group"))?;
        let kvm = groups.lines().find_map(|line| line.strip_prefix("kvm:x:"));
        let kvm = kvm.and_then(|rest| rest.split(':').next());
        let socket = fs::metadata(hearth.nbd_socket())?;
        ensure!(Some(socket.gid().to_string().as_str()) == kvm, "{groups}");
        ensure!(socket.mode() & 0o777 == 0o660);
        hearth.stop().map(drop)
    });
}

#[test]
fn systemd_finds_no_fault_with_the_units() {
    installed(&[], |_, package| {
        package.verify()?;
        // The drop-in for hosts with Proxmox VE.
        let proxmox = fs::read_to_string(package.path("/usr/share/hearth/proxmox/hearth.conf"))?;
        package.drop_in("proxmox.conf", &proxmox)?;
        package.verify()
    });
}

#[test]
fn a_daemon_that_cannot_start_is_tried_again_after_a_pause_and_one_that_crashed_at_once() {
    installed(&[], |lab, package| {
        // In the place of the real one: it tells that it was asked.
        let sleep = package.path("/usr/bin/sleep");
        fs::write(&sleep, "#!/bin/sh\necho slept $1\n")?;
        fs::set_permissions(&sleep, Permissions::from_mode(0o755))?;
        let pause = |result: &str, status: &str| -> anyhow::Result<String> {
            let told = [("SERVICE_RESULT", result), ("EXIT_STATUS", status)];
            let answer = package.run("ExecStopPost", &told)?;
            ensure!(answer.code == 0, "{}", answer.stderr);
            Ok(answer.stdout)
        };
        let taken = TcpListener::bind("127.0.0.1:0")?;
        let address = taken.local_addr()?;
        package.configure(&configuration(&format!("tcp_address = '{address}'")))?;
        let failed = package.run("ExecStart", &[])?;
        ensure!(failed.stderr.contains("in use"), "{}", failed.stderr);
        ensure!(pause("exit-code", &failed.code.to_string())? == "slept 5\n");
        ensure!(pause("signal", "KILL")?.is_empty());
        ensure!(pause("watchdog", "ABRT")?.is_empty());
        ensure!(pause("success", "0")?.is_empty());

        package.configure("no_such_key = 1\n")?;
        let failed = package.run("ExecStart", &[])?;
        // The unit's RestartPreventExitStatus: there is no next try to wait for.
        ensure!(failed.code == 2, "{}", failed.stderr);
        ensure!(pause("exit-code", "2")?.is_empty());

        package.configure(&configuration(""))?;
        package.start(lab)?.stop().map(drop)
    });
}

#[test]
fn manual_pages_and_completions_are_installed() {
    installed(&["bash"], |lab, package| {
        let made = lab.path("man");
        let folder = made.to_str().context("a path in Unicode")?;
        let written = hearth(&["man", "--dir", folder])?;
        ensure!(written.code == 0, "{}", written.stderr);
        for section in ["man1", "man5"] {
            let share = package.path("/usr/share/man").join(section);
            for page in fs::read_dir(made.join(section))? {
                let name = page?.file_name().to_string_lossy().into_owned();
                let page = fs::read(share.join(&name)).with_context(|| name.clone())?;
                ensure!(page == fs::read(made.join(section).join(&name))?, "{name}");
                let mode = fs::metadata(share.join(&name))?.mode();
                ensure!(mode & 0o777 == 0o644, "{name}: {mode:o}");
            }
        }
        ensure!(package.path("/usr/share/man/man5/hearth.toml.5").exists());
        let script = package.path("/usr/share/bash-completion/completions/hearth");
        let ask = format!(
            "source {} && COMP_WORDS=(hearth disk att) COMP_CWORD=2 && _hearth hearth att disk && \
             echo \"${{COMPREPLY[*]}}\"",
            script.display()
        );
        let found = e2e::run(std::process::Command::new("bash").args(["-c", &ask]))?;
        ensure!(found.stdout.trim() == "attach", "{}", found.stdout);
        for shell in [
            "fish/vendor_completions.d/hearth.fish",
            "zsh/vendor-completions/_hearth",
        ] {
            let script = fs::read_to_string(package.path("/usr/share").join(shell))?;
            ensure!(script.contains("check-config"), "{shell}");
        }
        Ok(())
    });
}

#[test]
fn the_monitor_sees_what_the_daemon_does_not() {
    installed(&[], |lab, package| {
        let hearth = package.start(lab)?;
        let none = hearth.command(&["resources"])?.stdout;
        ensure!(none.contains("enable --now hearth-monitor"), "{none}");
        let monitor = package.start_monitor(lab, "200ms")?;
        let guest = Session::open(hearth.nbd_socket(), Back::DISK)?;
        let known = || -> anyhow::Result<bool> {
            let known = hearth.json(&["resources"])?;
            let vm = &known["samples"][0]["vms"][0];
            Ok(vm["vm"] == Back::DISK && vm["memory_bytes"].as_u64() > Some(0))
        };
        wait_until("the VM's process to be seen", SHORT, known)?;
        let shown = hearth.command(&["resources"])?.stdout;
        ensure!(
            shown.contains("host: ") && shown.contains(Back::DISK),
            "{shown}"
        );
        monitor.terminate()?;
        guest.close()?;
        hearth.stop().map(drop)
    });
}
