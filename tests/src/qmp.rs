//! QEMU's monitor: commands over its unix socket, one after the other.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;

use anyhow::{Context as _, bail};
use serde_json::{Value, json};

use crate::limits;

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

    fn line(&mut self) -> anyhow::Result<Value> {
        let mut line = String::new();
        self.lines
            .read_line(&mut line)
            .context("a monitor's answer")?;
        serde_json::from_str(&line).with_context(|| format!("a monitor said '{line}'"))
    }
}
