//! A Linux guest under QEMU, heard through its serial console. `scripts/guest/build` makes what it
//! boots; `guest-probe` (in `crates/`) says what its steps mean.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use serde_json::Value;

use crate::ext4::highest;
use crate::{Hearth, Lab, Process, Qmp, limits, stuck, tools, wait_for_listener, wait_until};

/// Programs that a guest needs on the host.
pub const TOOLS: &[&str] = &[
    "qemu-system-x86_64",
    "nbdkit",
    "mke2fs",
    "e2fsck",
    "cpio",
    "busybox",
    "dpkg-deb",
    "sqlite3",
];

/// How the probe begins its last line.
const LAST_LINE: &str = "PROBE end ";

/// Kernel, initrd and disk image.
pub struct GuestKit {
    folder: PathBuf,
}

impl GuestKit {
    /// Builds the kit if it is not there yet.
    ///
    /// # Errors
    ///
    /// When the build fails, for want of the kernel package for example.
    pub fn build() -> anyhow::Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"))
            .parent()
            .context("the tests lie in the tree")?;
        tools::run(Command::new(root.join("scripts/guest/build")).current_dir(root))?;
        let folder = std::env::var_os("HEARTH_GUEST_DIR")
            .map_or_else(|| root.join("scratch/guest"), PathBuf::from);
        Ok(Self { folder })
    }

    /// A copy of the disk image for one test.
    ///
    /// # Errors
    ///
    /// When it cannot be copied.
    pub fn disk(&self, lab: &Lab) -> anyhow::Result<crate::Image> {
        let path = lab.path("guest.raw");
        tools::run(
            Command::new("cp")
                .arg("--sparse=always")
                .arg(self.folder.join("root.raw"))
                .arg(&path),
        )?;
        crate::Image::existing(&path)
    }

    /// A file of the kit: `vmlinuz` or `initrd.gz`.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The probe, for use on this host.
    pub fn probe(&self) -> PathBuf {
        self.folder.join("guest-probe")
    }
}

/// How many transactions a database has answered as committed, by what its guest said.
pub fn committed(said: &str) -> u64 {
    highest(said, "PROBE committed transaction=")
}

/// A running guest.
pub struct Guest {
    process: Process,
    console: PathBuf,
    monitor: PathBuf,
}

/// What a guest on vhost-user disks is like.
pub struct VhostUserSettings<'a> {
    /// The sockets of its disks, the one that it boots from first.
    pub disks: &'a [&'a Path],
    /// Processors, and queues of each disk.
    pub queues: u32,
    /// Where another QEMU will send it from; nothing boots then.
    pub incoming: Option<&'a Path>,
    /// More arguments of QEMU.
    pub more: &'a [&'a str],
}

impl Default for VhostUserSettings<'_> {
    fn default() -> Self {
        Self {
            disks: &[],
            queues: 1,
            incoming: None,
            more: &[],
        }
    }
}

impl Guest {
    /// Boots from the export that `socket` and `export` name and does `steps` of guest-probe.
    ///
    /// # Errors
    ///
    /// When QEMU cannot be started.
    pub fn boot(
        lab: &Lab,
        kit: &GuestKit,
        socket: &Path,
        export: &str,
        name: &str,
        steps: &str,
    ) -> anyhow::Result<Self> {
        let disk = format!(
            "driver=nbd,node-name=disk,server.type=unix,server.path={},export={export},reconnect-delay=30",
            socket.display()
        );
        let arguments = ["-blockdev", &disk, "-device", "virtio-blk-pci,drive=disk"];
        Self::start(lab, kit, name, steps, &arguments)
    }

    /// Boots from the disk that is served over vhost-user at `socket` and does `steps` of
    /// guest-probe. QEMU connects again when the server was started anew.
    ///
    /// # Errors
    ///
    /// When QEMU cannot be started.
    pub fn boot_vhost_user(
        lab: &Lab,
        kit: &GuestKit,
        socket: &Path,
        name: &str,
        steps: &str,
    ) -> anyhow::Result<Self> {
        let settings = VhostUserSettings {
            disks: &[socket],
            ..VhostUserSettings::default()
        };
        Self::boot_with(lab, kit, name, steps, &settings)
    }

    /// The same with more disks, processors or queues, or a guest that comes from another QEMU.
    ///
    /// # Errors
    ///
    /// When QEMU cannot be started.
    pub fn boot_with(
        lab: &Lab,
        kit: &GuestKit,
        name: &str,
        steps: &str,
        settings: &VhostUserSettings<'_>,
    ) -> anyhow::Result<Self> {
        let mut arguments = vec![
            "-object".to_owned(),
            "memory-backend-memfd,id=memory,size=256M,share=on".to_owned(),
            "-machine".to_owned(),
            "memory-backend=memory".to_owned(),
        ];
        for (number, socket) in settings.disks.iter().enumerate() {
            let (socket, queues) = (socket.display(), settings.queues);
            arguments.extend([
                "-chardev".to_owned(),
                format!("socket,id=disk{number},path={socket},reconnect=1"),
                "-device".to_owned(),
                format!("vhost-user-blk-pci,chardev=disk{number},num-queues={queues}"),
            ]);
        }
        if let Some(incoming) = settings.incoming {
            arguments.extend([
                "-incoming".to_owned(),
                format!("unix:{}", incoming.display()),
            ]);
        }
        let cpus = settings.queues.to_string();
        arguments.extend(["-smp".to_owned(), cpus]);
        let mut arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        arguments.extend(settings.more);
        Self::start(lab, kit, name, steps, &arguments)
    }

    /// Boots from a disk with the arguments that somebody else says QEMU takes.
    ///
    /// # Errors
    ///
    /// When QEMU cannot be started.
    pub fn boot_as_told(
        lab: &Lab,
        kit: &GuestKit,
        name: &str,
        steps: &str,
        arguments: &[&str],
    ) -> anyhow::Result<Self> {
        Self::start(lab, kit, name, steps, arguments)
    }

    /// Boots from a disk of the daemon's over NBD, with the channel for its agent, as `hearth xml` says.
    ///
    /// # Errors
    ///
    /// When the daemon has no such disk or no channel, or QEMU cannot be started.
    pub fn boot_with_channel(
        lab: &Lab,
        kit: &GuestKit,
        hearth: &Hearth,
        disk: &str,
        named: (&str, &str),
    ) -> anyhow::Result<Self> {
        Self::boot_with_channel_and(lab, kit, hearth, disk, named, &[])
    }

    /// The same with more arguments of QEMU.
    ///
    /// # Errors
    ///
    /// When the daemon has no such disk or no channel, or QEMU cannot be started.
    pub fn boot_with_channel_and(
        lab: &Lab,
        kit: &GuestKit,
        hearth: &Hearth,
        disk: &str,
        (name, steps): (&str, &str),
        more: &[&str],
    ) -> anyhow::Result<Self> {
        let xml = hearth.json(&["xml", "--disk", disk, "--front-end", "nbd"])?;
        let words = xml["guest"]["qemu"].as_array().context("QEMU's words")?;
        let mut arguments: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
        let drive = format!(
            "driver=nbd,node-name=disk,server.type=unix,server.path={},export={disk},reconnect-delay=60",
            hearth.nbd_socket().display()
        );
        // The agent tells its disks by their serial numbers.
        let device = format!("virtio-blk-pci,drive=disk,serial={disk}");
        arguments.extend(["-blockdev", &drive, "-device", &device]);
        arguments.extend(more);
        Self::start(lab, kit, name, steps, &arguments)
    }

    fn start(
        lab: &Lab,
        kit: &GuestKit,
        name: &str,
        steps: &str,
        disk: &[&str],
    ) -> anyhow::Result<Self> {
        let console = lab.path(&format!("{name}-console.log"));
        let monitor = lab.path(&format!("{name}-monitor.sock"));
        let mut command = Command::new("qemu-system-x86_64");
        command
            .args([
                "-machine", "q35", "-accel", "tcg", "-cpu", "max", "-m", "256",
            ])
            .args(["-nodefaults", "-display", "none", "-no-reboot"])
            .arg("-kernel")
            .arg(kit.folder.join("vmlinuz"))
            .arg("-initrd")
            .arg(kit.folder.join("initrd.gz"))
            .arg("-append")
            // On a busy machine the emulated timer may come too late, and the kernel would panic.
            .arg(format!(
                "console=ttyS0 quiet panic=-1 no_timer_check nokaslr random.trust_cpu=on probe={steps}"
            ))
            .arg("-serial")
            .arg(format!("file:{}", console.display()))
            .arg("-qmp")
            .arg(format!("unix:{},server=on,wait=off", monitor.display()))
            .args(disk);
        let process = Process::start(lab, &format!("{name}-qemu"), &mut command)?;
        Ok(Self {
            process,
            console,
            monitor,
        })
    }

    /// Its QEMU's monitor.
    ///
    /// # Errors
    ///
    /// When it does not answer in time.
    pub fn monitor(&self) -> anyhow::Result<Qmp> {
        wait_for_listener(&self.monitor)?;
        Qmp::connect(&self.monitor)
    }

    /// What it has said so far.
    pub fn console(&self) -> String {
        // Not there before QEMU opened it; not UTF-8 if a line is cut.
        let bytes = std::fs::read(&self.console).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Waits for a whole line with `words` in it.
    ///
    /// # Errors
    ///
    /// When it does not come in time, or the guest ends first.
    pub fn wait_for(&mut self, words: &str) -> anyhow::Result<()> {
        self.wait_until(&format!("the guest to say '{words}'"), |guest| {
            // Looked at first: the last words of a guest that ended still count.
            let running = guest.process.is_running();
            let console = guest.console();
            // A line that is cut here would lack what `files_synced` counts.
            let whole = console.rsplit_once('\n').map_or("", |(whole, _)| whole);
            let said = whole.contains(words);
            ensure!(
                said || running,
                "the guest ended without saying '{words}':\n{console}"
            );
            Ok(said)
        })
    }

    /// Waits, and tells what it was doing if that was in vain.
    fn wait_until(
        &mut self,
        what: &str,
        mut is_so: impl FnMut(&mut Self) -> anyhow::Result<bool>,
    ) -> anyhow::Result<()> {
        wait_until(what, limits::LONG, || is_so(self))
            .with_context(|| stuck::state(self.process.id(), &self.monitor))
    }

    /// How many files the guest has named as durable.
    pub fn files_synced(&self) -> u64 {
        highest(&self.console(), "PROBE synced file=")
    }

    /// How many transactions the guest's database has answered as committed.
    pub fn committed(&self) -> u64 {
        committed(&self.console())
    }

    /// Cuts its power, and gives what it had said.
    ///
    /// # Errors
    ///
    /// When it had ended already.
    pub fn kill(self) -> anyhow::Result<String> {
        let Self {
            process, console, ..
        } = self;
        process.kill()?;
        Ok(String::from_utf8_lossy(&std::fs::read(console)?).into_owned())
    }

    /// Waits until it has powered off and gives what it said.
    ///
    /// # Errors
    ///
    /// When it does not, or when it found anything wrong.
    pub fn finish(mut self) -> anyhow::Result<String> {
        self.wait_until("the guest to end", |guest| Ok(!guest.process.is_running()))?;
        let said = self.console();
        let last = said
            .lines()
            .find(|line| line.starts_with(LAST_LINE))
            .unwrap_or_default()
            .to_owned();
        ensure!(
            last.contains("result=PASS"),
            "the guest did not pass:\n{said}"
        );
        Ok(said)
    }
}
