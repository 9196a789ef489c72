//! fio over NBD, with every block checked.

use std::process::Command;

use crate::{Lab, Output, tools};

/// A fio job, built up option by option.
pub struct Fio {
    command: Command,
}

impl Fio {
    /// A job on the export that `uri` names. What fio writes down beside goes into the lab.
    pub fn new(lab: &Lab, name: &str, uri: &str) -> Self {
        let mut command = Command::new("fio");
        command.current_dir(lab.folder()).args([
            "--ioengine=nbd",
            "--thread=1",
            "--group_reporting=1",
            "--randrepeat=1",
            "--verify_state_save=0",
        ]);
        command
            .arg(format!("--name={name}"))
            .arg(format!("--uri={uri}"));
        Self { command }
    }

    /// An option as fio writes it (`rw=randwrite`).
    #[must_use]
    pub fn with(mut self, option: &str) -> Self {
        self.command.arg(format!("--{option}"));
        self
    }

    /// Blocks carry a checksum and say where they belong; the first wrong one ends the job.
    #[must_use]
    pub fn verified(self) -> Self {
        self.with("verify=crc32c")
            .with("verify_fatal=1")
            .with("verify_dump=0")
    }

    /// Runs it to its end.
    ///
    /// # Errors
    ///
    /// When fio fails, because of a wrong block among other things.
    pub fn run(mut self) -> anyhow::Result<Output> {
        tools::run(&mut self.command)
    }

    /// The command, to be started and cut off.
    pub fn into_command(self) -> Command {
        self.command
    }
}
