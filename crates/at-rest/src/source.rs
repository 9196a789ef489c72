//! Where the operator's key comes from: a file, a credential of the service, a command.
//!
//! The key is 32 bytes: raw, or as 64 hexadecimal digits with or without a line's end.

use crate::hex::from_hex;
use crate::store::WrappingKey;
use rustix::process::{Pid, Signal, kill_process_group};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

/// Longest that a key may be as text; more is not read.
const SOURCE_BYTES_MAX: u64 = 4096;

/// How long a command for a key may take: a key server far away may want to be asked twice, but a disk
/// that waits for its key is a VM that waits.
pub const COMMAND_TIME_MAX: Duration = Duration::from_secs(30);
/// How often it is looked whether a command has ended.
const COMMAND_LOOK: Duration = Duration::from_millis(10);

/// Where systemd puts credentials (`LoadCredential=`), by an environment variable of this name.
const CREDENTIALS: &str = "CREDENTIALS_DIRECTORY";

/// Where a key comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum KeySource {
    /// A file that has it.
    File(PathBuf),
    /// A credential that systemd gives the service, by its name.
    Credential(String),
    /// A program and its arguments, run without a shell; what it prints is the key.
    Command(Vec<String>),
}

/// Why a key could not be had.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The file cannot be read.
    #[error("cannot read the key from {}", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// There are no credentials.
    #[error(
        "there is no credential {0:?}: the service gets one by LoadCredential= or \
         LoadCredentialEncrypted= in its unit"
    )]
    NoCredential(String),
    /// The command cannot be run.
    #[error("cannot run {program:?} for the key")]
    Run {
        /// Which program.
        program: String,
        /// What the system said.
        source: io::Error,
    },
    /// The command failed.
    #[error("{program:?} gave no key: it ended with {status}")]
    Failed {
        /// Which program.
        program: String,
        /// How it ended.
        status: ExitStatus,
    },
    /// The command took too long.
    #[error("{program:?} gave no key within {seconds} s and was killed")]
    Late {
        /// Which program.
        program: String,
        /// How long it had.
        seconds: u64,
    },
    /// No command.
    #[error("the command for the key is empty: name a program")]
    NoCommand,
    /// What came is no key.
    #[error(
        "the key from {from} has {bytes} bytes: give 32 bytes, or 64 hexadecimal digits (for \
         example by `openssl rand -hex 32`)"
    )]
    NotAKey {
        /// Where it came from.
        from: String,
        /// How long it is.
        bytes: usize,
    },
}

impl KeySource {
    /// Fetches the key. A command that takes longer than [`COMMAND_TIME_MAX`] is killed.
    ///
    /// # Errors
    /// [`SourceError`]; it never has a part of the key.
    pub fn fetch(&self) -> Result<WrappingKey, SourceError> {
        match self {
            Self::File(path) => read(path.clone()),
            Self::Credential(name) => {
                let none = || SourceError::NoCredential(name.clone());
                let plain = !name.is_empty() && !name.contains('/') && name != "..";
                let dir = std::env::var_os(CREDENTIALS).filter(|_| plain);
                let path = PathBuf::from(dir.ok_or_else(none)?).join(name);
                if !path.exists() {
                    return Err(none());
                }
                read(path)
            }
            Self::Command(words) => run(words, COMMAND_TIME_MAX),
        }
    }
}

fn read(path: PathBuf) -> Result<WrappingKey, SourceError> {
    let mut bytes = Vec::new();
    let read =
        File::open(&path).and_then(|file| file.take(SOURCE_BYTES_MAX).read_to_end(&mut bytes));
    match read {
        Ok(_) => key_of(&bytes, || path.display().to_string()),
        Err(source) => Err(SourceError::File { path, source }),
    }
}

fn run(words: &[String], time_max: Duration) -> Result<WrappingKey, SourceError> {
    let (program, arguments) = words.split_first().ok_or(SourceError::NoCommand)?;
    let failed = |source| SourceError::Run {
        program: program.clone(),
        source,
    };
    let deadline = Instant::now() + time_max;
    // A group of its own, so that what it has started ends with it.
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .process_group(0)
        .spawn()
        .map_err(failed)?;
    let printed = read_aside(child.stdout.take().expect("it was asked for"));
    let bytes = printed.recv_timeout(time_max).ok();
    let status = wait(&mut child, deadline).map_err(failed)?;
    let (Some(bytes), Some(status)) = (bytes, status) else {
        // Children that it has left behind are in its group too.
        let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
        child.wait().map_err(failed)?;
        return Err(SourceError::Late {
            program: program.clone(),
            seconds: time_max.as_secs(),
        });
    };
    if !status.success() {
        return Err(SourceError::Failed {
            program: program.clone(),
            status,
        });
    }
    key_of(&bytes.map_err(failed)?, || format!("{program:?}"))
}

/// Reads what a program prints, on a thread that ends with the program.
fn read_aside(mut from: ChildStdout) -> Receiver<io::Result<Vec<u8>>> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = from.by_ref().take(SOURCE_BYTES_MAX).read_to_end(&mut bytes);
        // Nobody listens any more if it was late.
        let _ = sender.send(read.map(|_| bytes));
        // A program that goes on printing is told so by its broken pipe.
    });
    receiver
}

/// How a program ended; nothing if it has not ended by then.
fn wait(child: &mut Child, deadline: Instant) -> io::Result<Option<ExitStatus>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= deadline {
            return Ok(None);
        }
        std::thread::sleep(COMMAND_LOOK);
    }
}

fn key_of(bytes: &[u8], from: impl FnOnce() -> String) -> Result<WrappingKey, SourceError> {
    if let Ok(raw) = <[u8; WrappingKey::BYTES]>::try_from(bytes) {
        return Ok(WrappingKey::new(raw));
    }
    let key = from_hex(bytes.trim_ascii_end()).map(WrappingKey::new);
    key.ok_or_else(|| SourceError::NotAKey {
        from: from(),
        bytes: bytes.len(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEX: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191A1B1C1D1E1F";

    fn key() -> WrappingKey {
        let bytes: Vec<u8> = (0..32).collect();
        WrappingKey::new(bytes.try_into().unwrap())
    }

    #[test]
    fn a_file_has_it_raw_or_in_hexadecimal() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        let raw: Vec<u8> = (0..32).collect();
        for text in [raw, HEX.into(), format!("{HEX}\n").into()] {
            std::fs::write(&path, text).unwrap();
            let fetched = KeySource::File(path.clone()).fetch().unwrap();
            assert!(fetched.is(&key()));
        }
    }

    #[test]
    fn what_is_no_key_is_refused_with_its_length_and_without_its_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        for text in ["", "secret", &HEX[1..], &format!("{}x", &HEX[1..])] {
            std::fs::write(&path, text).unwrap();
            let error = KeySource::File(path.clone()).fetch().unwrap_err();
            let said = error.to_string();
            assert!(
                said.contains(&format!("has {} bytes", text.len())),
                "{said}"
            );
            assert!(text.is_empty() || !said.contains(text));
        }
        let error = KeySource::File(dir.path().join("none")).fetch();
        assert!(matches!(error, Err(SourceError::File { .. })));
    }

    #[test]
    fn a_command_prints_it() {
        let words = |words: &[&str]| KeySource::Command(words.iter().map(|&w| w.into()).collect());
        assert!(words(&["echo", HEX]).fetch().unwrap().is(&key()));
        let failed = words(&["false"]).fetch();
        assert!(matches!(failed, Err(SourceError::Failed { .. })));
        let none = words(&["/nowhere/to/be/found"]).fetch();
        assert!(matches!(none, Err(SourceError::Run { .. })));
        assert!(matches!(words(&[]).fetch(), Err(SourceError::NoCommand)));
        let endless = words(&["yes"]).fetch();
        assert!(endless.is_err(), "what prints for ever is cut off");
    }

    #[test]
    fn a_command_that_does_not_end_is_killed_with_all_that_it_started() {
        let dir = tempfile::tempdir().unwrap();
        let own = dir.path().join("pids").display().to_string();
        for script in [
            format!("echo $$ > {own}; exec sleep 1000"),
            format!("echo $$ > {own}; echo {HEX}; exec >&-; exec sleep 1000"),
            format!("sleep 1000 & echo $! > {own}; echo {HEX}"),
        ] {
            let words = ["sh", "-c", &script].map(str::to_owned);
            let late = run(&words, Duration::from_millis(500));
            assert!(matches!(late, Err(SourceError::Late { .. })), "{script}");
            let id = std::fs::read_to_string(&own).unwrap();
            let id = Pid::from_raw(id.trim().parse().unwrap()).unwrap();
            let deadline = Instant::now() + Duration::from_secs(30);
            while is_alive(id) {
                assert!(Instant::now() < deadline, "it still runs: {script}");
                std::thread::sleep(COMMAND_LOOK);
            }
        }
    }

    /// An orphan that nobody has waited for yet is a zombie, and dead.
    fn is_alive(id: Pid) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat"));
        stat.is_ok_and(|stat| !stat.contains(") Z "))
    }

    #[test]
    fn a_credential_is_named_and_not_pathed() {
        for name in ["", "../key", "a/b", ".."] {
            let refused = KeySource::Credential(name.into()).fetch();
            assert!(matches!(refused, Err(SourceError::NoCredential(_))));
        }
    }
}
