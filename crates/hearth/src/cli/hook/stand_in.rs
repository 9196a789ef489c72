//! A server that stands in for the daemon while that is down: QEMU's storage daemon serves a disk's file at the disk's own socket.
//!
//! Invariants: there is no stand-in while any flash of the configuration has bytes that the file lacks. It holds QEMU's lock on the
//! file, so that a daemon that comes back leaves the disk waiting; and every write of it changes the file's times, so that the daemon
//! drops what it had cached of the disk. A block device keeps no such times and an NBD export has no such lock: those have no stand-in.

use super::marks::Marks;
use crate::cli::adopt::record::Record;
use crate::cli::recover;
use crate::terminal::exit::{CliError, Exit};
use crate::xml::FrontEndWord;
use configuration::{CONFIG_DEFAULT, Config, OriginConfig};
use rustix::fs::{Gid, chmod, chown};
use rustix::process::{Pid, Signal, kill_process};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The program.
const PROGRAM: &str = "qemu-storage-daemon";
/// How long it may take to end.
const END_TIME: Duration = Duration::from_secs(10);
/// How often it is looked whether it has ended.
const LOOK: Duration = Duration::from_millis(50);
/// What brings the daemon back.
const START_THE_DAEMON: &str = "systemctl start hearth; then start the VM again";

/// Starts one, if no byte of the disk can be missed by it.
///
/// # Errors
/// If bytes wait for the file, or that cannot be known, or the disk is on no file, or the program cannot serve it.
pub(super) fn start(marks: &Marks, record: &Record, config: Option<&Path>) -> Result<(), CliError> {
    let file = file_of(record)?;
    let config_path = config.unwrap_or(Path::new(CONFIG_DEFAULT));
    let config = configuration::load(config_path).map_err(|error| {
        refused(
            record,
            &format!("it is not known whether bytes wait on a flash: {error}"),
        )
    })?;
    recover::nothing_waits(&record.config(), config_path).map_err(|mut error| {
        error.exit = Exit::Refused;
        error.message = format!("the daemon of Hearth is down, and {}", error.message);
        error.with_remedy(START_THE_DAEMON)
    })?;
    free(record)?;
    let failed = |error: std::io::Error| {
        refused(
            record,
            &format!("{PROGRAM} cannot stand in for it: {error}"),
        )
    };
    marks.make_folder().map_err(failed)?;
    let mut command = command(record, file, &marks.path(&record.name, "pid"));
    let output = command.stdin(Stdio::null()).output().map_err(failed)?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(refused(
            record,
            &format!("{PROGRAM} cannot stand in for it: {}", said.trim()),
        ));
    }
    dress(record, &config).map_err(|error| {
        // The VM does not start: nobody needs it.
        let _ = end(marks, record);
        failed(error)
    })
}

fn refused(record: &Record, why: &str) -> CliError {
    let message = format!(
        "the daemon of Hearth is down, and '{}' is not started without it: {why}",
        record.name
    );
    CliError::new(Exit::Refused, message).with_remedy(START_THE_DAEMON)
}

/// The file that the disk is on.
fn file_of(record: &Record) -> Result<&Path, CliError> {
    if let OriginConfig::File(origin) = &record.origin
        && origin.file.is_file()
    {
        return Ok(&origin.file);
    }
    let why = "its storage is no regular file, so the daemon could not tell afterwards that the VM has written it";
    Err(refused(record, why))
}

/// Makes room at the socket's path for one that listens there.
fn free(record: &Record) -> Result<(), CliError> {
    if UnixStream::connect(&record.socket).is_ok() {
        return Err(refused(
            record,
            &format!("another process listens on {}", record.socket.display()),
        ));
    }
    match std::fs::remove_file(&record.socket) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(refused(
            record,
            &format!("{}: {error}", record.socket.display()),
        )),
        _ => Ok(()),
    }
}

fn command(record: &Record, file: &Path, pid_file: &Path) -> Command {
    // A comma would end the value.
    let value = |path: &Path| path.display().to_string().replace(',', ",,");
    let (file, socket) = (value(file), value(&record.socket));
    let read_only = if record.read_only { "on" } else { "off" };
    let writable = if record.read_only { "off" } else { "on" };
    let mut command = Command::new(PROGRAM);
    command.args(["--blockdev", &format!(
        "driver=file,node-name=disk,filename={file},cache.direct=on,discard=unmap,read-only={read_only}"
    )]);
    match record.via {
        FrontEndWord::Nbd => {
            command.args([
                "--nbd-server",
                &format!("addr.type=unix,addr.path={socket}"),
            ]);
            command.args([
                "--export",
                &format!(
                    "type=nbd,id=disk,node-name=disk,name={},writable={writable}",
                    record.name
                ),
            ]);
        }
        FrontEndWord::VhostUser => {
            command.args(["--export", &format!(
                "type=vhost-user-blk,id=disk,node-name=disk,addr.type=unix,addr.path={socket},writable={writable}"
            )]);
        }
    }
    command.arg("--daemonize").arg("--pidfile").arg(pid_file);
    command
}

/// Gives the socket the mode and group that the daemon's would have.
fn dress(record: &Record, config: &Config) -> std::io::Result<()> {
    let (mode, group) = match record.via {
        FrontEndWord::Nbd => (config.nbd.unix_socket_mode.0, &config.nbd.unix_socket_group),
        FrontEndWord::VhostUser => (
            config.vhost_user.socket_mode.0,
            &config.vhost_user.socket_group,
        ),
    };
    if let Some(group) = group {
        let number = daemon::group_id(group).map_err(std::io::Error::other)?;
        chown(&record.socket, None, Some(Gid::from_raw(number)))?;
    }
    chmod(&record.socket, rustix::fs::Mode::from_raw_mode(mode.get()))?;
    Ok(())
}

/// Ends the one of a disk; whether there was one.
///
/// # Errors
/// If it does not end.
pub(super) fn end(marks: &Marks, record: &Record) -> Result<bool, CliError> {
    let pid_file = marks.path(&record.name, "pid");
    let Some(pid) = running(&pid_file, record) else {
        // A file that a crash left behind.
        let _ = std::fs::remove_file(&pid_file);
        return Ok(false);
    };
    let failed = |why: String| {
        CliError::new(
            Exit::Failed,
            format!("{PROGRAM} of '{}' does not end: {why}", record.name),
        )
    };
    // Before the program lets the file go: the daemon that waits for the file opens its own socket at this path at once.
    let _ = std::fs::remove_file(&record.socket);
    kill_process(pid, Signal::TERM).map_err(|error| failed(error.to_string()))?;
    let until = Instant::now() + END_TIME;
    while running(&pid_file, record).is_some() {
        if Instant::now() > until {
            return Err(failed(format!("its process is {}", pid.as_raw_nonzero()))
                .with_remedy("end the process, then try again"));
        }
        std::thread::sleep(LOOK);
    }
    // The program takes its own away.
    let _ = std::fs::remove_file(&pid_file);
    Ok(true)
}

/// The process that stands in for a disk: by its number, and by its socket, since numbers are used again.
fn running(pid_file: &PathBuf, record: &Record) -> Option<Pid> {
    let number: i32 = std::fs::read_to_string(pid_file)
        .ok()?
        .trim()
        .parse()
        .ok()?;
    let words = std::fs::read(format!("/proc/{number}/cmdline")).ok()?;
    let words = String::from_utf8_lossy(&words);
    let is_it = words.contains(PROGRAM)
        && words.contains(&record.socket.display().to_string().replace(',', ",,"));
    is_it.then(|| Pid::from_raw(number)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::adopt::record::records;

    fn record(origin: &str, via: &str) -> Record {
        let xml = format!(
            "<domain><metadata><hearth:disks xmlns:hearth='urn:hearth:libvirt:1'><hearth:disk target='vda' name='web-vda' vm='web' \
             origin='{origin}' via='{via}' socket='/run/a,b.sock'/></hearth:disks></metadata></domain>"
        );
        records(&xml).unwrap().remove(0)
    }

    #[test]
    fn a_disk_whose_writes_the_daemon_could_not_see_has_no_stand_in() {
        for origin in ["nbd://h/e", "/dev/null", "/no/such/file"] {
            let error = file_of(&record(origin, "nbd")).unwrap_err();
            assert_eq!(error.exit, Exit::Refused);
            assert!(error.message.contains("no regular file"), "{error}");
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().display().to_string();
        assert_eq!(file_of(&record(&path, "nbd")).unwrap(), file.path());
    }

    #[test]
    fn the_file_is_served_where_the_vm_looks_for_it() {
        let words = |via: &str| -> String {
            let command = command(&record("/o", via), Path::new("/a,b"), Path::new("/p"));
            let words: Vec<_> = command
                .get_args()
                .map(|word| word.to_string_lossy())
                .collect();
            words.join(" ")
        };
        let nbd = words("nbd");
        assert!(nbd.contains("filename=/a,,b,cache.direct=on"), "{nbd}");
        assert!(
            nbd.contains("addr.path=/run/a,,b.sock") && nbd.contains("name=web-vda,writable=on"),
            "{nbd}"
        );
        assert!(words("vhost-user").contains("type=vhost-user-blk"));
    }
}
