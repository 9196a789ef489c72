//! Which drives a file lies on, by sysfs.
//!
//! ```text
//!   st_dev (of a block device st_rdev) ─► /sys/dev/block/MAJOR:MINOR
//!      has `partition` ─► the folder above it
//!      has slaves/*    ─► each of them (LVM, dm-crypt, MD)
//!      else a drive    ─► queue/write_cache, queue/rotational, device/model
//! ```

use crate::limits::{DRIVES_MAX, LAYERS_MAX};
use crate::smart::Smart;
use rustix::fs::{FileType, major, minor};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use utoipa::ToSchema;

/// What a drive is, as far as its driver tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum DriveKind {
    /// `NVMe`.
    Nvme,
    /// SATA, SAS, USB: what Linux calls a SCSI disk.
    Scsi,
    /// A virtual machine's disk (virtio, Xen). What it says is of its host's settings, not of flash.
    Virtual,
    /// Anything else: a loop device, a network block device, memory.
    Other,
}

/// A drive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Drive {
    /// Its device.
    #[schema(example = "/dev/nvme0n1")]
    pub device: String,
    /// What it is.
    pub kind: DriveKind,
    /// Its model, if the kernel tells.
    pub model: Option<String>,
    /// Whether it has turning disks, as the kernel sees it.
    pub is_rotational: Option<bool>,
    /// Whether it has a cache that loses its content with the power, so that the kernel flushes it; unknown if the kernel
    /// does not tell.
    pub has_volatile_cache: Option<bool>,
    /// What it says of its health.
    pub smart: Smart,
}

/// What a file lies on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Storage {
    /// Drives of this host.
    Drives(Vec<Drive>),
    /// No drive that the kernel knows: memory, a network file system, or one of several devices. With what that means.
    NoDrive(&'static str),
}

/// The drives under a file or block device, not asked for their health yet. `sys` is where sysfs is: `/sys`.
///
/// # Errors
/// If the file cannot be looked at.
pub fn drives_under(path: &Path, sys: &Path) -> io::Result<Storage> {
    let facts = rustix::fs::stat(path)?;
    let kind = FileType::from_raw_mode(facts.st_mode);
    let is_device = kind == FileType::BlockDevice;
    let device = if is_device {
        facts.st_rdev
    } else {
        facts.st_dev
    };
    let name = format!("{}:{}", major(device), minor(device));
    let entry = sys.join("dev/block").join(name);
    let Ok(entry) = fs::canonicalize(entry) else {
        return Ok(Storage::NoDrive(if major(device) == 0 {
            no_device(path)
        } else {
            "sysfs does not show its device here: in a container /sys of the host is needed"
        }));
    };
    let mut found = Vec::new();
    descend(&entry, LAYERS_MAX, &mut found);
    found.sort();
    found.dedup();
    found.truncate(DRIVES_MAX);
    Ok(Storage::Drives(
        found.iter().map(|one| drive(one)).collect(),
    ))
}

/// What a file system without a device of its own is.
fn no_device(path: &Path) -> &'static str {
    const TMPFS: i64 = 0x0102_1994;
    const RAMFS: i64 = 0x8584_58f6;
    const NFS: i64 = 0x6969;
    const CIFS: i64 = 0xff53_4d42;
    const SMB2: i64 = 0xfe53_4d42;
    const FUSE: i64 = 0x6573_5546;
    const BTRFS: i64 = 0x9123_683e;
    const ZFS: i64 = 0x2fc1_2fc1;
    const OVERLAY: i64 = 0x794c_7630;
    let Ok(facts) = rustix::fs::statfs(path) else {
        return "its file system does not say on what it lies";
    };
    match facts.f_type {
        TMPFS | RAMFS => {
            "memory (tmpfs): there is no drive, and nothing of it survives a power cut"
        }
        NFS | CIFS | SMB2 => {
            "a network file system: the drives are another host's, and are asked there"
        }
        FUSE => "FUSE: its server knows the drives, and is asked there",
        BTRFS => {
            "Btrfs, which may have several devices: `btrfs filesystem show` names them for smartctl"
        }
        ZFS => "ZFS, which may have several devices: `zpool status` names them for smartctl",
        OVERLAY => {
            "an overlay, as containers have: give the cache a file of the host's file system or a device"
        }
        _ => "its file system has no device of its own",
    }
}

/// The drives at or under a device of sysfs.
fn descend(entry: &Path, layers: usize, found: &mut Vec<PathBuf>) {
    if layers == 0 || found.len() >= DRIVES_MAX {
        return;
    }
    if entry.join("partition").exists() {
        if let Some(whole) = entry.parent() {
            descend(whole, layers - 1, found);
        }
        return;
    }
    let below = fs::read_dir(entry.join("slaves")).into_iter().flatten();
    let below: Vec<PathBuf> = below
        .flatten()
        .filter_map(|slave| fs::canonicalize(slave.path()).ok())
        .collect();
    if below.is_empty() {
        found.push(entry.to_path_buf());
    }
    for slave in below {
        descend(&slave, layers - 1, found);
    }
}

fn drive(entry: &Path) -> Drive {
    let text = |name: &str| {
        let text = fs::read_to_string(entry.join(name)).ok()?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    };
    let name = entry.file_name().map_or_else(String::new, |name| {
        // A `/` in a device's name is a `!` in sysfs.
        name.to_string_lossy().replace('!', "/")
    });
    Drive {
        kind: kind(&name),
        device: format!("/dev/{name}"),
        model: text("device/model"),
        is_rotational: text("queue/rotational").map(|value| value == "1"),
        has_volatile_cache: match text("queue/write_cache").as_deref() {
            Some("write back") => Some(true),
            Some("write through") => Some(false),
            _ => None,
        },
        smart: Smart::unknown("it was not asked yet", None),
    }
}

fn kind(name: &str) -> DriveKind {
    let begins = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    if begins(&["nvme"]) {
        DriveKind::Nvme
    } else if begins(&["sd"]) {
        DriveKind::Scsi
    } else if begins(&["vd", "xvd"]) {
        DriveKind::Virtual
    } else {
        DriveKind::Other
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// A sysfs in which the file of the test lies on `top`.
    struct Sys {
        folder: tempfile::TempDir,
    }

    impl Sys {
        fn new(top: &str) -> Self {
            let sys = Self {
                folder: tempfile::tempdir().unwrap(),
            };
            let file = sys.file();
            fs::write(&file, "flash").unwrap();
            let device = rustix::fs::stat(&file).unwrap().st_dev;
            let numbers = sys.path("dev/block");
            fs::create_dir_all(&numbers).unwrap();
            let name = format!("{}:{}", major(device), minor(device));
            symlink(sys.path(top), numbers.join(name)).unwrap();
            sys
        }

        fn path(&self, name: &str) -> PathBuf {
            self.folder.path().join(name)
        }

        fn file(&self) -> PathBuf {
            self.path("flash.img")
        }

        fn put(&self, name: &str, text: &str) {
            let path = self.path(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn drive(&self, name: &str, cache: &str) {
            self.put(&format!("devices/{name}/queue/write_cache"), cache);
            self.put(&format!("devices/{name}/queue/rotational"), "0\n");
            self.put(&format!("devices/{name}/device/model"), "FAST 9000   \n");
        }

        fn on(&self, layer: &str, slave: &str) {
            let slaves = self.path(&format!("devices/{layer}/slaves"));
            fs::create_dir_all(&slaves).unwrap();
            let name = Path::new(slave).file_name().unwrap();
            symlink(self.path(&format!("devices/{slave}")), slaves.join(name)).unwrap();
        }

        fn found(&self) -> Vec<Drive> {
            match drives_under(&self.file(), self.folder.path()).unwrap() {
                Storage::Drives(found) => found,
                other @ Storage::NoDrive(_) => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn a_file_on_a_partition_lies_on_its_drive() {
        let sys = Sys::new("devices/nvme0n1/nvme0n1p4");
        sys.drive("nvme0n1", "write through\n");
        sys.put("devices/nvme0n1/nvme0n1p4/partition", "4\n");
        let found = sys.found();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].device, "/dev/nvme0n1");
        assert_eq!(found[0].kind, DriveKind::Nvme);
        assert_eq!(found[0].model.as_deref(), Some("FAST 9000"));
        assert_eq!(found[0].has_volatile_cache, Some(false));
        assert_eq!(found[0].is_rotational, Some(false));
    }

    #[test]
    fn a_volume_over_encryption_over_an_array_lies_on_its_drives() {
        let sys = Sys::new("devices/dm-1");
        sys.on("dm-1", "dm-0");
        sys.on("dm-0", "md0");
        sys.on("md0", "sda/sda2");
        sys.on("md0", "sdb");
        sys.put("devices/sda/sda2/partition", "2\n");
        sys.drive("sda", "write back\n");
        sys.drive("sdb", "something new\n");
        let found = sys.found();
        let named: Vec<&str> = found.iter().map(|one| one.device.as_str()).collect();
        assert_eq!(named, ["/dev/sda", "/dev/sdb"]);
        assert_eq!(found[0].has_volatile_cache, Some(true));
        assert_eq!(found[1].has_volatile_cache, None);
    }

    #[test]
    fn layers_in_a_circle_end() {
        let sys = Sys::new("devices/dm-1");
        sys.on("dm-1", "dm-0");
        sys.on("dm-0", "dm-1");
        assert_eq!(sys.found(), []);
    }

    #[test]
    fn memory_has_no_drive() {
        let Storage::NoDrive(why) =
            drives_under(Path::new("/proc/self/stat"), Path::new("/sys")).unwrap()
        else {
            panic!("proc has no drive")
        };
        assert!(why.contains("no device"), "{why}");
        let missing = drives_under(Path::new("/nowhere/flash.img"), Path::new("/sys"));
        assert!(missing.is_err());
    }
}
