//! A libvirt beside a host's daemon, with folders, a host name and processes of its own.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};

use crate::limits::{LONG, SHORT};
use crate::{
    GuestKit, Lab, Output, Process, RoamingPair, committed, hearth_program, run, wait_until,
};

/// Where the guest's database is.
const DATABASE: &str = "/srv/ledger.db";
/// Transactions that are committed at each host at least.
const TRANSACTIONS_A_HOST: u64 = 5;
const MEMORY_MIB: u64 = 256;
/// A VM of one disk has its name.
const VM: &str = RoamingPair::DISK;
/// In a container, say, there is no security driver, no control groups and no other users.
const QEMU_CONF: &str = "security_driver = \"none\"\nuser = \"root\"\ngroup = \"root\"\ndynamic_ownership = 0\n\
    remember_owner = 0\nnamespaces = []\ncgroup_controllers = []\nstdio_handler = \"file\"\n";

/// A libvirt of its own. It ends with this.
pub struct Libvirt {
    _process: Process,
    uri: String,
    /// Where a VM that runs there speaks.
    console: PathBuf,
}

/// What its package adds to the machine's files, which are left alone.
fn own_files(lab: &Lab) -> anyhow::Result<()> {
    for (file, more) in [
        ("passwd", "libvirt-qemu:x:64055:64055::/:/bin/false\n"),
        ("group", "libvirt-qemu:x:64055:\nkvm:x:64056:\n"),
        // It looks its own name up each time.
        ("hosts", "127.0.0.2 node-a node-b\n"),
    ] {
        let own = std::fs::read_to_string(format!("/etc/{file}")).context("/etc")?;
        lab.write(&format!("libvirt/{file}"), &format!("{own}{more}"))?;
    }
    Ok(())
}

impl Libvirt {
    /// Programs that it needs, as root.
    pub const TOOLS: &'static [&'static str] =
        &["libvirtd", "virsh", "unshare", "mount", "debugfs"];
    /// The VM of [`Libvirt::define`], by the name of its one disk.
    pub const VM: &'static str = VM;
    /// How much memory that has, in MiB.
    pub const MEMORY_MIB: u64 = MEMORY_MIB;
    /// Where its database is.
    pub const DATABASE: &'static str = DATABASE;

    /// Starts one beside a host of a pair, with the packaged hook.
    ///
    /// # Errors
    ///
    /// When it does not come up.
    pub fn start(pair: &mut RoamingPair, at: usize) -> anyhow::Result<Self> {
        let admin = pair.host(at).admin_socket().to_path_buf();
        Self::beside(pair.lab(at), &admin, at)
    }

    /// Starts one beside a daemon whose admin socket and configuration are these of the lab; `at` tells its host from another one.
    ///
    /// # Errors
    ///
    /// When it does not come up.
    pub fn beside(lab: &Lab, admin: &Path, at: usize) -> anyhow::Result<Self> {
        let hearth = hearth_program()?;
        for folder in [
            "etc",
            "etc/hooks",
            "etc/qemu",
            "var",
            "run",
            "cache",
            "logs",
            "bin",
            "sock",
        ] {
            std::fs::create_dir_all(lab.path(&format!("libvirt/{folder}")))?;
        }
        let socket_dir = lab.path("libvirt/sock");
        let conf = format!(
            "unix_sock_dir = \"{}\"\nauth_unix_rw = \"none\"\nauth_unix_ro = \"none\"\n\
             host_uuid = \"00000000-0000-4000-8000-00000000000{}\"\n",
            socket_dir.display(),
            at + 1
        );
        lab.write("libvirt/etc/libvirtd.conf", &conf)?;
        lab.write("libvirt/etc/qemu.conf", QEMU_CONF)?;
        let hook = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/libvirt/qemu");
        std::fs::copy(hook, lab.path("libvirt/etc/hooks/qemu")).context("the hook")?;
        // A hook gets nothing of the environment but a few names.
        let wrapper = format!(
            "#!/bin/sh\nHEARTH_SOCKET={} HEARTH_CONFIG={} exec {} \"$@\"\n",
            admin.display(),
            lab.path("hearth.toml").display(),
            hearth.display()
        );
        let wrapper = lab.write("libvirt/bin/hearth", &wrapper)?;
        run(Command::new("chmod").arg("755").arg(wrapper))?;
        own_files(lab)?;
        let at_home = lab.path("libvirt");
        let script = format!(
            "set -e; hostname {name}; mkdir -p /etc/libvirt /run/libvirt /var/lib/libvirt /var/cache/libvirt /var/log/libvirt\n\
             for pair in etc:/etc/libvirt run:/run/libvirt var:/var/lib/libvirt cache:/var/cache/libvirt logs:/var/log/libvirt\n\
             do mount --bind {home}/${{pair%%:*}} ${{pair#*:}}; done\n\
             for file in passwd group hosts; do mount --bind {home}/$file /etc/$file; done\n\
             PATH={home}/bin:$PATH libvirtd -p {home}/libvirtd.pid & wait $!",
            name = RoamingPair::NAMES[at],
            home = at_home.display()
        );
        // The shell stays and takes in what QEMUs leave behind: libvirt waits long for one that has ended and is not taken in.
        let mut command = Command::new("unshare");
        command
            .args([
                "--mount",
                "--propagation",
                "private",
                "--uts",
                "--pid",
                "--fork",
            ])
            .args(["--kill-child", "--mount-proc", "sh", "-c", &script]);
        let process = Process::start(lab, "libvirtd", &mut command)?;
        let socket = socket_dir.join("libvirt-sock");
        let libvirt = Self {
            _process: process,
            uri: format!("qemu+unix:///system?socket={}", socket.display()),
            console: lab.path("console.txt"),
        };
        wait_until("libvirt to answer", SHORT, || {
            Ok(socket.exists() && libvirt.virsh(&["list"]).is_ok())
        })?;
        Ok(libvirt)
    }

    /// Where it listens.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// Where a VM that runs there speaks.
    pub fn console_path(&self) -> &Path {
        &self.console
    }

    /// Asks its program.
    ///
    /// # Errors
    ///
    /// When that fails.
    pub fn virsh(&self, words: &[&str]) -> anyhow::Result<Output> {
        run(Command::new("virsh").args(["-c", &self.uri]).args(words))
    }

    /// Has each later move of its VM take one pass: without hardware QEMU loses memory that it copies in several.
    ///
    /// # Errors
    ///
    /// When libvirt refuses.
    pub fn move_in_one_pass(&self) -> anyhow::Result<()> {
        // Milliseconds for which the guest may stand still: far more than its memory needs.
        self.virsh(&["migrate-setmaxdowntime", Self::VM, "60000"])
            .map(drop)
    }

    /// What its VM has said.
    pub fn console(&self) -> String {
        let bytes = std::fs::read(&self.console).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// How many transactions its VM has committed.
    pub fn committed(&self) -> u64 {
        committed(&self.console())
    }

    /// Writes the definition of a VM with the pair's disk and a guest that commits transactions, as this host has it.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub fn define(
        &self,
        pair: &mut RoamingPair,
        at: usize,
        kit: &GuestKit,
    ) -> anyhow::Result<PathBuf> {
        definition(pair, at, kit, &self.console)
    }

    /// Waits until its VM has committed some more transactions than so many. Returns how many it has.
    ///
    /// # Errors
    ///
    /// When it does not, or has seen an error.
    pub fn wait_for_transactions(&self, before: u64) -> anyhow::Result<u64> {
        wait_until("the guest to commit", LONG, || {
            let said = self.console();
            let words = [
                "PROBE bad",
                "PROBE error",
                "I/O error",
                "BUG:",
                "kernel BUG",
                "Oops",
            ];
            let is_well = !words.iter().any(|words| said.contains(words));
            ensure!(is_well, "the guest has seen:\n{said}");
            Ok(self.committed() >= before + TRANSACTIONS_A_HOST)
        })?;
        Ok(self.committed())
    }
}

/// The definition of the VM at a host.
fn definition(
    pair: &mut RoamingPair,
    at: usize,
    kit: &GuestKit,
    console: &Path,
) -> anyhow::Result<PathBuf> {
    let (memory, disk) = if pair.is_vhost_user() {
        let socket = pair.vhost_socket(at).display().to_string();
        (
            "<memoryBacking><source type='memfd'/><access mode='shared'/></memoryBacking>",
            format!(
                "<disk type='vhostuser' device='disk'><driver name='qemu' type='raw'/>\
                 <source type='unix' path='{socket}'><reconnect enabled='yes' timeout='1'/></source>\
                 <target dev='vda' bus='virtio'/></disk>"
            ),
        )
    } else {
        let socket = pair.host(at).nbd_socket().display().to_string();
        (
            "",
            format!(
                "<disk type='network' device='disk'><driver name='qemu' type='raw' cache='none' discard='unmap'/>\
                 <source protocol='nbd' name='{}'><host transport='unix' socket='{socket}'/></source>\
                 <target dev='vda' bus='virtio'/></disk>",
                RoamingPair::DISK
            ),
        )
    };
    let xml = domain(kit, console, memory, &disk);
    pair.lab(at).write("web.xml", &xml)
}

/// A VM with this backing of its memory and these disks, of which it boots from the first and commits transactions there.
pub(crate) fn domain(kit: &GuestKit, console: &Path, memory: &str, disks: &str) -> String {
    format!(
        "<domain type='qemu'><name>{VM}</name><uuid>11111111-2222-4333-8444-555555555555</uuid>\
         <memory unit='MiB'>{MEMORY_MIB}</memory>{memory}<vcpu>1</vcpu>\
         <os><type arch='x86_64' machine='q35'>hvm</type><kernel>{kernel}</kernel><initrd>{initrd}</initrd>\
         <cmdline>console=ttyS0 quiet panic=-1 no_timer_check nokaslr probe=commit,db={DATABASE},transactions=1000000,wal=1\
         </cmdline></os><on_reboot>destroy</on_reboot><devices><emulator>/usr/bin/qemu-system-x86_64</emulator>{disks}\
         <serial type='file'><source path='{console}'/></serial><memballoon model='none'/></devices></domain>",
        kernel = kit.file("vmlinuz").display(),
        initrd = kit.file("initrd.gz").display(),
        console = console.display()
    )
}
