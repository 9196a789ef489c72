//! Small questions to the system.

use rustix::fs::SeekFrom;
use std::fs::File;
use std::io;
use units::Bytes;

/// Why a group cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GroupError {
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
pub(crate) fn group_id(name: &str) -> Result<u32, GroupError> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_memory() {
        assert!(memory().is_some_and(|bytes| bytes > Bytes::mib(16)));
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
