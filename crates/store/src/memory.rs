//! A store in memory, for one process: tests and simulations. Time stands still until somebody moves it, and a seed
//! decides what fails.

use crate::tree::{Cursor, Tree};
use crate::{
    Answer, Change, Committed, Compare, Events, Key, Lease, Page, Prefix, Renewed, Revision, Store,
    StoreError, Versioned, Write, check,
};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use units::Prng;

/// How often what fails, of a thousand calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// A commit is done, and its answer is lost.
    pub lost_answers: u16,
    /// A commit is not done, and nobody says so.
    pub lost_questions: u16,
    /// A call finds nobody.
    pub away: u16,
    /// Before a call, all changes so far are forgotten: who watches has skipped some.
    pub compactions: u16,
}

/// The store itself. Its clients share it.
#[derive(Clone, Debug)]
pub struct Memory {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    inner: Mutex<Inner>,
    /// Told of each change, and of clients that are cut off.
    changed: watch::Sender<()>,
}

#[derive(Debug)]
struct Inner {
    tree: Tree,
    now: Duration,
    faults: Faults,
    dice: Prng,
    /// Clients that do not reach it.
    cut: BTreeSet<String>,
}

impl Memory {
    /// An empty store whose faults are decided by a seed.
    pub fn new(seed: u64, faults: Faults) -> Self {
        let inner = Inner {
            tree: Tree::default(),
            now: Duration::ZERO,
            faults,
            dice: Prng::new(seed),
            cut: BTreeSet::new(),
        };
        let shared = Shared {
            inner: Mutex::new(inner),
            changed: watch::Sender::new(()),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// A client, by the name of its host.
    pub fn client(&self, name: &str) -> MemoryClient {
        MemoryClient {
            memory: self.clone(),
            name: name.to_owned(),
        }
    }

    /// Lets time pass. Leases that were not renewed end.
    pub fn pass(&self, time: Duration) {
        let mut inner = self.lock();
        inner.now += time;
        let now = inner.now;
        inner.tree.expire(now);
        drop(inner);
        self.tell();
    }

    /// Cuts a host off: its calls find nobody.
    pub fn cut(&self, name: &str) {
        self.lock().cut.insert(name.to_owned());
        self.tell();
    }

    /// Lets a host reach it again.
    pub fn heal(&self, name: &str) {
        self.lock().cut.remove(name);
    }

    /// Forgets all changes so far: who watches has skipped some.
    pub fn compact(&self) {
        self.lock().tree.compact();
        self.tell();
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        let inner = &self.shared.inner;
        inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self) {
        self.shared.changed.send_replace(());
    }
}

impl Inner {
    /// Whether something of this frequency happens now.
    fn happens(&mut self, of_thousand: u16) -> bool {
        of_thousand > 0 && self.dice.below(1_000) < u64::from(of_thousand)
    }

    /// What may happen before any call of a client.
    fn reach(&mut self, client: &str) -> Result<(), StoreError> {
        if self.cut.contains(client) {
            return Err(away());
        }
        if self.happens(self.faults.compactions) {
            self.tree.compact();
        }
        if self.happens(self.faults.away) {
            return Err(away());
        }
        Ok(())
    }
}

fn away() -> StoreError {
    StoreError::Away("it was cut off".to_owned())
}

/// A host's way to a [`Memory`].
#[derive(Clone, Debug)]
pub struct MemoryClient {
    memory: Memory,
    name: String,
}

impl MemoryClient {
    /// Answers a call that the store is reached by.
    fn ask<T>(&self, call: impl FnOnce(&mut Inner) -> T) -> Answer<'_, T>
    where
        T: Send + 'static,
    {
        let mut inner = self.memory.lock();
        let answer = inner.reach(&self.name).map(|()| call(&mut inner));
        Box::pin(std::future::ready(answer))
    }

    fn committed(&self, when: &[Compare], then: &[Write]) -> Result<Committed, StoreError> {
        check(when, then)?;
        let mut inner = self.memory.lock();
        inner.reach(&self.name)?;
        let lost = |what: &str| Err(StoreError::Unknown(format!("its {what} was lost")));
        let faults = inner.faults;
        if inner.happens(faults.lost_questions) {
            return lost("question");
        }
        let committed = inner.tree.commit(when, then);
        if inner.happens(faults.lost_answers) {
            return lost("answer");
        }
        Ok(committed)
    }
}

impl Store for MemoryClient {
    fn get<'a>(&'a self, key: &'a Key) -> Answer<'a, Option<Versioned>> {
        self.ask(|inner| inner.tree.get(key))
    }

    fn page<'a>(&'a self, prefix: &'a Prefix, after: Option<&'a Key>) -> Answer<'a, Page> {
        self.ask(|inner| inner.tree.page(prefix, after))
    }

    fn commit<'a>(&'a self, when: &'a [Compare], then: &'a [Write]) -> Answer<'a, Committed> {
        let committed = self.committed(when, then);
        self.memory.tell();
        Box::pin(std::future::ready(committed))
    }

    fn watch<'a>(&'a self, prefix: &'a Prefix, after: Revision) -> Answer<'a, Box<dyn Events>> {
        self.ask(|inner| {
            let cursor = inner.tree.cursor(after);
            let events = Watched {
                client: self.clone(),
                changed: self.memory.shared.changed.subscribe(),
                prefix: prefix.clone(),
                cursor,
            };
            Box::new(events) as Box<dyn Events>
        })
    }

    fn lease(&self, ttl: Duration) -> Answer<'_, Lease> {
        self.ask(|inner| inner.tree.lease(ttl, inner.now))
    }

    fn renew(&self, lease: Lease) -> Answer<'_, Renewed> {
        self.ask(|inner| inner.tree.renew(lease, inner.now))
    }

    fn revoke(&self, lease: Lease) -> Answer<'_, ()> {
        let answer = self.ask(|inner| inner.tree.revoke(lease));
        self.memory.tell();
        answer
    }
}

/// Somebody who follows changes.
struct Watched {
    client: MemoryClient,
    changed: watch::Receiver<()>,
    prefix: Prefix,
    /// None once changes were skipped.
    cursor: Option<Cursor>,
}

impl Watched {
    fn next_seen(&mut self) -> Option<Result<Change, StoreError>> {
        let inner = self.client.memory.lock();
        if inner.cut.contains(&self.client.name) {
            return Some(Err(away()));
        }
        let Some(cursor) = &mut self.cursor else {
            return Some(Ok(Change::Skipped));
        };
        let change = inner.tree.next(&self.prefix, cursor)?;
        if change == Change::Skipped {
            self.cursor = None;
        }
        Some(Ok(change))
    }
}

impl Events for Watched {
    fn next(&mut self) -> Answer<'_, Change> {
        Box::pin(async {
            loop {
                self.changed.borrow_and_update();
                if let Some(next) = self.next_seen() {
                    return next;
                }
                // The sender is kept by this client's store.
                let _ = self.changed.changed().await;
            }
        })
    }
}
