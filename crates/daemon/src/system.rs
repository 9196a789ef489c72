//! Small questions to the system.

use rustix::fs::SeekFrom;
use std::fs::File;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use units::Bytes;

/// The time since 1970 by this host's clock.
pub(crate) fn since_1970() -> Duration {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default()
}

/// Whole seconds of [`since_1970`].
pub(crate) fn seconds_since_1970() -> u64 {
    since_1970().as_secs()
}

/// Why a group cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum GroupError {
    /// The list of groups cannot be read.
    #[error("cannot read /etc/group")]
    Unreadable(#[source] io::Error),
    /// It does not hold the group.
    #[error("there is no group '{0}' in /etc/group")]
    Unknown(String),
}

/// The number of a group, by name or already a number.
///
/// Reads `/etc/group` itself: the C library's look-up is not safe to call from Rust without
/// `unsafe`, and a service's own group is a local one. Groups of a directory service are
/// given by number.
///
/// # Errors
/// If the file cannot be read or does not hold the name.
pub fn group_id(name: &str) -> Result<u32, GroupError> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    let text = std::fs::read_to_string("/etc/group").map_err(GroupError::Unreadable)?;
    text.lines()
        .map(|line| line.split(':').collect::<Vec<_>>())
        .find(|fields| fields.first() == Some(&name))
        .and_then(|fields| fields.get(2)?.parse().ok())
        .ok_or_else(|| GroupError::Unknown(name.to_owned()))
}

/// The memory of this host, swap included; nothing if it does not say.
pub(crate) fn memory() -> Option<Bytes> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let kib = |name: &str| -> Option<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().strip_suffix("kB")?.trim().parse().ok()
    };
    let kib = kib("MemTotal:")?.checked_add(kib("SwapTotal:").unwrap_or(0))?;
    Some(Bytes::new(kib.checked_mul(1024)?))
}

/// The size of a block device: where its end is.
///
/// # Errors
/// If the device does not say.
pub(crate) fn block_device_size(device: &File) -> io::Result<Bytes> {
    let size = rustix::fs::seek(device, SeekFrom::End(0))?;
    Ok(Bytes::new(size))
}

/// Who has a lock on a file or a block device, in words: the program and its process; none if the
/// system does not say.
pub fn holder_of(path: &Path) -> Option<String> {
    let stat = rustix::fs::stat(path).ok()?;
    let (major, minor) = (
        rustix::fs::major(stat.st_dev),
        rustix::fs::minor(stat.st_dev),
    );
    let locked = format!("{major:02x}:{minor:02x}:{}", stat.st_ino);
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    let pid = holder_in(&locks, &locked)?;
    if pid == std::process::id() {
        return Some(format!("this process has it already (pid {pid})"));
    }
    let program = std::fs::read_to_string(format!("/proc/{pid}/comm"));
    let program = program.unwrap_or_else(|_| "a process".to_owned());
    Some(format!("{} has it (pid {pid})", program.trim()))
}

/// The process that holds a lock on `device:inode` in the text of `/proc/locks`. Waiting ones, whose
/// lines have an arrow, do not count; a process of another PID namespace has number 0.
fn holder_in(locks: &str, locked: &str) -> Option<u32> {
    locks.lines().find_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        let is_held = words.next()? != "->";
        let pid = words.nth(2)?;
        let is_it = words.next()? == locked;
        let pid: u32 = pid.parse().ok()?;
        (is_held && is_it && pid != 0).then_some(pid)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_memory() {
        assert!(memory().is_some_and(|bytes| bytes > Bytes::mib(16)));
    }

    #[test]
    fn the_holder_of_a_lock_is_read_from_the_list_of_locks() {
        let locks = "1: FLOCK  ADVISORY  WRITE 4711 fd:00:123 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 4712 fd:00:124 0 EOF\n\
                     3: POSIX  ADVISORY  READ  4713 fd:00:124 0 EOF\n";
        assert_eq!(holder_in(locks, "fd:00:123"), Some(4711));
        assert_eq!(holder_in(locks, "fd:00:124"), Some(4713));
        assert_eq!(holder_in(locks, "fd:00:12"), None);
        assert_eq!(holder_in("", "fd:00:12"), None);
    }

    #[test]
    fn a_file_that_we_have_locked_is_held_by_this_process() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let exclusive = rustix::fs::FlockOperation::LockExclusive;
        rustix::fs::flock(file.as_file(), exclusive).unwrap();
        let holder = holder_of(file.path()).unwrap();
        assert!(holder.contains("this process has it already"), "{holder}");
    }

    #[test]
    fn a_group_is_found_by_name_or_number() {
        assert_eq!(group_id("root").unwrap(), 0);
        assert_eq!(group_id("4711").unwrap(), 4711);
        assert!(matches!(
            group_id("no such group"),
            Err(GroupError::Unknown(_))
        ));
    }
}
