//! The origin of most tests: nbdkit over an image. Its log says what reached it, which is how a test
//! knows that Hearth served something from flash without asking Hearth.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use crate::{Image, Lab, Process, limits, wait_until};

/// How the origin behaves.
#[derive(Clone, Default)]
pub struct OriginSettings {
    /// What every read and write takes longer, as nbdkit writes it (`1ms`).
    pub delay: Option<&'static str>,
    /// While this file exists every request fails.
    pub failing_while: Option<PathBuf>,
    /// With which error, as nbdkit writes it; if none, `EIO`.
    pub failing_with: Option<&'static str>,
}

/// A kind of request in the origin's log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RequestKind {
    /// A read.
    Read,
    /// A write.
    Write,
    /// A flush.
    Flush,
    /// A discard.
    Trim,
    /// Zeroes.
    Zero,
}

/// A request that reached the origin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// What was asked.
    pub kind: RequestKind,
    /// Where it begins.
    pub offset: u64,
    /// How far it goes.
    pub length: u64,
    /// Whether it had to be durable before its answer.
    pub fua: bool,
}

/// A running nbdkit.
pub struct Origin {
    process: Option<Process>,
    settings: OriginSettings,
    image: PathBuf,
    socket: PathBuf,
    log: PathBuf,
}

impl Origin {
    /// Serves `image` as export `disk` on a unix socket of its own.
    ///
    /// # Errors
    ///
    /// When nbdkit does not listen in time.
    pub fn start(lab: &Lab, image: &Image, settings: OriginSettings) -> anyhow::Result<Self> {
        let mut origin = Self {
            process: None,
            settings,
            image: image.path().to_path_buf(),
            socket: lab.path("origin.sock"),
            log: lab.path("origin-requests.txt"),
        };
        origin.restart(lab)?;
        Ok(origin)
    }

    /// Starts it again after [`Origin::kill`] or [`Origin::stop`].
    ///
    /// # Errors
    ///
    /// When nbdkit does not listen in time.
    pub fn restart(&mut self, lab: &Lab) -> anyhow::Result<()> {
        anyhow::ensure!(self.process.is_none(), "the origin is running");
        let _ = std::fs::remove_file(&self.socket);
        let mut command = Command::new("nbdkit");
        command
            .arg("-f")
            .arg("-U")
            .arg(&self.socket)
            .args(["-e", "disk", "--filter=log"]);
        if self.settings.failing_while.is_some() {
            command.arg("--filter=error");
        }
        if self.settings.delay.is_some() {
            command.arg("--filter=delay");
        }
        command.arg("file").arg(&self.image);
        command
            .arg(format!("logfile={}", self.log.display()))
            .arg("logappend=true");
        if let Some(file) = &self.settings.failing_while {
            command
                .arg(format!(
                    "error={}",
                    self.settings.failing_with.unwrap_or("EIO")
                ))
                .arg("error-rate=100%")
                .arg(format!("error-file={}", file.display()));
        }
        if let Some(delay) = self.settings.delay {
            command.args([format!("rdelay={delay}"), format!("wdelay={delay}")]);
        }
        self.process = Some(Process::start(lab, "origin", &mut command)?);
        let socket = self.socket.clone();
        wait_until("the origin to listen", limits::SHORT, || {
            Ok(std::os::unix::net::UnixStream::connect(&socket).is_ok())
        })
    }

    /// Ends it at once, connections and all.
    ///
    /// # Errors
    ///
    /// When it was not running.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        self.process
            .take()
            .context("the origin is not running")?
            .kill()
    }

    /// Asks it to stop, and waits until it has.
    ///
    /// # Errors
    ///
    /// When it was not running, or does not stop in time.
    pub fn stop(&mut self) -> anyhow::Result<()> {
        let process = self.process.take().context("the origin is not running")?;
        process.terminate().map(|_| ())
    }

    /// Its socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Its address for a client.
    pub fn uri(&self) -> String {
        format!("nbd+unix:///disk?socket={}", self.socket.display())
    }

    /// Every request that reached it so far, in order of arrival.
    ///
    /// # Errors
    ///
    /// When the log cannot be read.
    pub fn requests(&self) -> anyhow::Result<Vec<Request>> {
        let text = std::fs::read_to_string(&self.log).context("the origin's log")?;
        Ok(text.lines().filter_map(parse_request).collect())
    }

    /// The requests of one kind from number `from` on.
    ///
    /// # Errors
    ///
    /// When the log cannot be read.
    pub fn since(&self, from: usize, kind: RequestKind) -> anyhow::Result<Vec<Request>> {
        let mut requests = self.requests()?.split_off(from);
        requests.retain(|request| request.kind == kind);
        Ok(requests)
    }

    /// The reads among the requests from number `from` on.
    ///
    /// # Errors
    ///
    /// When the log cannot be read.
    pub fn reads_since(&self, from: usize) -> anyhow::Result<Vec<Request>> {
        self.since(from, RequestKind::Read)
    }
}

impl Request {
    /// The 4 KiB blocks that requests touch.
    pub fn blocks(requests: &[Self]) -> BTreeSet<u64> {
        let touched = requests.iter().filter(|request| request.length > 0);
        touched
            .flat_map(|request| {
                request.offset / 4096..=(request.offset + request.length - 1) / 4096
            })
            .collect()
    }
}

/// `2026-.. connection=1 Read id=7 offset=0x1000 count=0x200 ...`; anything else is no request, the
/// line that ends one (`...Read id=7 return=0`) among it.
fn parse_request(line: &str) -> Option<Request> {
    let mut words = line
        .split_whitespace()
        .skip_while(|word| !word.starts_with("connection="))
        .skip(1);
    let kind = match words.next()? {
        "Read" => RequestKind::Read,
        "Write" => RequestKind::Write,
        "Flush" => RequestKind::Flush,
        "Trim" => RequestKind::Trim,
        "Zero" => RequestKind::Zero,
        _ => return None,
    };
    let (mut offset, mut length, mut fua) = (0, 0, false);
    for word in words {
        match word.split_once('=') {
            Some(("offset", value)) => offset = hexadecimal(value)?,
            Some(("count", value)) => length = hexadecimal(value)?,
            Some(("fua", value)) => fua = value == "1",
            _ => {}
        }
    }
    Some(Request {
        kind,
        offset,
        length,
        fua,
    })
}

fn hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_from_its_first_line_only() {
        let first =
            "2026-11-21 03:52:08.733378 connection=1 Read id=1 offset=0x1000 count=0x200 ...";
        let expected = Request {
            kind: RequestKind::Read,
            offset: 0x1000,
            length: 0x200,
            fua: false,
        };
        assert_eq!(parse_request(first), Some(expected));
        assert_eq!(
            parse_request("2026-11-21 03:52:08.733391 connection=1 ...Read id=1 return=0"),
            None
        );
        assert_eq!(
            parse_request("2026-11-21 03:52:08.719517 ...Preconnect id=1 return=0"),
            None
        );
    }

    #[test]
    fn a_durable_write_is_told_apart() {
        let line =
            "2026-11-21 03:52:08.7 connection=2 Write id=9 offset=0x0 count=0x1000 fua=1 ...";
        assert!(parse_request(line).unwrap().fua);
    }

    #[test]
    fn a_request_touches_every_block_it_reaches_into() {
        let request = Request {
            kind: RequestKind::Read,
            offset: 4095,
            length: 2,
            fua: false,
        };
        assert_eq!(Request::blocks(&[request]), BTreeSet::from([0, 1]));
    }
}
