//! Which disk of the host a device of the guest is on, and where: `/sys/dev/block`.

use guest_protocol::Serial;
use std::path::{Path, PathBuf};
use units::{Bytes, Offset};

/// The kernel counts in sectors of this size, whatever a disk's own are.
const SECTOR_BYTES: u64 = 512;

/// A disk, or a partition of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Device {
    /// The disk's serial number, which the host has given.
    pub(crate) serial: Serial,
    /// Where the device begins on the disk.
    pub(crate) start: Offset,
    /// Its length.
    pub(crate) length: Bytes,
    /// Its name in `/dev`.
    name: String,
}

impl Device {
    /// The device of this number; none if it is no plain disk or partition, or the disk has no serial number.
    pub(crate) fn of(number: u64) -> Option<Self> {
        let (major, minor) = (libc::major(number), libc::minor(number));
        Self::in_folder(&PathBuf::from(format!("/sys/dev/block/{major}:{minor}")))
    }

    fn in_folder(folder: &Path) -> Option<Self> {
        let folder = folder.canonicalize().ok()?;
        let (disk, start) = if folder.join("partition").exists() {
            (folder.parent()?, number(&folder.join("start"))?)
        } else {
            (folder.as_path(), 0)
        };
        Some(Self {
            serial: std::fs::read_to_string(disk.join("serial"))
                .ok()?
                .trim_end()
                .parse()
                .ok()?,
            start: Offset::new(start.checked_mul(SECTOR_BYTES)?),
            length: Bytes::new(number(&folder.join("size"))?.checked_mul(SECTOR_BYTES)?),
            name: folder.file_name()?.to_str()?.to_owned(),
        })
    }

    #[cfg(test)]
    pub(crate) fn sample(serial: &str, start: Offset) -> Self {
        Self {
            serial: serial.parse().unwrap(),
            start,
            length: Bytes::mib(1),
            name: "vda1".to_owned(),
        }
    }

    /// The path of its node.
    pub(crate) fn node(&self) -> PathBuf {
        Path::new("/dev").join(&self.name)
    }
}

fn number(path: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(path).ok()?;
    text.trim_end().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_is_a_part_of_its_disk() {
        let folder = tempfile::tempdir().unwrap();
        let disk = folder.path().join("vda");
        let part = disk.join("vda2");
        std::fs::create_dir_all(&part).unwrap();
        let write = |path: &Path, text: &str| std::fs::write(path, text).unwrap();
        write(&disk.join("size"), "4096\n");
        assert_eq!(Device::in_folder(&disk), None, "without a serial number");
        write(&disk.join("serial"), "web-1\n");
        write(&part.join("partition"), "2\n");
        write(&part.join("start"), "2048\n");
        write(&part.join("size"), "1024\n");
        let whole = Device::in_folder(&disk).unwrap();
        assert_eq!((whole.start, whole.length), (Offset::new(0), Bytes::mib(2)));
        let part = Device::in_folder(&part).unwrap();
        assert_eq!(part.start, Offset::new(1 << 20));
        assert_eq!(part.length, Bytes::kib(512));
        assert_eq!(part.serial, whole.serial);
        assert_eq!(part.node(), Path::new("/dev/vda2"));
    }
}
