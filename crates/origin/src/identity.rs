//! Which file an origin is, whatever is in it.

use rustix::fs::{AtFlags, StatxFlags};
use std::fmt;
use std::os::fd::OwnedFd;

/// What tells a file from another one that takes its place: kept where it does not go with the file,
/// and compared when the origin is opened again. The device's number is no part of it, since a mount
/// may change that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The inode's number.
    pub inode: u64,
    /// When the file was made, in nanoseconds since 1970, where the file system knows.
    pub born: Option<i64>,
}

/// File systems that number inodes anew at each mount, by `f_type`: FUSE, FAT, exFAT.
const FORGETFUL: [i64; 3] = [0x6573_5546, 0x4d44, 0x2011_bab0];

impl Identity {
    /// Of an open regular file; `None` where the file system has none that lasts, or does not say.
    pub(crate) fn of(file: &OwnedFd) -> Option<Self> {
        let system = rustix::fs::fstatfs(file).ok()?;
        #[allow(
            clippy::useless_conversion,
            reason = "its width depends on the processor"
        )]
        if FORGETFUL.contains(&i64::from(system.f_type)) {
            return None;
        }
        let wanted = StatxFlags::INO | StatxFlags::BTIME;
        let stat = rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, wanted).ok()?;
        let knows = stat.stx_mask & StatxFlags::BTIME.bits() != 0;
        let born = stat
            .stx_btime
            .tv_sec
            .checked_mul(1_000_000_000)
            .and_then(|seconds| seconds.checked_add(i64::from(stat.stx_btime.tv_nsec)));
        Some(Self {
            inode: stat.stx_ino,
            born: born.filter(|_| knows),
        })
    }

    /// Whether they are known to be of two files. A time that only one of them has says nothing.
    pub fn differs_from(self, other: Self) -> bool {
        let born = self.born.zip(other.born);
        self.inode != other.inode || born.is_some_and(|(one, other)| one != other)
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "inode {}", self.inode)?;
        match self.born {
            Some(born) => write!(
                f,
                " made at {}.{:09}",
                born / 1_000_000_000,
                born % 1_000_000_000
            ),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_lasts_as_long_as_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image");
        let identity = || Identity::of(&std::fs::File::open(&path).unwrap().into()).unwrap();
        std::fs::write(&path, "one").unwrap();
        let before = identity();
        std::fs::write(&path, "other and longer").unwrap();
        std::fs::rename(&path, folder.path().join("image.old")).unwrap();
        std::fs::rename(folder.path().join("image.old"), &path).unwrap();
        assert_eq!(identity(), before);
        std::fs::write(folder.path().join("new"), "one").unwrap();
        std::fs::rename(folder.path().join("new"), &path).unwrap();
        assert!(identity().differs_from(before), "{before}");
    }

    #[test]
    fn a_number_that_is_used_again_is_told_by_the_time() {
        let of = |born| Identity { inode: 7, born };
        assert!(of(Some(1)).differs_from(of(Some(2))));
        assert!(!of(Some(1)).differs_from(of(None)));
        assert!(!of(None).differs_from(of(None)));
    }
}
