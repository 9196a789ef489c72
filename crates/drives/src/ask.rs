//! Asking a drive by `smartctl`, within a time limit.

use crate::limits::{ANSWER_BYTES_MAX, ANSWER_TIME_MAX};
use crate::smart::Smart;
use rustix::process::{Pid, Signal, kill_process_group};
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use units::Duration;

/// Where `smartctl` is looked for: in these folders of every distribution, since services often have a PATH without
/// them.
const FOLDERS: [&str; 4] = ["/usr/sbin", "/usr/bin", "/sbin", "/usr/local/sbin"];

/// Which program asks drives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Program {
    /// `smartctl`, where distributions have it.
    Found,
    /// This one.
    At(PathBuf),
    /// None: drives are not asked.
    Off,
}

/// Asks drives.
#[derive(Clone, Debug)]
pub struct Asker {
    program: Program,
    time_max: Duration,
}

impl Asker {
    /// One that asks by this program.
    pub fn new(program: Program) -> Self {
        Self {
            program,
            time_max: ANSWER_TIME_MAX,
        }
    }

    /// The same with another time limit.
    #[must_use]
    pub fn within(self, time_max: Duration) -> Self {
        Self { time_max, ..self }
    }

    /// What the drive says. Blocks for at most [`ANSWER_TIME_MAX`], unless told otherwise.
    pub fn ask(&self, device: &str) -> Smart {
        let program = match &self.program {
            Program::Off => {
                return Smart::unknown(
                    "drives are not asked",
                    Some("daemon.smartctl = \"auto\" in the configuration"),
                );
            }
            Program::At(path) => path.clone(),
            Program::Found => match found() {
                Some(path) => path,
                None => return missing(),
            },
        };
        match answer(&program, device, self.time_max) {
            Ok(Some(bytes)) => Smart::parse(&bytes),
            Ok(None) => Smart::unknown(
                format!(
                    "smartctl has not answered within {} and was ended",
                    self.time_max
                ),
                Some("the kernel log, for errors of the drive or its controller"),
            ),
            Err(error) if error.kind() == io::ErrorKind::NotFound => missing(),
            Err(error) => Smart::unknown(format!("{}: {error}", program.display()), None),
        }
    }
}

fn found() -> Option<PathBuf> {
    let places = FOLDERS
        .iter()
        .map(|folder| Path::new(folder).join("smartctl"));
    places.into_iter().find(|place| place.is_file())
}

fn missing() -> Smart {
    Smart::unknown(
        "smartctl is not installed",
        Some("install the package smartmontools"),
    )
}

/// What the program prints; `None` if it has not ended its output in time. Then it is killed, with all that it has
/// begun.
fn answer(program: &Path, device: &str, time_max: Duration) -> io::Result<Option<Vec<u8>>> {
    let mut child = Command::new(program)
        .args(["--json", "-a", device])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .env("LC_ALL", "C")
        .process_group(0)
        .spawn()?;
    let output = child.stdout.take();
    let (sender, receiver) = channel();
    thread::Builder::new()
        .name("smartctl".to_owned())
        .spawn(move || {
            let mut bytes = Vec::new();
            let output = output.map(|output| output.take(ANSWER_BYTES_MAX));
            let read = output.map_or(Ok(0), |mut output| output.read_to_end(&mut bytes));
            // Whoever has given up waiting does not want it any more.
            let _ = sender.send(read.map(|_| bytes));
        })?;
    let answered = receiver.recv_timeout(time_max.to_std());
    end(child);
    answered.ok().transpose()
}

/// Ends the program and what it has begun. One that hangs in the kernel ends when the kernel lets it: a thread waits
/// for that, so that nobody else does.
fn end(mut child: Child) {
    if let Ok(None) = child.try_wait() {
        // It is ours and was not waited for, so its number is nobody else's.
        let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
    }
    let waiting = thread::Builder::new().name("smartctl-end".to_owned());
    // Without a thread the kernel keeps a dead entry of it until this process ends.
    let _ = waiting.spawn(move || child.wait());
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    fn ask(script: &str) -> Smart {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("smartctl");
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        let asker = Asker::new(Program::At(path)).within(Duration::from_millis(500));
        asker.ask("/dev/nvme7n1")
    }

    fn reason(smart: Smart) -> String {
        match smart {
            Smart::Unknown { reason, remedy } => {
                format!("{reason}; {}", remedy.unwrap_or_default())
            }
            Smart::Known(health) => panic!("{health:?}"),
        }
    }

    #[test]
    fn the_program_is_asked_for_the_drive() {
        let script = r#"[ "$*" = "--json -a /dev/nvme7n1" ] && echo '{"smartctl": {"exit_status": 4}, "temperature": {"current": 41}}'
exit 4"#;
        assert_eq!(ask(script).health().unwrap().temperature_celsius, Some(41));
    }

    #[test]
    fn a_program_that_hangs_is_ended_with_its_children() {
        let folder = tempfile::tempdir().unwrap();
        let numbers = folder.path().join("pids");
        let script = format!("sleep 1000 & echo $! > {0}\nwait", numbers.display());
        assert!(reason(ask(&script)).contains("was ended"));
        let number: i32 = fs::read_to_string(numbers).unwrap().trim().parse().unwrap();
        let sleeper = format!("/proc/{number}/stat");
        // Whoever is to collect it may be slow; what is dead does not run.
        let is_over = || fs::read_to_string(&sleeper).map_or(true, |stat| stat.contains(") Z "));
        while !is_over() {
            thread::yield_now();
        }
    }

    #[test]
    fn a_program_that_fails_or_is_not_there_says_so() {
        assert!(reason(ask("exit 1")).contains("no JSON"));
        assert!(reason(ask("yes rubbish")).contains("no JSON"));
        let none = Asker::new(Program::At("/nowhere/smartctl".into()));
        assert!(reason(none.ask("/dev/sda")).contains("package smartmontools"));
        let off = Asker::new(Program::Off);
        assert!(reason(off.ask("/dev/sda")).contains("not asked"));
    }
}
