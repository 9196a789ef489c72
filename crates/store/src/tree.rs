//! A store's content, without a clock and without I/O: what [`Memory`](crate::Memory) and
//! [`FileStore`](crate::FileStore) keep.

use crate::{
    Change, Committed, Compare, Key, Lease, PAGE_ENTRIES_MAX, Page, Prefix, Renewed, Revision,
    Versioned, Write,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::time::Duration;

/// Changes that are remembered for those who watch.
const CHANGES_MAX: usize = 1_000;

/// Values under keys, leases, and the last changes.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Tree {
    revision: u64,
    entries: BTreeMap<String, Entry>,
    leases: BTreeMap<i64, Term>,
    /// The last changes, of rising revision.
    changes: VecDeque<Changed>,
    /// How many changes were forgotten, and the revision of the last of them.
    forgotten: u64,
    forgotten_revision: u64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    #[serde(with = "text")]
    value: Vec<u8>,
    revision: u64,
    lease: Option<i64>,
}

/// How long a lease stands, by the time of who keeps the tree.
#[derive(Debug, Serialize, Deserialize)]
struct Term {
    ttl: Duration,
    until: Duration,
}

/// A key that was put or removed.
#[derive(Debug, Serialize, Deserialize)]
struct Changed {
    key: String,
    revision: u64,
    is_put: bool,
}

/// How many changes somebody who watches has seen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor(u64);

impl Tree {
    /// How many changes there were.
    pub(crate) fn revision(&self) -> Revision {
        Revision(self.revision)
    }

    pub(crate) fn get(&self, key: &Key) -> Option<Versioned> {
        let entry = self.entries.get(key.as_str())?;
        Some(versioned(key.clone(), entry))
    }

    pub(crate) fn page(&self, prefix: &Prefix, after: Option<&Key>) -> Page {
        let prefix = prefix.as_str();
        let begin = match after {
            Some(after) if after.as_str() >= prefix => Bound::Excluded(after.as_str()),
            _ => Bound::Included(prefix),
        };
        let below = self
            .entries
            .range::<str, _>((begin, Bound::Unbounded))
            .take_while(|(key, _)| key.starts_with(prefix));
        let mut entries: Vec<_> = below
            .take(PAGE_ENTRIES_MAX + 1)
            .filter_map(|(key, entry)| Some(versioned(Key::new(key).ok()?, entry)))
            .collect();
        let more = entries.len() > PAGE_ENTRIES_MAX;
        entries.truncate(PAGE_ENTRIES_MAX);
        let revision = self.revision();
        Page {
            entries,
            more,
            revision,
        }
    }

    /// Whether all comparisons hold.
    fn holds(&self, when: &[Compare]) -> bool {
        when.iter().all(|compare| match compare {
            Compare::Absent(key) => !self.entries.contains_key(key.as_str()),
            Compare::Unchanged(key, revision) => self
                .entries
                .get(key.as_str())
                .is_some_and(|entry| entry.revision == revision.0),
        })
    }

    /// Does the writes if the comparisons hold. A lease that does not stand refuses them, as etcd does.
    pub(crate) fn commit(&mut self, when: &[Compare], then: &[Write]) -> Committed {
        let stands = |write: &Write| match write {
            Write::Put {
                lease: Some(lease), ..
            } => self.leases.contains_key(&lease.id),
            Write::Put { lease: None, .. } | Write::Delete(_) => true,
        };
        if !self.holds(when) || !then.iter().all(stands) {
            return Committed::Refused;
        }
        self.revision += 1;
        for write in then {
            match write {
                Write::Put { key, value, lease } => {
                    let entry = Entry {
                        value: value.clone(),
                        revision: self.revision,
                        lease: lease.map(|lease| lease.id),
                    };
                    self.entries.insert(key.to_string(), entry);
                    self.changed(key.as_str(), true);
                }
                Write::Delete(key) => self.remove(key.as_str()),
            }
        }
        Committed::Done(self.revision())
    }

    fn remove(&mut self, key: &str) {
        if self.entries.remove(key).is_some() {
            self.changed(key, false);
        }
    }

    fn changed(&mut self, key: &str, is_put: bool) {
        self.changes.push_back(Changed {
            key: key.to_owned(),
            revision: self.revision,
            is_put,
        });
        if self.changes.len() > CHANGES_MAX
            && let Some(oldest) = self.changes.pop_front()
        {
            self.forgotten += 1;
            self.forgotten_revision = oldest.revision;
        }
    }

    /// Forgets all changes so far, as a store does that is compacted.
    pub(crate) fn compact(&mut self) {
        self.forgotten += self.changes.len() as u64;
        self.forgotten_revision = self.revision;
        self.changes.clear();
    }

    /// Where to begin to watch behind a revision, unless changes since then were forgotten or that revision is yet
    /// to come, as after the loss of a store's content.
    pub(crate) fn cursor(&self, after: Revision) -> Option<Cursor> {
        if after.0 < self.forgotten_revision || after.0 > self.revision {
            return None;
        }
        let seen = self
            .changes
            .partition_point(|changed| changed.revision <= after.0);
        Some(Cursor(self.forgotten + seen as u64))
    }

    /// The next change below a prefix, if there is one. A value that was overtaken is passed over.
    pub(crate) fn next(&self, prefix: &Prefix, cursor: &mut Cursor) -> Option<Change> {
        let Some(first) = cursor.0.checked_sub(self.forgotten) else {
            return Some(Change::Skipped);
        };
        let first = usize::try_from(first).unwrap_or(usize::MAX);
        for changed in self.changes.iter().skip(first) {
            cursor.0 += 1;
            let revision = Revision(changed.revision);
            let Ok(key) = Key::new(&changed.key) else {
                continue;
            };
            if key.below(prefix).is_none() {
                continue;
            }
            if !changed.is_put {
                return Some(Change::Deleted { key, revision });
            }
            if let Some(entry) = self.get(&key).filter(|entry| entry.revision == revision) {
                return Some(Change::Put(entry));
            }
        }
        None
    }

    /// Begins a lease at this time.
    pub(crate) fn lease(&mut self, ttl: Duration, now: Duration) -> Lease {
        let last = self.leases.last_key_value().map_or(0, |(id, _)| *id);
        // A number is not given twice while anybody may still have it: the revision rises with each that ends.
        let id = last.max(i64::try_from(self.revision).unwrap_or(i64::MAX - 1)) + 1;
        let until = now + ttl;
        self.leases.insert(id, Term { ttl, until });
        Lease { id, ttl }
    }

    pub(crate) fn renew(&mut self, lease: Lease, now: Duration) -> Renewed {
        match self.leases.get_mut(&lease.id) {
            Some(term) if term.until > now => {
                term.until = now + term.ttl;
                Renewed::Stands
            }
            _ => Renewed::Ended,
        }
    }

    pub(crate) fn revoke(&mut self, lease: Lease) {
        self.end(lease.id);
    }

    fn end(&mut self, lease: i64) {
        if self.leases.remove(&lease).is_none() {
            return;
        }
        self.revision += 1;
        let of_lease = |entry: &Entry| entry.lease == Some(lease);
        let keys: Vec<_> = self
            .entries
            .iter()
            .filter(|(_, entry)| of_lease(entry))
            .map(|(key, _)| key.clone())
            .collect();
        for key in keys {
            self.remove(&key);
        }
    }

    /// Ends the leases whose time is over. Returns whether there was one.
    pub(crate) fn expire(&mut self, now: Duration) -> bool {
        let over = |term: &Term| term.until <= now;
        let ended: Vec<_> = self
            .leases
            .iter()
            .filter(|(_, term)| over(term))
            .map(|(id, _)| *id)
            .collect();
        for id in &ended {
            self.end(*id);
        }
        !ended.is_empty()
    }
}

fn versioned(key: Key, entry: &Entry) -> Versioned {
    Versioned {
        key,
        value: entry.value.clone(),
        revision: Revision(entry.revision),
    }
}

/// Values as text where they are text, which ours are, and as numbers where they are not.
mod text {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    enum Value {
        Text(String),
        Bytes(Vec<u8>),
    }

    pub(super) fn serialize<S: Serializer>(value: &[u8], to: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(value) {
            Ok(text) => to.serialize_str(text),
            Err(_) => value.serialize(to),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        Ok(match Value::deserialize(from)? {
            Value::Text(text) => text.into_bytes(),
            Value::Bytes(bytes) => bytes,
        })
    }
}
