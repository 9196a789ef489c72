//! The file systems on disks: `/proc/self/mountinfo`.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// File systems on a disk whose handles outlive a boot.
const KINDS: [&str; 4] = ["ext2", "ext3", "ext4", "xfs"];
/// File systems that are watched at most.
const MOUNTS_MAX: usize = 64;

/// Where each of them is mounted; one place for each.
pub(crate) fn on_disks() -> Vec<PathBuf> {
    parse(&std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default())
}

fn parse(mountinfo: &str) -> Vec<PathBuf> {
    let mut seen = BTreeSet::new();
    let mut mounts = Vec::new();
    for line in mountinfo.lines() {
        let Some((mount, file_system)) = line.split_once(" - ") else {
            continue;
        };
        let mut words = mount.split(' ').skip(2);
        let (Some(device), Some(_root), Some(path)) = (words.next(), words.next(), words.next())
        else {
            continue;
        };
        let kind = file_system.split(' ').next().unwrap_or_default();
        if KINDS.contains(&kind) && mounts.len() < MOUNTS_MAX && seen.insert(device) {
            mounts.push(unescaped(path));
        }
    }
    mounts
}

/// A path in which blanks and the like are written as three octal digits.
pub(crate) fn unescaped(path: &str) -> PathBuf {
    let mut bytes = Vec::new();
    let mut rest = path.as_bytes();
    while let [first, behind @ ..] = rest {
        let digits = behind.first_chunk::<3>().filter(|_| *first == b'\\');
        let octal = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        if let Some(byte) = octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            bytes.push(byte);
            rest = &behind[3..];
        } else {
            bytes.push(*first);
            rest = behind;
        }
    }
    OsString::from_vec(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_systems_on_disks_are_found_once_each() {
        let mountinfo = "\
21 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
22 21 0:5 / /proc rw - proc proc rw
23 21 254:1 /srv /bind rw - ext4 /dev/vda1 rw
24 21 254:16 / /srv/two\\040words rw - xfs /dev/vdb rw
25 21 0:30 / /tmp rw - tmpfs tmpfs rw
broken
";
        let found = parse(mountinfo);
        assert_eq!(found, [PathBuf::from("/"), PathBuf::from("/srv/two words")]);
    }
}
