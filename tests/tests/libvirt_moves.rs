//! `virsh migrate --live` between two daemons of libvirt, each beside a Hearth of its own and with the packaged hook: the
//! guest's database goes on with each front end, there and back. While the link is cut the hook lets libvirt cancel the
//! migration with the reason, and the guest goes on where it is. libvirt tells the monitor what the VM was given.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};
use e2e::{
    CrashedExt4, GUEST_TOOLS, GuestKit, LONG, Lab, Output, Process, RoamingPair, RoamingSettings,
    SHORT, committed, free_port, hearth_program, is_root, run, run_expecting_failure, scenario,
    wait_until,
};

const TOOLS: &[&str] = &["libvirtd", "virsh", "unshare", "mount", "debugfs"];
const DATABASE: &str = "/srv/ledger.db";
/// Transactions that are committed at each host at least.
const TRANSACTIONS_A_HOST: u64 = 5;
const MEMORY_MIB: u64 = 256;
/// A VM of one disk has its name.
const VM: &str = RoamingPair::DISK;
/// In a container, say, there is no security driver, no control groups and no other users.
const QEMU_CONF: &str = "security_driver = \"none\"\nuser = \"root\"\ngroup = \"root\"\ndynamic_ownership = 0\n\
    remember_owner = 0\nnamespaces = []\ncgroup_controllers = []\nstdio_handler = \"file\"\n";

/// A libvirt beside a host's daemon, with folders, a host name and processes of its own.
struct Libvirt {
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
    fn start(pair: &mut RoamingPair, at: usize) -> anyhow::Result<Self> {
        let admin = pair.host(at).admin_socket().to_path_buf();
        let lab = pair.lab(at);
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
            "#!/bin/sh\nHEARTH_SOCKET={} exec {} \"$@\"\n",
            admin.display(),
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

    fn virsh(&self, words: &[&str]) -> anyhow::Result<Output> {
        run(Command::new("virsh").args(["-c", &self.uri]).args(words))
    }

    fn console(&self) -> String {
        let bytes = std::fs::read(&self.console).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn committed(&self) -> u64 {
        committed(&self.console())
    }

    /// `virsh migrate` to another one, where the VM has this definition.
    fn migration(&self, to: &Self, definition: &Path) -> anyhow::Result<Command> {
        let mut command = Command::new("virsh");
        command
            .args([
                "-c",
                &self.uri,
                "migrate",
                "--live",
                "--bandwidth",
                "2000",
                VM,
            ])
            .args(["--desturi", &to.uri])
            .args(["--migrateuri", &format!("tcp://127.0.0.1:{}", free_port()?)])
            .arg("--xml")
            .arg(definition);
        Ok(command)
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
    let xml = format!(
        "<domain type='qemu'><name>{VM}</name><uuid>11111111-2222-4333-8444-555555555555</uuid>\
         <memory unit='MiB'>{MEMORY_MIB}</memory>{memory}<vcpu>1</vcpu>\
         <os><type arch='x86_64' machine='q35'>hvm</type><kernel>{kernel}</kernel><initrd>{initrd}</initrd>\
         <cmdline>console=ttyS0 quiet panic=-1 no_timer_check nokaslr probe=commit,db={DATABASE},transactions=1000000,wal=1\
         </cmdline></os><on_reboot>destroy</on_reboot><devices><emulator>/usr/bin/qemu-system-x86_64</emulator>{disk}\
         <serial type='file'><source path='{console}'/></serial><memballoon model='none'/></devices></domain>",
        kernel = kit.file("vmlinuz").display(),
        initrd = kit.file("initrd.gz").display(),
        console = console.display()
    );
    pair.lab(at).write("web.xml", &xml)
}

fn wait_for_transactions(libvirt: &Libvirt, before: u64) -> anyhow::Result<u64> {
    wait_until("the guest to commit", LONG, || {
        let said = libvirt.console();
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
        Ok(libvirt.committed() >= before + TRANSACTIONS_A_HOST)
    })?;
    Ok(libvirt.committed())
}

/// The monitor asks libvirt what the VM was given.
fn is_known_to_the_monitor(pair: &mut RoamingPair, libvirt: &Libvirt) -> anyhow::Result<()> {
    let reads_by_qemu = !pair.is_vhost_user();
    let mut monitor = Command::new(hearth_program()?);
    monitor
        .args(["monitor", "--every", "200ms", "--socket"])
        .arg(pair.host(0).admin_socket())
        .arg(format!("--libvirt={}", libvirt.uri));
    let monitor = Process::start(pair.lab(0), "monitor", &mut monitor)?;
    wait_until("libvirt's figures", LONG, || {
        let known = pair.host(0).json(&["resources"])?;
        let vm = &known["samples"][0]["vms"][0];
        let reads = vm["block"]["reads"].as_u64();
        Ok(vm["vm"] == VM
            && vm["vcpus"] == 1
            && vm["given_memory_bytes"] == MEMORY_MIB << 20
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
        definitions.push(definition(&mut pair, at, &kit, &libvirt.console)?);
    }
    let first = definitions[0].display().to_string();
    libvirts[0].virsh(&["create", &first])?;
    let mut through = wait_for_transactions(&libvirts[0], 0)?;
    is_known_to_the_monitor(&mut pair, &libvirts[0])?;
    // Nothing is lost by a migration that would not be right.
    pair.wire.cut();
    wait_until("the hosts to have lost each other", SHORT, || {
        let shown = pair.host(1).json(&["migrate", "show", RoamingPair::DISK])?;
        Ok(shown["peer"]["stands"] == false)
    })?;
    let mut refused = libvirts[0].migration(&libvirts[1], &definitions[1])?;
    let said = run_expecting_failure(&mut refused)?.stderr;
    ensure!(said.contains("link-down"), "{said}");
    through = wait_for_transactions(&libvirts[0], through)?;
    pair.wire.mend();
    wait_until("the hosts to have met", SHORT, || {
        let shown = pair.host(1).json(&["migrate", "show", RoamingPair::DISK])?;
        Ok(shown["peer"]["stands"] == true)
    })?;
    for (here, there) in [(0, 1), (1, 0)] {
        // Its next QEMU begins this file anew.
        let _ = std::fs::remove_file(&libvirts[there].console);
        // In one pass: without hardware QEMU loses memory of a guest that it copies in several.
        libvirts[here].virsh(&["migrate-setmaxdowntime", VM, "2000"])?;
        run(&mut libvirts[here].migration(&libvirts[there], &definitions[there])?)?;
        through = through.max(libvirts[here].committed());
        through = wait_for_transactions(&libvirts[there], through)?;
        pair.wait_until_owned_by(there)?;
    }
    libvirts[0].virsh(&["destroy", VM])?;
    through = through.max(libvirts[0].committed());
    pair.flush_to_origin(0)?;
    let image = pair.image.path().to_owned();
    pair.stop_both()?;
    let disk = CrashedExt4::at(&image);
    disk.check()?;
    disk.account(lab, &kit, DATABASE, through).map(drop)
}

fn tools() -> Vec<&'static str> {
    [GUEST_TOOLS, RoamingPair::TOOLS, TOOLS].concat()
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
