//! A client that knows what a disk must hold after its server was cut off: every sector carries a
//! version, and `clients/versions.py` remembers which were answered.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::ensure;

use crate::{Lab, Process, limits, run, wait_until};

/// What was written to one disk over all lives of its server.
pub struct Versions<'a> {
    lab: &'a Lab,
    state: PathBuf,
    writers: u32,
}

/// A client in the middle of its writes.
pub struct VersionsWriter(Process);

impl<'a> Versions<'a> {
    /// Of a disk that nobody has written yet.
    pub fn new(lab: &'a Lab) -> Self {
        Self {
            lab,
            state: lab.path("versions.json"),
            writers: 0,
        }
    }

    /// Starts a client that writes to `uri` until its server is gone, or for `seconds`, and waits
    /// until it is in full swing.
    ///
    /// # Errors
    ///
    /// When it does not get there.
    pub fn write(&mut self, uri: &str, seconds: u32) -> anyhow::Result<VersionsWriter> {
        self.writers += 1;
        let mut command = self.client("write", uri);
        command.arg(seconds.to_string());
        let name = format!("writer-{}", self.writers);
        let writer = Process::start(self.lab, &name, &mut command)?;
        wait_until("the writer to be in full swing", limits::SHORT, || {
            Ok(std::fs::read_to_string(writer.log())?.contains("warm"))
        })?;
        Ok(VersionsWriter(writer))
    }

    /// Writes to `uri` for `seconds`, however few writes these bring.
    ///
    /// # Errors
    ///
    /// When its server failed it.
    pub fn write_for(&mut self, uri: &str, seconds: u32) -> anyhow::Result<()> {
        let said = run(self.client("write", uri).arg(seconds.to_string()))?.stdout;
        ensure!(!said.contains("the server is gone"), "{said}");
        Ok(())
    }

    /// Checks that each block holds its last answered version, or one that was in flight, and that
    /// nothing has gone back since the last check.
    ///
    /// # Errors
    ///
    /// When a sector holds anything else.
    pub fn verify(&self, uri: &str) -> anyhow::Result<()> {
        run(&mut self.client("verify", uri)).map(drop)
    }

    /// Writes to `uri` for `seconds`, and notes when each request was sent and answered.
    ///
    /// # Errors
    ///
    /// When its server failed it.
    pub fn record(&mut self, uri: &str, seconds: u32) -> anyhow::Result<()> {
        let mut command = client();
        command.args(["record", uri]).arg(self.events());
        let said = run(command.arg(seconds.to_string()))?.stdout;
        ensure!(!said.contains("the server is gone"), "{said}");
        Ok(())
    }

    /// Checks that `image` is what a power cut `at` this moment of [`crate::Point::at`] may have left
    /// of what [`Versions::record`] wrote: of `disk`, or of `origin` alone.
    ///
    /// # Errors
    ///
    /// When it is not.
    pub fn judge(&self, what: &str, image: &Path, at: f64) -> anyhow::Result<()> {
        let mut command = client();
        command.args(["judge", what]).arg(image).arg(self.events());
        run(command.arg(at.to_string())).map(drop)
    }

    fn events(&self) -> PathBuf {
        self.lab.path("versions.events")
    }

    fn client(&self, verb: &str, uri: &str) -> Command {
        let mut command = client();
        command.args([verb, uri]).arg(&self.state);
        command
    }
}

fn client() -> Command {
    let mut command = Command::new("/usr/bin/python3");
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/clients/versions.py"));
    command
}

impl VersionsWriter {
    /// Waits for its end after its server was killed.
    ///
    /// # Errors
    ///
    /// When it had ended before, and so has shown nothing, or failed otherwise.
    pub fn was_cut_off(self) -> anyhow::Result<()> {
        let said = self.end()?;
        ensure!(
            said.contains("the server is gone"),
            "the writer ended before the kill: {said}"
        );
        Ok(())
    }

    /// Waits until its time is up.
    ///
    /// # Errors
    ///
    /// When its server failed it.
    pub fn finish(self) -> anyhow::Result<()> {
        let said = self.end()?;
        ensure!(!said.contains("the server is gone"), "{said}");
        Ok(())
    }

    fn end(self) -> anyhow::Result<String> {
        let log = self.0.log().to_path_buf();
        ensure!(self.0.wait(limits::LONG)?.success(), "the writer failed");
        Ok(std::fs::read_to_string(log)?)
    }
}
