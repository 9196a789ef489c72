//! The daemon becomes another one in place: on SIGUSR2, the program that now lies where ours was
//! started from takes over, under the same process id, with our listening sockets.
//!
//! ```text
//!   SIGUSR2 ─► its --check-config ─┬─ unsound ─► logged; we serve on
//!                                  └─ sound ──► clean stop ─► execve, LISTEN_FDS
//! ```
//!
//! Nothing else is handed over: what the caches and the rings know is on flash, in the memory that
//! QEMU holds and in the runtime directory, where it has to be for a crash as well.

use command_fds::{CommandFdExt as _, FdMapping};
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The first descriptor that is handed over, as the protocol has it.
const FIRST: i32 = 3;

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

    /// Asks the program whether it would start. Takes as long as that program takes.
    ///
    /// # Errors
    /// If it cannot be started or says no: what it says.
    pub(super) fn check(&self) -> Result<(), String> {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).arg("--check-config");
        command.stdin(Stdio::null());
        let program = self.program.display();
        match command.output() {
            Ok(output) if output.status.success() => Ok(()),
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.stderr);
                Err(format!("{program}: {}: {}", output.status, said.trim()))
            }
            Err(error) => Err(format!("{program}: {error}")),
        }
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

    #[test]
    fn a_program_that_would_not_start_is_found_out() {
        assert!(of("/bin/true").check().is_ok());
        assert!(
            of("/bin/false")
                .check()
                .unwrap_err()
                .contains("exit status: 1")
        );
        assert!(of("/nowhere").check().unwrap_err().contains("/nowhere"));
    }
}
