//! An iSCSI target of its own on the loopback: tgt.

use crate::{Image, Lab, Process, free_port, run, wait_until};
use anyhow::Context as _;
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// How long the target has until it listens.
const STARTS_IN: Duration = Duration::from_mins(1);
/// The target's name.
const NAME: &str = "iqn.2026-01.org.example:vms";

/// The target. It ends with this.
pub struct Tgt {
    port: u16,
    units: Vec<PathBuf>,
    /// None while it is killed.
    process: Option<Process>,
}

impl Tgt {
    /// What it needs.
    pub const TOOLS: &'static [&'static str] = &["tgtd", "tgtadm"];

    /// Starts one that offers these images as units, from 1 on.
    ///
    /// # Errors
    ///
    /// When it does not listen in time.
    pub fn start(lab: &Lab, images: &[&Image]) -> anyhow::Result<Self> {
        let units = images.iter().map(|image| image.path().to_path_buf());
        let mut tgt = Self {
            port: free_port()?,
            units: units.collect(),
            process: None,
        };
        tgt.start_again(lab)?;
        Ok(tgt)
    }

    /// Starts it again after [`Tgt::kill`].
    ///
    /// # Errors
    ///
    /// When it does not listen in time.
    pub fn start_again(&mut self, lab: &Lab) -> anyhow::Result<()> {
        std::fs::create_dir_all("/var/run/tgtd")?;
        let mut command = Command::new("tgtd");
        command.args(["-f", "-C", &self.control(), "--iscsi"]);
        command.arg(format!("portal=127.0.0.1:{}", self.port));
        self.process = Some(Process::start(lab, "tgt", &mut command)?);
        let port = self.port;
        wait_until("the target to listen", STARTS_IN, || {
            Ok(TcpStream::connect(("127.0.0.1", port)).is_ok())
        })?;
        self.tell(&["--op", "new", "--mode", "target", "--tid", "1", "-T", NAME])?;
        for (number, file) in (1..).zip(&self.units) {
            let (number, file): (u16, _) = (number, file.to_str().context("a path of ASCII")?);
            let unit = [
                "--mode",
                "logicalunit",
                "--tid",
                "1",
                "--lun",
                &number.to_string(),
            ]
            .map(str::to_owned);
            let unit: Vec<&str> = unit.iter().map(String::as_str).collect();
            self.tell(
                &[
                    &["--op", "new"],
                    &unit[..],
                    &["--bstype", "rdwr", "--backing-store", file],
                ]
                .concat(),
            )?;
            self.tell(
                &[
                    &["--op", "update"],
                    &unit[..],
                    &["--params", "thin_provisioning=1"],
                ]
                .concat(),
            )?;
        }
        self.tell(&[
            "--op", "bind", "--mode", "target", "--tid", "1", "-I", "ALL",
        ])
    }

    /// Ends it at once, connections and all.
    ///
    /// # Errors
    ///
    /// When it was not running.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        self.process
            .take()
            .context("the target is not running")?
            .kill()
    }

    /// A unit's address for Hearth.
    pub fn address(&self, unit: u16) -> String {
        format!("iscsi://127.0.0.1:{}/{NAME}/{unit}", self.port)
    }

    /// A number that no other target of this machine has: its port's.
    fn control(&self) -> String {
        self.port.to_string()
    }

    fn tell(&self, words: &[&str]) -> anyhow::Result<()> {
        let mut command = Command::new("tgtadm");
        command.args(["-C", &self.control(), "--lld", "iscsi"]);
        run(command.args(words)).map(drop)
    }
}
