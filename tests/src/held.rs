//! An origin whose next write can be held: its server has taken it, goes on with it when the test says
//! so, and does not care whether its client is still there.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::ensure;

use crate::{Image, Lab, Process, limits, wait_until};

/// nbdkit over an image, for itself or behind QEMU's server.
pub struct HeldOrigin {
    servers: Vec<Process>,
    image: Image,
    socket: PathBuf,
    hold: PathBuf,
    held: PathBuf,
    release: PathBuf,
    landed: PathBuf,
}

/// Which server a client talks to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HeldServer {
    /// It ends a stream after the last of its requests.
    Nbdkit,
    /// It ends a stream as soon as its client does, and goes on with the requests.
    Qemu,
}

/// Looks of a held write before it goes on by itself: a test that failed leaves nothing behind.
const LOOKS: u32 = 1800;

impl HeldOrigin {
    /// What has to be installed.
    pub const TOOLS: &'static [&'static str] =
        &["nbdkit", "nbdsh", "nbdcopy", "qemu-storage-daemon"];

    /// Serves a new image of `mib` MiB as export `disk`.
    ///
    /// # Errors
    ///
    /// When a server does not listen in time.
    pub fn start(lab: &Lab, mib: u64, server: HeldServer) -> anyhow::Result<Self> {
        let image = Image::new(lab, "origin.raw", mib)?;
        let at = |name: &str| lab.path(name);
        let mut origin = Self {
            servers: Vec::new(),
            image,
            socket: at("origin.sock"),
            hold: at("hold"),
            held: at("held"),
            release: at("release"),
            landed: at("landed"),
        };
        let process = Process::start(lab, "origin", &mut origin.nbdkit())?;
        origin.servers.push(process);
        wait_for_listener(&origin.socket)?;
        if server == HeldServer::Qemu {
            let behind = std::mem::replace(&mut origin.socket, at("qemu.sock"));
            let mut command = qemu(&behind, &origin.socket);
            let process = Process::start(lab, "qemu-origin", &mut command)?;
            origin.servers.push(process);
            wait_for_listener(&origin.socket)?;
        }
        Ok(origin)
    }

    fn nbdkit(&self) -> Command {
        let file = self.image.path().display();
        let (hold, held) = (self.hold.display(), self.held.display());
        let (release, landed) = (self.release.display(), self.landed.display());
        // $3 is the length and $4 the offset.
        let put = format!("dd of={file} seek=$4 conv=notrunc,nocreat oflag=seek_bytes status=none");
        let wait = format!(
            "n=0; while [ ! -e {release} ] && [ $n -lt {LOOKS} ]; do sleep 0.05; n=$((n+1)); done"
        );
        let mut command = Command::new("nbdkit");
        command
            .args(["-f", "-e", "disk", "-U"])
            .arg(&self.socket)
            .args(["eval", "thread_model=echo parallel", "can_flush=exit 0"])
            .arg("can_multi_conn=exit 0")
            .arg(format!("get_size=echo {}", self.image.bytes()))
            .arg(format!(
                "pread=dd if={file} skip=$4 count=$3 iflag=count_bytes,skip_bytes status=none"
            ))
            .arg(format!(
                "pwrite=if mv {hold} {held} 2>/dev/null; then {wait}; {put} && mv {held} {landed}; else {put}; fi"
            ))
            .arg(format!("flush=sync {file}"));
        command
    }

    /// Holds the next write.
    ///
    /// # Errors
    ///
    /// When the lab cannot be written.
    pub fn hold_next_write(&self) -> anyhow::Result<()> {
        for path in [&self.held, &self.release, &self.landed] {
            let _ = std::fs::remove_file(path);
        }
        Ok(std::fs::write(&self.hold, "")?)
    }

    /// Waits until the server has a write that it holds.
    ///
    /// # Errors
    ///
    /// When none comes.
    pub fn wait_until_held(&self) -> anyhow::Result<()> {
        wait_until("a write to be held", limits::SHORT, || {
            Ok(self.held.exists())
        })
    }

    /// Lets the held write go on, and waits until it is done.
    ///
    /// # Errors
    ///
    /// When none was held, or it does not end.
    pub fn release(&self) -> anyhow::Result<()> {
        ensure!(self.held.exists(), "no write is held");
        std::fs::write(&self.release, "")?;
        wait_until("the held write to end", limits::SHORT, || {
            Ok(self.landed.exists())
        })
    }

    /// Its address for a client.
    pub fn uri(&self) -> String {
        format!("nbd+unix:///disk?socket={}", self.socket.display())
    }

    /// Where the server that a client talks to listens.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// What is behind the servers.
    pub fn image(&self) -> &Image {
        &self.image
    }
}

fn qemu(behind: &Path, socket: &Path) -> Command {
    let mut command = Command::new("qemu-storage-daemon");
    command
        .arg("--blockdev")
        .arg(format!(
            "driver=nbd,node-name=n,export=disk,server.type=unix,server.path={}",
            behind.display()
        ))
        .arg("--nbd-server")
        .arg(format!("addr.type=unix,addr.path={}", socket.display()))
        .arg("--export")
        .arg("type=nbd,id=e,node-name=n,name=disk,writable=on");
    command
}

fn wait_for_listener(socket: &Path) -> anyhow::Result<()> {
    wait_until("the origin to listen", limits::SHORT, || {
        Ok(std::os::unix::net::UnixStream::connect(socket).is_ok())
    })
}
