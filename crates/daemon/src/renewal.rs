//! The daemon becomes another one in place: on SIGUSR2, the program that now lies where ours was
//! started from takes over, under the same process id, with our listening sockets.
//!
//! ```text
//!   SIGUSR2 ─► its --check-config ─┬─ would not start ─► logged; we serve on
//!                                  └─ would start ─────► clean stop ─► execve, LISTEN_FDS
//! ```
//!
//! Nothing else is handed over: what the caches and the rings know is on flash, in the memory that
//! QEMU holds and in the runtime directory, where it has to be for a crash as well.

use command_fds::{CommandFdExt as _, FdMapping};
use rustix::fs::MemfdFlags;
use serde::Deserialize;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The first descriptor that is handed over, as the protocol has it.
const FIRST: i32 = 3;

/// How long the program may take to say whether it would start: less than a stop may.
const CHECK_TIME_MAX: Duration = Duration::from_secs(20);
/// How often it is looked whether it has said so.
const CHECK_LOOK: Duration = Duration::from_millis(20);

/// Whether the program would start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing is wrong.
    Sound,
    /// Something is wrong with some disks, and it would serve the others.
    Starts(String),
    /// It would not, or does not say.
    Refused(String),
}

/// What a program says of its configuration; an older one says less.
#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    starts: bool,
}

/// The verdict of a program that has answered; none if it would not start.
fn judge(answer: &Output) -> Option<Verdict> {
    if answer.status.success() {
        return Some(Verdict::Sound);
    }
    let said: Answer = serde_json::from_slice(&answer.stdout).ok()?;
    let faults = String::from_utf8_lossy(&answer.stderr);
    let faults = faults.trim().to_owned();
    said.starts.then_some(Verdict::Starts(faults))
}

/// How this process was started, and what it will become.
#[derive(Clone, Debug)]
pub(super) struct Renewal {
    program: PathBuf,
    arguments: Vec<OsString>,
}

impl Renewal {
    /// To be called at start: later another program may lie there, and ours be called deleted.
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            program: std::env::current_exe()?,
            arguments: std::env::args_os().skip(1).collect(),
        })
    }

    /// Asks the program whether it would start, for [`CHECK_TIME_MAX`] at most, or until it is given
    /// up; then the program is killed.
    pub(super) fn check(&self, given_up: &AtomicBool) -> Verdict {
        let program = self.program.display();
        match self.answer(given_up) {
            Ok(Some(answer)) => judge(&answer).unwrap_or_else(|| {
                let said = String::from_utf8_lossy(&answer.stderr);
                Verdict::Refused(format!("{program}: {}: {}", answer.status, said.trim()))
            }),
            Ok(None) => Verdict::Refused(format!(
                "{program}: it has not said within {} s whether it would start",
                CHECK_TIME_MAX.as_secs()
            )),
            Err(error) => Verdict::Refused(format!("{program}: {error}")),
        }
    }

    /// What the program says; none if it says nothing in time. It writes to files in memory: a pipe
    /// that nobody reads meanwhile would stop it.
    fn answer(&self, given_up: &AtomicBool) -> io::Result<Option<Output>> {
        let memory = |name| rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC).map(File::from);
        let (mut stdout, mut stderr) = (memory("stdout")?, memory("stderr")?);
        let mut child = Command::new(&self.program)
            .args(&self.arguments)
            .args(["--check-config", "--json"])
            .stdin(Stdio::null())
            .stdout(stdout.try_clone()?)
            .stderr(stderr.try_clone()?)
            .spawn()?;
        let deadline = Instant::now() + CHECK_TIME_MAX;
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            if given_up.load(Ordering::Relaxed) || Instant::now() >= deadline {
                child.kill()?;
                child.wait()?;
                return Ok(None);
            }
            std::thread::sleep(CHECK_LOOK);
        };
        let read = |file: &mut File| -> io::Result<Vec<u8>> {
            let mut bytes = Vec::new();
            file.seek(SeekFrom::Start(0))?;
            file.read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        Ok(Some(Output {
            status,
            stdout: read(&mut stdout)?,
            stderr: read(&mut stderr)?,
        }))
    }

    /// Becomes that program. Returns only if that fails. No thread may use descriptors any more
    /// whose loss would matter: some are replaced.
    pub(super) fn become_it(&self, heirs: Vec<(String, OwnedFd)>) -> io::Error {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments);
        let mut mappings = Vec::new();
        let mut names = Vec::new();
        for (child_fd, (name, parent_fd)) in (FIRST..).zip(heirs) {
            // A colon would make two names of it; without its name the socket is of no use.
            names.push(if name.contains(':') { "-" } else { &name }.to_owned());
            mappings.push(FdMapping {
                parent_fd,
                child_fd,
            });
        }
        command.env("LISTEN_FDS", mappings.len().to_string());
        command.env("LISTEN_FDNAMES", names.join(":"));
        // The process stays the same one.
        command.env("LISTEN_PID", std::process::id().to_string());
        if let Err(error) = command.fd_mappings(mappings) {
            return io::Error::other(error);
        }
        command.exec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(program: &str) -> Renewal {
        Renewal {
            program: program.into(),
            arguments: Vec::new(),
        }
    }

    fn checked(program: &str) -> Verdict {
        of(program).check(&AtomicBool::new(false))
    }

    fn refused(program: &str) -> String {
        match checked(program) {
            Verdict::Refused(reason) => reason,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_program_that_would_not_start_is_found_out() {
        assert_eq!(checked("/bin/true"), Verdict::Sound);
        assert!(refused("/bin/false").contains("exit status: 1"));
        assert!(refused("/nowhere").contains("/nowhere"));
    }

    fn script(folder: &std::path::Path, text: &str) -> String {
        use std::os::unix::fs::PermissionsExt as _;
        let path = folder.join("program");
        std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path.display().to_string()
    }

    #[test]
    fn a_program_that_would_start_with_faults_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let says =
            |starts| format!("echo '{{\"sound\":false,\"starts\":{starts}}}'; echo no >&2; exit 2");
        let program = script(folder.path(), &says(true));
        assert_eq!(checked(&program), Verdict::Starts("no".to_owned()));
        let program = script(folder.path(), &says(false));
        assert!(refused(&program).contains("no"));
    }

    #[test]
    fn a_check_that_is_given_up_ends_its_program() {
        let folder = tempfile::tempdir().unwrap();
        let program = script(folder.path(), "exec sleep 1000");
        let given_up = AtomicBool::new(true);
        assert!(matches!(of(&program).check(&given_up), Verdict::Refused(_)));
    }
}
