//! The locks by which QEMU's raw driver and its tools keep users of one image apart.
//!
//! Each is a read lock of one byte of an open file description (`F_OFD_SETLK`), so nobody ever waits; a
//! conflict is found by asking who else has a byte (`F_OFD_GETLK`):
//!
//! ```text
//!   byte 100 + n    held by who does n
//!   byte 200 + n    held by who does not share n: nobody else may do it
//!                   n: 0 reads what is consistent, 1 writes, 2 writes what changes nothing, 3 resizes
//! ```
//!
//! `flock` says nothing to QEMU, and these say nothing to a program that takes no locks, QEMU with
//! `file.locking=off` among them.

#![allow(unsafe_code, reason = "a system call that has no safe wrapper")]

use rustix::io::Errno;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};

const DOES: i64 = 100;
const DOES_NOT_SHARE: i64 = 200;
const READ: i64 = 0;
const WRITE: i64 = 1;
const RESIZE: i64 = 3;

/// Whether the image could be locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Locked {
    /// For as long as the file is open.
    Yes,
    /// Somebody has it who honours these locks.
    InUse,
    /// The file system has no such locks, so QEMU takes none there either.
    Unsupported,
}

/// Locks an image for a reader that nobody may write under, or for a writer.
///
/// # Errors
/// What the system says, if it is none of [`Locked`].
pub(super) fn lock(file: &OwnedFd, read_only: bool) -> io::Result<Locked> {
    let does: &[i64] = if read_only { &[READ] } else { &[READ, WRITE] };
    let alone = [WRITE, RESIZE];
    // Locked before others' locks are looked at, so that of two that come together one sees the other.
    let own = does.iter().map(|n| DOES + n);
    for byte in own.chain(alone.map(|n| DOES_NOT_SHARE + n)) {
        match fcntl(file, libc::F_OFD_SETLK, libc::F_RDLCK, byte) {
            Ok(_) => {}
            Err(Errno::AGAIN | Errno::ACCESS) => return Ok(Locked::InUse),
            Err(Errno::INVAL | Errno::NOTSUP | Errno::NOLCK | Errno::NOSYS) => {
                return Ok(Locked::Unsupported);
            }
            Err(errno) => return Err(errno.into()),
        }
    }
    let against = does.iter().map(|n| DOES_NOT_SHARE + n);
    for byte in against.chain(alone.map(|n| DOES + n)) {
        let found = fcntl(file, libc::F_OFD_GETLK, libc::F_WRLCK, byte)?;
        if found.l_type != kind(libc::F_UNLCK) {
            return Ok(Locked::InUse);
        }
    }
    Ok(Locked::Yes)
}

fn fcntl(
    file: &OwnedFd,
    command: libc::c_int,
    wanted: libc::c_int,
    byte: i64,
) -> Result<libc::flock, Errno> {
    let mut lock = libc::flock {
        l_type: kind(wanted),
        l_whence: kind(libc::SEEK_SET),
        l_start: byte,
        l_len: 1,
        // Has to be zero for locks of a description.
        l_pid: 0,
    };
    // SAFETY: the descriptor is open as long as it is borrowed, and the kernel reads and writes one
    // `flock`, which is ours until the call returns.
    let returned = unsafe { libc::fcntl(file.as_raw_fd(), command, &raw mut lock) };
    if returned < 0 {
        let error = io::Error::last_os_error().raw_os_error();
        return Err(Errno::from_raw_os_error(error.unwrap_or(libc::EIO)));
    }
    Ok(lock)
}

fn kind(constant: libc::c_int) -> libc::c_short {
    libc::c_short::try_from(constant).expect("a small constant")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::path::Path;

    fn open(path: &Path) -> OwnedFd {
        let file = File::options().read(true).write(true).open(path).unwrap();
        file.into()
    }

    /// As QEMU opens an image for a disk that is not shared.
    fn qemu(file: &OwnedFd, writes: bool) {
        for n in if writes { &[0, 1][..] } else { &[0] } {
            fcntl(file, libc::F_OFD_SETLK, libc::F_RDLCK, 100 + n).unwrap();
        }
        for n in [1, 3] {
            fcntl(file, libc::F_OFD_SETLK, libc::F_RDLCK, 200 + n).unwrap();
        }
    }

    #[test]
    fn an_image_has_one_writer_or_readers_whoever_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image");
        File::create(&path).unwrap().set_len(4096).unwrap();
        for (writes, read_only, expected) in [
            (true, false, Locked::InUse),
            (true, true, Locked::InUse),
            (false, false, Locked::InUse),
            (false, true, Locked::Yes),
        ] {
            let other = open(&path);
            qemu(&other, writes);
            let locked = lock(&open(&path), read_only).unwrap();
            assert_eq!(
                locked, expected,
                "QEMU writes: {writes}, read-only: {read_only}"
            );
        }
        let ours = open(&path);
        assert_eq!(lock(&ours, false).unwrap(), Locked::Yes);
        assert_eq!(lock(&open(&path), true).unwrap(), Locked::InUse);
        drop(ours);
        assert_eq!(lock(&open(&path), false).unwrap(), Locked::Yes);
    }
}
