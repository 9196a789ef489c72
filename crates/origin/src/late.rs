//! Changes that a server may still carry out after the session in which they were sent.
//!
//! An NBD server goes on with the requests of a connection that has ended. A write that was in its
//! hands when this process was killed can land after the next process has written the same block
//! again. NBD has no fencing, so what was in flight is remembered, and waited for:
//!
//! ```text
//!  sent ─► table (memory that outlives the process) ─► answered: out of the table
//!             │ kill, stop, detach
//!             ▼
//!  next open: the table's changes are *late*
//!             ├── the old connection, if somebody kept it, carries the answer ─► over
//!             ├── the old connection ends, and `settle_time` passes ──────────► over
//!             └── nobody kept it: `settle_time` passes from the opening on ───► over
//! ```
//!
//! Until a late change is over, no newer change of its range is sent, which it could undo, and no
//! read, whose bytes it could make stale behind the cache's back. The rest of the disk is served.
//!
//! An answer proves the end of a change for every server. The end of a connection proves it for a
//! server that ends the connection after its last request (nbdkit), and not for one that hangs up as
//! soon as its client does (QEMU's): hence `settle_time`.
//!
//! A clean stop copies the table to the state directory, since the table does not outlive the host.

mod hold;
mod record;
mod streams;
mod table;

use crate::kept_text;
use crate::{NbdSpec, OpenError};
pub(crate) use hold::{Hold, Keeper, Kept, random};
pub(crate) use nbd_client::SentChange as Change;
use rustix::net::Shutdown;
use std::fmt;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use streams::Streams;
use table::Table;
use xxhash_rust::xxh3::xxh3_128;

/// Longest time that opening waits for answers on connections of a former session. The disk is served
/// after that, but for the ranges of the changes that are not over.
const ANSWERS_TIME_MAX: Duration = Duration::from_secs(2);

/// Where what must outlive a session with a server is kept.
#[derive(Clone, Debug)]
pub struct Keeping {
    /// A folder for memory that outlives the process: best on a file system in memory. Exists and is
    /// writable.
    pub runtime_dir: PathBuf,
    /// Where the host remembers what must survive its own restart. Exists and is writable.
    pub state_dir: PathBuf,
    /// Who keeps connections for the next process.
    pub sockets: Arc<dyn KeepSockets>,
}

/// Keeps connections to servers for the next process, under names.
pub trait KeepSockets: fmt::Debug + Send + Sync {
    /// Keeps a copy of a connection. May block for as long as a service manager takes to be told.
    fn keep(&self, name: &str, socket: BorrowedFd<'_>);
    /// Keeps it no longer. Never blocks.
    fn release(&self, name: &str);
    /// Copies of the connections whose names begin so. They stay kept.
    fn kept(&self, prefix: &str) -> Vec<(String, OwnedFd)>;
}

/// Keeps none.
#[derive(Debug)]
pub struct KeepsNone;

impl KeepSockets for KeepsNone {
    fn keep(&self, _name: &str, _socket: BorrowedFd<'_>) {}
    fn release(&self, _name: &str) {}
    fn kept(&self, _prefix: &str) -> Vec<(String, OwnedFd)> {
        Vec::new()
    }
}

/// What former sessions with an origin have left.
#[derive(Debug)]
struct Late {
    changes: Vec<Change>,
    streams: Streams,
}

impl Keeping {
    fn hash(spec: &NbdSpec) -> u128 {
        xxh3_128(spec.to_string().as_bytes())
    }

    /// What the names of an origin's connections begin with.
    pub fn prefix(spec: &NbdSpec) -> String {
        format!("origin.{:032x}.", Self::hash(spec))
    }

    fn table_path(&self, spec: &NbdSpec) -> PathBuf {
        let hash = Self::hash(spec);
        self.runtime_dir.join(format!("{hash:032x}.in-flight"))
    }

    fn record_path(&self, spec: &NbdSpec) -> PathBuf {
        kept_text::path_of(&self.state_dir, "late-writes", &spec.to_string(), "late")
    }

    /// Takes over from former sessions. Blocks for up to [`ANSWERS_TIME_MAX`] while a server still
    /// answers what they asked.
    ///
    /// # Errors
    /// If the origin is in use, or the table or the record cannot be had.
    fn take_over(&self, spec: &NbdSpec) -> Result<(Table, Late), OpenError> {
        let origin = spec.to_string();
        let failed = |path: PathBuf, source| OpenError::Record {
            origin: origin.clone(),
            path,
            source,
        };
        let path = self.table_path(spec);
        let (mut table, mut changes) = match Table::open(&path) {
            Ok(opened) => opened,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let by = "another disk or daemon of this host";
                let by = by.into();
                return Err(OpenError::InUse { origin, by });
            }
            Err(error) => return Err(failed(path, error)),
        };
        let record = self.record_path(spec);
        let recorded = record::load(&record).map_err(|error| failed(record.clone(), error))?;
        for change in recorded {
            // One that is in the table as well was copied from there.
            if !changes.iter().any(|known| known.cookie == change.cookie) {
                changes.push(change);
            }
        }
        table.refill(&mut changes);
        // What is in the table need not be in the record, too.
        record::remove(&record).map_err(|error| failed(record.clone(), error))?;
        let late = self.wait_for_answers(spec, changes);
        table.retain(|cookie| late.changes.iter().any(|change| change.cookie == cookie));
        Ok((table, late))
    }

    /// The same for a disk that is only read: whoever writes the origin has the table.
    ///
    /// # Errors
    /// If the table or the record cannot be read.
    fn look(&self, spec: &NbdSpec) -> Result<Late, OpenError> {
        let failed = |path: &PathBuf, source| OpenError::Record {
            origin: spec.to_string(),
            path: path.clone(),
            source,
        };
        let (table, record) = (self.table_path(spec), self.record_path(spec));
        let mut changes = table::read(&table).map_err(|error| failed(&table, error))?;
        changes.extend(record::load(&record).map_err(|error| failed(&record, error))?);
        Ok(Late {
            changes,
            streams: Streams::none(spec.settle_time.to_std()),
        })
    }

    fn wait_for_answers(&self, spec: &NbdSpec, mut changes: Vec<Change>) -> Late {
        let settle_time = spec.settle_time.to_std();
        let kept = self.sockets.kept(&Self::prefix(spec));
        if changes.is_empty() {
            for (name, socket) in kept {
                self.end(&name, &socket);
            }
            let streams = Streams::none(settle_time);
            return Late { changes, streams };
        }
        let mut streams = Streams::new(kept, settle_time, Arc::clone(&self.sockets));
        let patience = Instant::now() + ANSWERS_TIME_MAX.min(settle_time);
        while !streams.have_ended() && !changes.is_empty() && Instant::now() < patience {
            streams.listen(patience, &mut changes);
        }
        streams.say_goodbye();
        streams.listen(Instant::now(), &mut changes);
        if !streams.settle(&mut changes) {
            let lengths = changes.iter().map(|change| change.length);
            let bytes = lengths.fold(0, u64::saturating_add);
            tracing::warn!(origin = %spec, changes = changes.len(), bytes,
                connections = streams.count(), settle_time = %spec.settle_time,
                "writes of a former session may still land: requests of their ranges wait");
        }
        Late { changes, streams }
    }

    fn end(&self, name: &str, socket: &OwnedFd) {
        // One that has ended needs no word.
        let _ = rustix::net::shutdown(socket, Shutdown::Write);
        self.sockets.release(name);
    }

    /// Remembers durably that another host, which is gone, may have left any change in the server's hands: every
    /// request of the next session waits for `settle_time`. May block.
    ///
    /// # Errors
    /// What the system said.
    pub(crate) fn expect_anything(&self, spec: &NbdSpec) -> io::Result<()> {
        let changes = [Change::ANYWHERE];
        record::store(&self.record_path(spec), &spec.to_string(), &changes)
    }

    /// Remembers durably which changes of a session that has ended may still happen, and lets go of
    /// its connections. May block.
    ///
    /// # Errors
    /// What the system said.
    pub(crate) fn settle(&self, spec: &NbdSpec, is_leaving: bool) -> io::Result<()> {
        if !is_leaving {
            for (name, socket) in self.sockets.kept(&Self::prefix(spec)) {
                self.end(&name, &socket);
            }
        }
        let changes = table::read(&self.table_path(spec))?;
        if changes.is_empty() {
            return Ok(());
        }
        tracing::warn!(origin = %spec, changes = changes.len(),
            "writes that were not answered may still land: the next attachment waits for them");
        record::store(&self.record_path(spec), &spec.to_string(), &changes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt as _, chown};
    use std::path::Path;

    const DAEMON: u32 = 4711;

    #[test]
    fn what_root_leaves_is_the_daemons() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        chown(folder.path(), Some(DAEMON), Some(DAEMON)).unwrap();
        let owner = |path: &Path| std::fs::metadata(path).unwrap().uid();
        let in_flight = folder.path().join("a.in-flight");
        let (_table, _) = Table::open(&in_flight).unwrap();
        assert_eq!(owner(&in_flight), DAEMON);
        let late = folder.path().join("late-writes/a.late");
        record::store(&late, "nbd://host/a", &[Change::ANYWHERE]).unwrap();
        assert_eq!([owner(&late), owner(late.parent().unwrap())], [DAEMON; 2]);
    }
}
