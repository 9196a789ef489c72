//! QEMU's monitor: commands over its unix socket, one after the other.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use serde_json::{Value, json};

use crate::{limits, wait_until};

/// A connection to a monitor.
pub struct Qmp {
    lines: BufReader<UnixStream>,
}

impl Qmp {
    /// Connects and says hello.
    ///
    /// # Errors
    ///
    /// When nobody answers there.
    pub fn connect(path: &Path) -> anyhow::Result<Self> {
        let socket = UnixStream::connect(path).context("a monitor's socket")?;
        socket.set_read_timeout(Some(limits::SHORT))?;
        let mut qmp = Self {
            lines: BufReader::new(socket),
        };
        qmp.line()?;
        qmp.ask("qmp_capabilities", &json!({}))?;
        Ok(qmp)
    }

    /// Does a command and gives its answer.
    ///
    /// # Errors
    ///
    /// When it is refused.
    pub fn ask(&mut self, command: &str, arguments: &Value) -> anyhow::Result<Value> {
        let text = json!({ "execute": command, "arguments": arguments }).to_string();
        self.lines.get_mut().write_all(text.as_bytes())?;
        loop {
            let mut answer = self.line()?;
            if answer.get("error").is_some() {
                bail!("{command}: {answer}");
            }
            // Anything else is an event.
            if let Some(result) = answer.get_mut("return") {
                return Ok(result.take());
            }
        }
    }

    /// Has the guest begin to move to the QEMU that listens at `link`, in one pass: an emulated CPU loses pages of memory
    /// when there are several.
    ///
    /// # Errors
    ///
    /// When QEMU refuses.
    pub fn begin_move(&mut self, link: &Path) -> anyhow::Result<()> {
        self.move_in_one_pass()?;
        let uri = format!("unix:{}", link.display());
        self.ask("migrate", &json!({ "uri": uri })).map(drop)
    }

    /// Has each later move take one pass, whoever begins it.
    ///
    /// # Errors
    ///
    /// When QEMU refuses.
    pub fn move_in_one_pass(&mut self) -> anyhow::Result<()> {
        // The guest may stand still for a minute, in milliseconds, which is far more than its memory needs at this rate.
        let parameters = json!({ "max-bandwidth": 2_000_000_000_u64, "downtime-limit": 60_000 });
        self.ask("migrate-set-parameters", &parameters).map(drop)
    }

    /// Says whether the guest stands still in a later move, from when it has stopped here until it is told to go on.
    ///
    /// # Errors
    ///
    /// When QEMU refuses.
    pub fn pause_before_switchover(&mut self, pauses: bool) -> anyhow::Result<()> {
        let pauses = json!({ "capability": "pause-before-switchover", "state": pauses });
        let capabilities = json!({ "capabilities": [pauses] });
        self.ask("migrate-set-capabilities", &capabilities)
            .map(drop)
    }

    /// Waits until the guest's move has come to a state.
    ///
    /// # Errors
    ///
    /// When it does not, or fails instead.
    pub fn wait_for_move(&mut self, status: &str) -> anyhow::Result<()> {
        wait_until("the guest to have moved", limits::LONG, || {
            let state = self.ask("query-migrate", &json!({}))?;
            ensure!(status == "failed" || state["status"] != "failed", "{state}");
            Ok(state["status"] == status)
        })
    }

    fn line(&mut self) -> anyhow::Result<Value> {
        let mut line = String::new();
        self.lines
            .read_line(&mut line)
            .context("a monitor's answer")?;
        serde_json::from_str(&line).with_context(|| format!("a monitor said '{line}'"))
    }
}
