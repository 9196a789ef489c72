//! A store in one file, for the processes of one host.
//!
//! The file is JSON that a person can read, and is replaced whole: after a crash it has a commit or it has not. Who reads
//! or changes it holds a lock beside it, `PATH.lock`. Leases end by the system's clock, which a person can set: a lease
//! never owns a disk, so that is no harm. Who watches looks four times a second.

use crate::tree::{Cursor, Tree};
use crate::{
    Answer, Change, Committed, Compare, Events, Key, Lease, Page, Prefix, Renewed, Revision, Store,
    StoreError, Versioned, Write, check,
};
use durable_file::Readers;
use rustix::fs::{FlockOperation, flock};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How often who watches looks.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// A store in one file. The file is made by the first change.
#[derive(Clone, Debug)]
pub struct FileStore {
    path: PathBuf,
}

impl FileStore {
    /// The store in this file.
    pub fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
        }
    }

    /// Lets a function change the content.
    fn change<T>(&self, call: impl FnOnce(&mut Tree, Duration) -> T) -> Result<T, StoreError> {
        let _lock = self.lock().map_err(|error| self.away(&error))?;
        let mut tree = self.load()?;
        let now = now();
        tree.expire(now);
        let answer = call(&mut tree, now);
        self.save(&tree)?;
        Ok(answer)
    }

    /// Lets a function see the content.
    fn look<T>(&self, call: impl FnOnce(&Tree) -> T) -> Result<T, StoreError> {
        let _lock = self.lock().map_err(|error| self.away(&error))?;
        let mut tree = self.load()?;
        if tree.expire(now()) {
            self.save(&tree)?;
        }
        Ok(call(&tree))
    }

    /// Waits for whoever else has the file, for the length of a call.
    fn lock(&self) -> io::Result<File> {
        let mut path = self.path.clone().into_os_string();
        path.push(".lock");
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(path)?;
        flock(&file, FlockOperation::LockExclusive)?;
        Ok(file)
    }

    fn load(&self) -> Result<Tree, StoreError> {
        match std::fs::read(&self.path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| {
                let path = self.path.display();
                StoreError::Damaged(format!("{path}: {error}"))
            }),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Tree::default()),
            Err(error) => Err(self.away(&error)),
        }
    }

    fn save(&self, tree: &Tree) -> Result<(), StoreError> {
        let text = serde_json::to_vec(tree)
            .map_err(|error| StoreError::Invalid(format!("it cannot be written: {error}")))?;
        durable_file::replace(&self.path, Readers::Owner, &text).map_err(|error| {
            // The new content may be there, though not for sure after a power cut.
            StoreError::Unknown(format!("{}: {error}", self.path.display()))
        })
    }

    fn away(&self, error: &io::Error) -> StoreError {
        StoreError::Away(format!("{}: {error}", self.path.display()))
    }
}

/// Since 1970.
fn now() -> Duration {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default()
}

fn ready<'a, T: Send + 'a>(answer: Result<T, StoreError>) -> Answer<'a, T> {
    Box::pin(std::future::ready(answer))
}

impl Store for FileStore {
    fn get<'a>(&'a self, key: &'a Key) -> Answer<'a, Option<Versioned>> {
        ready(self.look(|tree| tree.get(key)))
    }

    fn page<'a>(&'a self, prefix: &'a Prefix, after: Option<&'a Key>) -> Answer<'a, Page> {
        ready(self.look(|tree| tree.page(prefix, after)))
    }

    fn commit<'a>(&'a self, when: &'a [Compare], then: &'a [Write]) -> Answer<'a, Committed> {
        let checked = check(when, then);
        ready(checked.and_then(|()| self.change(|tree, _| tree.commit(when, then))))
    }

    fn watch<'a>(&'a self, prefix: &'a Prefix, after: Revision) -> Answer<'a, Box<dyn Events>> {
        let watched = self.look(|tree| Watched {
            store: self.clone(),
            prefix: prefix.clone(),
            cursor: tree.cursor(after),
        });
        ready(watched.map(|watched| Box::new(watched) as Box<dyn Events>))
    }

    fn lease(&self, ttl: Duration) -> Answer<'_, Lease> {
        ready(self.change(|tree, now| tree.lease(ttl, now)))
    }

    fn renew(&self, lease: Lease) -> Answer<'_, Renewed> {
        ready(self.change(|tree, now| tree.renew(lease, now)))
    }

    fn revoke(&self, lease: Lease) -> Answer<'_, ()> {
        ready(self.change(|tree, _| tree.revoke(lease)))
    }
}

/// Somebody who follows changes.
struct Watched {
    store: FileStore,
    prefix: Prefix,
    /// None once changes were skipped.
    cursor: Option<Cursor>,
}

impl Events for Watched {
    fn next(&mut self) -> Answer<'_, Change> {
        Box::pin(async {
            loop {
                let Some(cursor) = &mut self.cursor else {
                    return Ok(Change::Skipped);
                };
                let prefix = &self.prefix;
                match self.store.look(|tree| tree.next(prefix, cursor))? {
                    Some(Change::Skipped) => self.cursor = None,
                    Some(change) => return Ok(change),
                    None => tokio::time::sleep(LOOK_EVERY).await,
                }
            }
        })
    }
}
