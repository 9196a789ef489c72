//! A machine with a server of NFS and two hosts that mount its folder, each in network namespaces of that machine. It is a
//! guest, because the kernel of the host of the tests may have no NFS. `scripts/nfs` makes what it boots.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;

use crate::{GuestKit, Lab, Process, hearth_program, run, wait_for_listener};

/// How long one script may take there.
const PATIENCE: Duration = Duration::from_mins(4);

/// The machine. It ends with this.
pub struct NfsMachine {
    shell: BufReader<UnixStream>,
    _qemu: Process,
}

impl NfsMachine {
    /// Programs that it needs.
    pub const TOOLS: &'static [&'static str] = &[
        "qemu-system-x86_64",
        "mmdebstrap",
        "mke2fs",
        "cpio",
        "busybox",
        "dpkg-deb",
        "strip",
        "tar",
    ];

    /// Boots it with the program under test, and the server and the hosts up.
    ///
    /// # Errors
    ///
    /// When the kit cannot be built, or the machine does not come up.
    pub fn boot(lab: &Lab) -> anyhow::Result<Self> {
        let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
        let kit = GuestKit::build()?;
        run(Command::new(root.join("scripts/nfs/build")).current_dir(root))?;
        let image = std::env::var_os("HEARTH_NFS_DIR")
            .map_or_else(|| root.join("scratch/nfs"), Into::into)
            .join("root.raw");
        let archive = archive(lab)?;
        let socket = lab.path("shell.sock");
        let drive =
            |path: &Path, more| format!("file={},format=raw,if=virtio,{more}", path.display());
        let mut qemu = Command::new("qemu-system-x86_64");
        qemu.args(["-machine", "q35", "-accel", "tcg", "-cpu", "max"])
            .args(["-smp", "2", "-m", "768"])
            .args(["-nodefaults", "-display", "none", "-no-reboot"])
            .arg("-kernel")
            .arg(kit.file("vmlinuz"))
            .arg("-initrd")
            .arg(kit.file("initrd.gz"))
            .arg("-append")
            .arg("console=ttyS0 quiet panic=-1 no_timer_check nokaslr random.trust_cpu=on")
            .arg("-serial")
            .arg(format!("file:{}", lab.path("console.log").display()))
            .args(["-drive", &drive(&image, "snapshot=on")])
            .args(["-drive", &drive(&archive, "readonly=on")])
            .args(["-device", "virtio-serial", "-chardev"])
            .arg(format!(
                "socket,id=shell,path={},server=on,wait=off",
                socket.display()
            ))
            .args(["-device", "virtserialport,chardev=shell,name=shell"]);
        let qemu = Process::start(lab, "qemu", &mut qemu)?;
        wait_for_listener(&socket)?;
        let shell = UnixStream::connect(&socket).context("the machine's shell")?;
        shell.set_read_timeout(Some(PATIENCE))?;
        let mut machine = Self {
            shell: BufReader::new(shell),
            _qemu: qemu,
        };
        machine.run("hosts")?;
        Ok(machine)
    }

    /// Runs a script of bash there; what it said.
    ///
    /// # Errors
    ///
    /// When it fails, or the machine does not answer.
    pub fn run(&mut self, script: &str) -> anyhow::Result<String> {
        let (status, said) = self.ask(script)?;
        ensure!(status == 0, "{script}\nended with {status}:\n{said}");
        Ok(said)
    }

    /// Mounts the server's folder at `/mnt` of a host.
    ///
    /// # Errors
    ///
    /// When the server does not answer.
    pub fn mount(&mut self, host: &str, options: &str) -> anyhow::Result<()> {
        let server = if host == "one" {
            "10.0.1.1"
        } else {
            "10.0.2.1"
        };
        self.run(&format!(
            "on {host} mount -t nfs4 -o vers=4.2,{options} {server}:/ /mnt"
        ))
        .map(drop)
    }

    /// Pulls a host's cable.
    ///
    /// # Errors
    ///
    /// When that fails.
    pub fn cut(&mut self, host: &str) -> anyhow::Result<()> {
        self.run(&format!("on server ip link set {host} down"))
            .map(drop)
    }

    /// Plugs it in again.
    ///
    /// # Errors
    ///
    /// When that fails.
    pub fn join(&mut self, host: &str) -> anyhow::Result<()> {
        self.run(&format!("on server ip link set {host} up"))
            .map(drop)
    }

    /// Formats flash for a daemon of a host and starts that with these disks.
    ///
    /// # Errors
    ///
    /// When it does not serve.
    pub fn serve(&mut self, host: &str, disks: &str) -> anyhow::Result<()> {
        let script = format!(
            "mkdir -p /run/{host}
cat >/run/{host}/hearth.toml <<'END'
[daemon]
admin_socket = '/run/{host}/admin.sock'
state_dir = '/run/{host}/state'
owners_dir = '/mnt/owners'
[nbd]
unix_socket = '/run/{host}/nbd.sock'
[[cache]]
name = 'main'
path = '/lab/{host}.flash'
{disks}
END
on {host} mkdir -p /mnt/owners
[ -e /lab/{host}.flash ] || /lab/hearth cache format /lab/{host}.flash --size 128MiB
on {host} setsid /lab/hearth serve --config /run/{host}/hearth.toml >>/run/{host}/log 2>&1 </dev/null &
echo $! >/run/{host}/daemon.pid
until [ -S /run/{host}/nbd.sock ] && /lab/hearth --socket /run/{host}/admin.sock status >/dev/null 2>&1; do
    kill -0 $! || {{ cat /run/{host}/log; exit 1; }}
    sleep 0.2
done"
        );
        self.run(&script).map(drop)
    }

    /// Asks a host's daemon to end, and waits until it has.
    ///
    /// # Errors
    ///
    /// When it does not.
    pub fn stop(&mut self, host: &str) -> anyhow::Result<()> {
        let script = format!(
            "kill $(cat /run/{host}/daemon.pid); while kill -0 $(cat /run/{host}/daemon.pid) 2>/dev/null; do sleep 0.1; done
rm -f /run/{host}/nbd.sock"
        );
        self.run(&script).map(drop)
    }

    /// Asks a host's daemon by the program's command line.
    ///
    /// # Errors
    ///
    /// When the command fails.
    pub fn hearth(&mut self, host: &str, words: &str) -> anyhow::Result<Value> {
        let said = self.run(&format!(
            "/lab/hearth --socket /run/{host}/admin.sock {words} --json"
        ))?;
        serde_json::from_str(&said).with_context(|| said)
    }

    /// Does this with `h`, a connection to a disk of a host's daemon, in Python.
    ///
    /// # Errors
    ///
    /// When the script raises, with what the daemon has logged.
    pub fn nbdsh(&mut self, host: &str, disk: &str, script: &str) -> anyhow::Result<String> {
        let uri = format!("nbd+unix:///{disk}?socket=/run/{host}/nbd.sock");
        let (status, said) = self.ask(&format!(
            "cat >/run/script.py <<'END'\n{script}\nEND\nnbdsh -u '{uri}' -c \"$(cat /run/script.py)\""
        ))?;
        if status != 0 {
            let (_, log) = self.ask(&format!("tail -n 40 /run/{host}/log"))?;
            bail!("{script}\nended with {status}:\n{said}\n{log}");
        }
        Ok(said)
    }

    /// The status of a script and what it said.
    fn ask(&mut self, script: &str) -> anyhow::Result<(u32, String)> {
        self.shell
            .get_mut()
            .write_all(format!("{script}\0").as_bytes())?;
        let mut answer = Vec::new();
        let read = self.shell.read_until(0, &mut answer);
        read.with_context(|| format!("no answer to\n{script}"))?;
        let answer = String::from_utf8_lossy(&answer);
        let answer = answer.trim_end_matches('\0');
        let (status, said) = answer.split_once('\n').with_context(|| answer.to_owned())?;
        Ok((status.parse()?, said.to_owned()))
    }
}

/// The program under test in an archive that the machine unpacks.
fn archive(lab: &Lab) -> anyhow::Result<std::path::PathBuf> {
    let folder = lab.path("machine");
    std::fs::create_dir(&folder)?;
    let program = folder.join("hearth");
    run(Command::new("strip")
        .arg("-o")
        .arg(&program)
        .arg(hearth_program()?))?;
    let archive = lab.path("machine.tar");
    run(Command::new("tar")
        .arg("-cf")
        .arg(&archive)
        .arg("-C")
        .arg(&folder)
        .arg("hearth"))?;
    Ok(archive)
}
