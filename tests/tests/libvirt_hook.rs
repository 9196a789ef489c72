//! The packaged hook of libvirt, run as libvirt runs it: it cancels a migration to a host where the VM's disks could not be
//! handed over, says why, and is in the way of nothing else.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};
use e2e::{Answer, RoamingPair, RoamingSettings, SHORT, hearth_program, scenario, wait_until};

const DISK: &str = RoamingPair::DISK;

/// What libvirt gives a hook: the XML of a VM with this disk beside others.
fn domain(disk: &str) -> String {
    format!(
        "<domain type='kvm'>\n  <name>web</name>\n  <memory unit='KiB'>1048576</memory>\n  <devices>\n    \
         <emulator>/usr/bin/qemu-system-x86_64</emulator>\n    {disk}\n    \
         <disk type='file' device='cdrom'>\n      <driver name='qemu' type='raw'/>\n      \
         <source file='/srv/install.iso'/>\n      <target dev='sda' bus='sata'/>\n      <readonly/>\n    </disk>\n    \
         <interface type='network'>\n      <source network='default'/>\n    </interface>\n  \
         </devices>\n</domain>\n"
    )
}

fn over_nbd(export: &str, socket: &Path) -> String {
    domain(&format!(
        "<disk type='network' device='disk'><driver name='qemu' type='raw' cache='none' discard='unmap'/>\
         <source protocol='nbd' name='{export}'><host transport='unix' socket='{}'/></source>\
         <target dev='vda' bus='virtio'/></disk>",
        socket.display()
    ))
}

fn over_vhost_user(socket: &Path) -> String {
    domain(&format!(
        "<disk type='vhostuser' device='disk'><driver name='qemu' type='raw'/>\
         <source type='unix' path='{}'><reconnect enabled='yes' timeout='1'/></source>\
         <target dev='vda' bus='virtio'/></disk>",
        socket.display()
    ))
}

/// Runs the hook as the libvirt of a host does.
struct Libvirt {
    admin_socket: PathBuf,
    path: String,
}

impl Libvirt {
    fn of(pair: &mut RoamingPair, at: usize) -> anyhow::Result<Self> {
        let program = hearth_program()?;
        let folder = program.parent().context("the program's folder")?;
        Ok(Self {
            admin_socket: pair.host(at).admin_socket().to_path_buf(),
            path: format!("{}:/usr/bin:/bin", folder.display()),
        })
    }

    fn calls(&self, operation: &str, phase: &str, xml: &str) -> anyhow::Result<Answer> {
        let hook = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/libvirt/qemu");
        let mut command = Command::new(hook)
            .args(["web", operation, phase, "-"])
            .env_clear()
            .env("PATH", &self.path)
            .env("HEARTH_SOCKET", &self.admin_socket)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("the hook")?;
        let mut stdin = command.stdin.take().context("its standard input")?;
        // A hook need not read it.
        let _ = stdin.write_all(xml.as_bytes());
        drop(stdin);
        let output = command.wait_with_output()?;
        Ok(Answer {
            code: output.status.code().context("it ended by a signal")?,
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }

    /// Whether a migration of the VM to this host goes on, and what its operator reads if not.
    fn migrates(&self, xml: &str) -> anyhow::Result<Result<String, String>> {
        let Answer {
            code,
            stdout,
            stderr,
        } = self.calls("migrate", "begin", xml)?;
        ensure!(stdout.is_empty(), "it would replace the XML: {stdout}");
        match code {
            0 => Ok(Ok(stderr)),
            1 => Ok(Err(stderr)),
            code => anyhow::bail!("{code}: {stderr}"),
        }
    }
}

/// Two hosts that have met.
fn met(lab: &e2e::Lab) -> anyhow::Result<RoamingPair> {
    let settings = RoamingSettings {
        vhost_user: true,
        ..RoamingSettings::default()
    };
    let mut pair = RoamingPair::start(lab, settings)?;
    wait_until("a session", SHORT, || {
        let shown = pair.host(1).json(&["migrate", "show", DISK])?;
        Ok(shown["peer"]["stands"] == true)
    })?;
    Ok(pair)
}

#[test]
fn a_migration_that_would_be_right_goes_on_and_another_one_is_cancelled_with_the_reason() {
    scenario(RoamingPair::TOOLS, |lab| {
        let mut pair = met(lab)?;
        let libvirt = Libvirt::of(&mut pair, 1)?;
        let socket = pair.host(1).nbd_socket().to_path_buf();
        let ours = [
            over_nbd(DISK, &socket),
            over_vhost_user(&pair.vhost_socket(1)),
        ];
        for xml in &ours {
            let said = libvirt.migrates(xml)?;
            ensure!(said == Ok(String::new()), "{said:?}");
        }
        let none = libvirt.migrates(&over_nbd("no-such-disk", &socket))?;
        let none = none.err().context("QEMU would not find the disk")?;
        ensure!(none.contains("unknown-here"), "{none}");
        pair.wire.cut();
        for xml in &ours {
            let mut said = Ok(String::new());
            wait_until("the migration to be cancelled", SHORT, || {
                said = libvirt.migrates(xml)?;
                Ok(said.is_err())
            })?;
            let said = said.err().unwrap_or_default();
            ensure!(
                said.contains("link-down") && said.contains("try:"),
                "{said}"
            );
        }
        pair.stop_both()
    });
}

#[test]
fn the_hook_is_not_in_the_way_of_anything_else() {
    scenario(RoamingPair::TOOLS, |lab| {
        let mut pair = met(lab)?;
        let mut libvirt = Libvirt::of(&mut pair, 1)?;
        let ours = over_nbd(DISK, pair.host(1).nbd_socket());
        pair.wire.cut();
        wait_until("the migration to be cancelled", SHORT, || {
            Ok(libvirt.migrates(&ours)?.is_err())
        })?;
        // Disks of others.
        let elsewhere = lab.path("other.sock");
        let file = "<disk type='file'><source file='/srv/disk.raw'/><target dev='vda'/></disk>";
        for xml in [
            over_nbd(DISK, &elsewhere),
            over_vhost_user(&elsewhere),
            domain(file),
            String::new(),
        ] {
            let said = libvirt.migrates(&xml)?;
            ensure!(said == Ok(String::new()), "{said:?}");
        }
        // Everything else that libvirt calls it for.
        for (operation, phase) in [
            ("prepare", "begin"),
            ("start", "begin"),
            ("started", "begin"),
            ("stopped", "end"),
            ("release", "end"),
            ("reconnect", "begin"),
            ("attach", "begin"),
            ("restore", "begin"),
        ] {
            let Answer {
                code,
                stdout,
                stderr,
            } = libvirt.calls(operation, phase, &ours)?;
            let said = format!("{stdout}{stderr}");
            ensure!(code == 0 && said.is_empty(), "{operation}: {code} {said}");
        }
        // A daemon that is down, and a program that is not installed.
        pair.stop(1)?;
        let down = libvirt.migrates(&ours)?;
        ensure!(down.is_ok_and(|said| said.contains("not asked (3)")));
        libvirt.path = "/usr/bin:/bin".to_owned();
        let missing = libvirt.migrates(&ours)?;
        ensure!(missing.is_ok_and(|said| said.contains("not asked")));
        pair.stop(0)
    });
}
