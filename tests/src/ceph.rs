//! A Ceph cluster of its own on the loopback: `scripts/ceph`, which has its daemons end with it.

use crate::{Image, Lab, Process, free_port, run, wait_until};
use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// How long the cluster has until it takes images.
const STARTS_IN: Duration = Duration::from_mins(2);

/// The cluster. It ends with this.
pub struct Ceph {
    folder: PathBuf,
    _script: Process,
}

impl Ceph {
    /// What it needs.
    pub const TOOLS: &'static [&'static str] = &["ceph-mon", "ceph-osd", "ceph", "rbd", "setpriv"];

    /// Starts one.
    ///
    /// # Errors
    ///
    /// When it does not take images in time.
    pub fn start(lab: &Lab) -> anyhow::Result<Self> {
        let folder = lab.path("ceph");
        let mut script = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/ceph"));
        script.arg(&folder).arg(free_port()?.to_string());
        let script = Process::start(lab, "ceph", &mut script)?;
        let ready = folder.join("ready");
        wait_until("Ceph to take images", STARTS_IN, || Ok(ready.exists()))?;
        Ok(Self {
            folder,
            _script: script,
        })
    }

    /// Creates an image in the pool `rbd`; its address for Hearth.
    ///
    /// # Errors
    ///
    /// When Ceph refuses.
    pub fn image(&self, name: &str, mib: u64) -> anyhow::Result<String> {
        let size = format!("{mib}M");
        self.run(&["rbd", "create", "--size", &size, &format!("rbd/{name}")])?;
        Ok(self.address(name))
    }

    /// The same with the bytes of an image that is a file.
    ///
    /// # Errors
    ///
    /// When Ceph refuses.
    pub fn image_of(&self, name: &str, bytes: &Image) -> anyhow::Result<String> {
        let path = bytes.path().to_str().context("a path of ASCII")?;
        self.run(&[
            "rbd",
            "import",
            "--no-progress",
            path,
            &format!("rbd/{name}"),
        ])?;
        Ok(self.address(name))
    }

    /// Clones a protected snapshot of an image of the pool; the clone's address for Hearth.
    ///
    /// # Errors
    ///
    /// When Ceph refuses.
    pub fn clone_of(&self, snapshot: &str, name: &str) -> anyhow::Result<String> {
        let (parent, clone) = (format!("rbd/{snapshot}"), format!("rbd/{name}"));
        self.run(&["rbd", "clone", &parent, &clone])?;
        Ok(self.address(name))
    }

    fn address(&self, name: &str) -> String {
        let conf = self.folder.join("ceph.conf");
        format!("rbd:rbd/{name}?conf={}&user=hearth", conf.display())
    }

    /// Runs one of Ceph's commands; what it said.
    ///
    /// # Errors
    ///
    /// When it fails.
    pub fn run(&self, words: &[&str]) -> anyhow::Result<String> {
        let (program, words) = words.split_first().context("a command")?;
        let mut command = Command::new(program);
        command.args(words);
        command.env("CEPH_CONF", self.folder.join("ceph.conf"));
        Ok(run(&mut command)?.stdout)
    }

    /// The bytes of an image, as Ceph's own command reads them.
    ///
    /// # Errors
    ///
    /// When it does not.
    pub fn bytes(&self, name: &str) -> anyhow::Result<Vec<u8>> {
        let file = self.folder.join(format!("{name}.export"));
        let path = file.to_str().context("a path of ASCII")?;
        let _ = std::fs::remove_file(&file);
        self.run(&[
            "rbd",
            "export",
            "--no-progress",
            &format!("rbd/{name}"),
            path,
        ])?;
        Ok(std::fs::read(&file)?)
    }

    /// Signals one of its daemons: `mon` or `osd`.
    ///
    /// # Errors
    ///
    /// When it is not there.
    pub fn signal(&self, daemon: &str, signal: Signal) -> anyhow::Result<()> {
        let pid = std::fs::read_to_string(self.folder.join(format!("{daemon}.pid")))?;
        let pid = Pid::from_raw(pid.trim().parse()?).context("a process id")?;
        Ok(kill_process(pid, signal)?)
    }
}
