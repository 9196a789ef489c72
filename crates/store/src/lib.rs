//! What the hosts of a cluster know together: small values under keys, each with the revision of its last change.
//!
//! ```text
//!   Store ◄─┬─ Memory   one process: tests and simulations, with faults from a seed
//!           ├─ FileStore   one host: all its processes, by a file that they lock in turn
//!           └─ Etcd     many hosts (feature `etcd`)
//! ```
//!
//! Five operations are enough: read one key, read a page of them, change several at once if some are as they were
//! ([`Store::commit`]), follow changes, and lease what is to go when its host is heard of no more. All three forms
//! pass one body of checks (`conformance`).
//!
//! Three rules hold for who uses this crate:
//! - Nothing that a VM waits for asks a store.
//! - A lease never owns a disk. It says that a host is heard of.
//! - A commit whose answer is lost ([`StoreError::Unknown`]) may have been done. Whoever made it reads again.

#![forbid(unsafe_code)]

mod changes;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
mod error;
#[cfg(feature = "etcd")]
mod etcd;
mod exclusive;
mod file;
mod key;
pub mod keys;
mod leased;
mod memory;
mod tree;
mod whole;

pub use changes::Changes;
pub use error::StoreError;
#[cfg(feature = "etcd")]
pub use etcd::{Etcd, EtcdOptions, TlsFiles};
pub use exclusive::Exclusive;
pub use file::FileStore;
pub use key::{InvalidKey, Key, Prefix};
pub use leased::Leased;
pub use memory::{Faults, Memory, MemoryClient};
pub use whole::{Everything, everything};

use std::pin::Pin;
use std::time::Duration;

/// Entries of a page at most: an answer of etcd is at most 4 MiB, and 10,000 entries of half a KiB are more.
pub const PAGE_ENTRIES_MAX: usize = 1_000;
/// Bytes of a value at most. etcd takes 1.5 MiB in a transaction.
pub const VALUE_BYTES_MAX: usize = 256 << 10;
/// Writes of one commit at most, as etcd has it (`--max-txn-ops`).
pub const WRITES_MAX: usize = 128;

/// An answer that has to be waited for.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// How many changes the store had seen when a key was changed; it only rises, over all keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

/// A value with where it is and when it was changed last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Versioned {
    /// Where.
    pub key: Key,
    /// The value.
    pub value: Vec<u8>,
    /// Of its last change.
    pub revision: Revision,
}

/// Some of the entries below a prefix, by rising key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// [`PAGE_ENTRIES_MAX`] at most.
    pub entries: Vec<Versioned>,
    /// Whether more follow.
    pub more: bool,
    /// The store's revision when the page was read.
    pub revision: Revision,
}

/// What has to hold for a commit to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compare {
    /// Nothing is there.
    Absent(Key),
    /// The key was changed last at this revision.
    Unchanged(Key, Revision),
}

impl Compare {
    /// That the key is as it was found: of this revision, or not there.
    pub fn as_found(key: &Key, found: Option<&Versioned>) -> Self {
        match found {
            Some(found) => Self::Unchanged(key.clone(), found.revision),
            None => Self::Absent(key.clone()),
        }
    }
}

/// What a commit changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// Puts a value. With a lease it goes when the lease does.
    Put {
        /// Where.
        key: Key,
        /// [`VALUE_BYTES_MAX`] at most.
        value: Vec<u8>,
        /// What it lives by, if not for ever.
        lease: Option<Lease>,
    },
    /// Removes a key, if it is there.
    Delete(Key),
}

impl Write {
    /// Puts a value for ever.
    pub fn put(key: Key, value: Vec<u8>) -> Self {
        let lease = None;
        Self::Put { key, value, lease }
    }

    /// The key that is changed.
    pub fn key(&self) -> &Key {
        match self {
            Self::Put { key, .. } | Self::Delete(key) => key,
        }
    }
}

/// What became of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Committed {
    /// All its writes are done, with this revision.
    Done(Revision),
    /// None is: something was not as it had to be.
    Refused,
}

/// A promise of the store to remove what was put with it when it has not been renewed for its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lease {
    id: i64,
    ttl: Duration,
}

impl Lease {
    /// After how long without renewal it ends.
    pub fn ttl(self) -> Duration {
        self.ttl
    }
}

/// What became of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewed {
    /// It stands for its whole time again.
    Stands,
    /// It has ended, and so has what was put with it.
    Ended,
}

/// What was changed below a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A value was put.
    Put(Versioned),
    /// A key was removed, or its lease ended.
    Deleted {
        /// Which.
        key: Key,
        /// When.
        revision: Revision,
    },
    /// Changes are missing: the store has forgotten them, or the connection was lost. Read everything again, and
    /// watch from there. Nothing follows this.
    Skipped,
}

/// Changes, in their order.
pub trait Events: Send {
    /// Waits for the next change.
    ///
    /// # Errors
    /// [`StoreError::Away`]; then watch again from the last revision seen.
    fn next(&mut self) -> Answer<'_, Change>;
}

/// What hosts know together.
pub trait Store: Send + Sync {
    /// What is at a key.
    ///
    /// # Errors
    /// [`StoreError::Away`].
    fn get<'a>(&'a self, key: &'a Key) -> Answer<'a, Option<Versioned>>;

    /// The first entries below a prefix, behind a key if one is given.
    ///
    /// # Errors
    /// [`StoreError::Away`].
    fn page<'a>(&'a self, prefix: &'a Prefix, after: Option<&'a Key>) -> Answer<'a, Page>;

    /// All comparisons hold and all writes are done, or neither. A key is written once in a commit at most.
    ///
    /// # Errors
    /// [`StoreError::Unknown`] if nobody knows whether it was done; [`StoreError::Away`] if it was not;
    /// [`StoreError::Invalid`] for what no store takes.
    fn commit<'a>(&'a self, when: &'a [Compare], then: &'a [Write]) -> Answer<'a, Committed>;

    /// Follows what is changed below a prefix after a revision.
    ///
    /// # Errors
    /// [`StoreError::Away`].
    fn watch<'a>(&'a self, prefix: &'a Prefix, after: Revision) -> Answer<'a, Box<dyn Events>>;

    /// Begins a lease of a time, whole seconds.
    ///
    /// # Errors
    /// [`StoreError::Away`], [`StoreError::Invalid`].
    fn lease(&self, ttl: Duration) -> Answer<'_, Lease>;

    /// Renews a lease.
    ///
    /// # Errors
    /// [`StoreError::Away`]; then it may stand or have ended.
    fn renew(&self, lease: Lease) -> Answer<'_, Renewed>;

    /// Ends a lease, and what was put with it.
    ///
    /// # Errors
    /// [`StoreError::Away`]; then it ends by itself.
    fn revoke(&self, lease: Lease) -> Answer<'_, ()>;
}

/// What is wrong with a commit, whatever the store has.
fn check(when: &[Compare], then: &[Write]) -> Result<(), StoreError> {
    let invalid = |why: String| Err(StoreError::Invalid(why));
    if when.len() > WRITES_MAX || then.len() > WRITES_MAX {
        return invalid(format!(
            "a commit compares and writes at most {WRITES_MAX} keys"
        ));
    }
    let mut keys: Vec<_> = then.iter().map(Write::key).collect();
    keys.sort_unstable();
    if let Some(twice) = keys.windows(2).find_map(|two| match two {
        [one, other] if one == other => Some(one),
        _ => None,
    }) {
        return invalid(format!("a commit writes {twice} twice"));
    }
    for write in then {
        if let Write::Put { key, value, .. } = write
            && value.len() > VALUE_BYTES_MAX
        {
            let bytes = value.len();
            return invalid(format!(
                "the value of {key} has {bytes} bytes, and {VALUE_BYTES_MAX} are the most"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
