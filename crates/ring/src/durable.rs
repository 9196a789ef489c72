//! How a write is made durable at the least cost: `RWF_DSYNC`, or a sync behind it.

use crate::{Completion, Op, Source};
use block_io::{IoError, Since, Syncs, Token};
use rustix::fs::FileType;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::rc::Rc;

/// The [`Syncs`] of a file, carried out by `fdatasync` on a ring.
#[derive(Debug)]
pub struct FileSyncs {
    file: Rc<OwnedFd>,
    syncs: Syncs,
}

impl FileSyncs {
    /// Names the one sync that is under way among a source's completions; no slab's key.
    const TOKEN: u64 = u64::MAX;

    /// Of a file for which nothing waits yet.
    pub fn new(file: Rc<OwnedFd>) -> Self {
        let syncs = Syncs::default();
        Self { file, syncs }
    }

    /// Whether this is the end of a sync, and to be given to [`FileSyncs::end`].
    pub fn is_one(completion: &Completion) -> bool {
        completion.token == Self::TOKEN
    }

    /// See [`Syncs::now`].
    pub const fn now(&self) -> Since {
        self.syncs.now()
    }

    /// See [`Syncs::wait`].
    ///
    /// # Errors
    /// As there.
    pub fn wait(&mut self, token: Token, since: Since) -> Result<(), IoError> {
        self.syncs.wait(token, since)
    }

    /// Issues a sync if somebody waits for one and none is under way; tells whether it did.
    pub fn issue(&mut self, source: &Source) -> bool {
        let begins = self.syncs.begin();
        if begins {
            let op = Op::Fsync {
                file: Rc::clone(&self.file),
                datasync: true,
            };
            source.submit(Self::TOKEN, op);
        }
        begins
    }

    /// The sync under way has ended: how, and for whom.
    ///
    /// # Panics
    /// If none was under way.
    pub fn end(&mut self, outcome: io::Result<usize>) -> (Vec<Token>, Result<(), IoError>) {
        let result = outcome.map(drop).map_err(|error| IoError::of(&error));
        (self.syncs.end(result.is_ok()), result)
    }
}

/// Whether a durable write ([`crate::Op::Write`] with `dsync`) is one command of the device that
/// is behind `file`: it is a block device, and has FUA or no volatile cache. Anything else is
/// better written plainly and synced ([`block_io::Syncs`]).
///
/// `RWF_DSYNC` looks like less. But where it takes a flush of the device, the kernel issues that
/// from a worker that is bound to the processor which took the interrupt, and waits for it behind
/// whatever runs there. 8 KiB at a time on two busy processors, medians and (writes a second of
/// several runs):
///
/// | | `RWF_DSYNC` | write, then `fdatasync` | the two linked | the write alone |
/// |---|---|---|---|---|
/// | ext4, written before | 0.3-8.0 ms (90-1,300) | 75-90 us (650-5,500) | 77 us (900-5,600) | 38 us |
/// | ext4, preallocated | 8.0 ms (100-160) | 169 us (1,600-1,700) | 140 us (1,100-2,100) | 44 us |
/// | loop device | 5.0 ms (130-190) | 96 us (40-2,600) | 94 us (730-1,160) | 49 us |
///
/// Linked, each write has a sync of its own: at depth 8 35 us of processor time a write, where
/// shared syncs cost 10-19 and `RWF_DSYNC` 10-14. Many at a time `RWF_DSYNC` finds its worker
/// awake: at depth 8 on ext4 it had 0.9-2.1 times the writes of shared syncs, at a p50 of 165-207 us
/// against 135-202 us; but a log has one write under way, or two. The example `durable` measures all
/// but the linked form anew.
///
/// What cannot be learned of a device counts as no, which costs speed and nothing else.
pub fn writes_through(file: &OwnedFd) -> bool {
    let Ok(stat) = rustix::fs::fstat(file) else {
        return false;
    };
    if FileType::from_raw_mode(stat.st_mode) != FileType::BlockDevice {
        return false;
    }
    let (major, minor) = (
        rustix::fs::major(stat.st_rdev),
        rustix::fs::minor(stat.st_rdev),
    );
    let device = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
    // A partition has its queue in the folder of its disk, which is the one above.
    let said = |name: &str| {
        ["queue", "../queue"]
            .iter()
            .find_map(|queue| std::fs::read_to_string(device.join(queue).join(name)).ok())
    };
    has_one_command(said("fua").as_deref(), said("write_cache").as_deref())
}

/// By the contents of a queue's `fua` and `write_cache`.
fn has_one_command(fua: Option<&str>, write_cache: Option<&str>) -> bool {
    fua.is_some_and(|text| text.trim() == "1")
        || write_cache.is_some_and(|text| text.trim() == "write through")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fua_or_no_volatile_cache_is_one_command() {
        assert!(has_one_command(Some("1\n"), Some("write back\n")));
        assert!(has_one_command(Some("0\n"), Some("write through\n")));
        assert!(!has_one_command(Some("0\n"), Some("write back\n")));
        assert!(!has_one_command(None, None));
    }

    #[test]
    fn a_file_is_never_believed_to_write_through() {
        let file = OwnedFd::from(tempfile::tempfile().expect("a file"));
        assert!(!writes_through(&file));
    }
}
