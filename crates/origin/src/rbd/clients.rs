//! Which clients of the cluster this host was, so that the lock of one that was killed is known to be ours.
//!
//! ```text
//!   hearth rbd clients 1
//!   image rbd:vms/web-1
//!   client 4123          a former process of this host, or this one
//!   anybody              another host that is gone for good, by an operator's word
//! ```
//!
//! A client is written down before it asks for the lock, and the others are forgotten when it has the lock.

use crate::{Keeping, kept_text};
use std::fmt::Write as _;
use std::io;
use std::path::PathBuf;

const TITLE: &str = "hearth rbd clients 1";

/// Clients whose lock may be broken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Former {
    clients: Vec<u64>,
    is_anybody: bool,
}

impl Former {
    pub(super) fn has(&self, client: u64) -> bool {
        self.is_anybody || self.clients.contains(&client)
    }
}

/// Where they are remembered.
#[derive(Clone, Debug)]
pub(super) struct Record {
    origin: String,
    path: PathBuf,
}

impl Record {
    pub(super) fn of(keeping: &Keeping, origin: &str) -> Self {
        Self {
            origin: origin.to_owned(),
            path: kept_text::path_of(&keeping.state_dir, "rbd-clients", origin, "clients"),
        }
    }

    pub(super) fn path(&self) -> PathBuf {
        self.path.clone()
    }

    /// What is remembered. A line that nobody wrote means nothing.
    pub(super) fn load(&self) -> io::Result<Former> {
        let text = kept_text::text(&self.path)?;
        let client = |line: &str| line.strip_prefix("client ")?.parse().ok();
        Ok(Former {
            clients: text.lines().filter_map(client).collect(),
            is_anybody: text.lines().any(|line| line == "anybody"),
        })
    }

    /// Remembers a client beside those before it. May block.
    pub(super) fn add(&self, mut former: Former, client: u64) -> io::Result<()> {
        former.clients.push(client);
        self.store(&former)
    }

    /// Remembers one client alone. May block.
    pub(super) fn store_only(&self, client: u64) -> io::Result<()> {
        self.store(&Former {
            clients: vec![client],
            is_anybody: false,
        })
    }

    /// Remembers that whoever has the lock is gone. May block.
    pub(super) fn store_anybody(&self) -> io::Result<()> {
        self.store(&Former {
            is_anybody: true,
            ..self.load()?
        })
    }

    fn store(&self, former: &Former) -> io::Result<()> {
        let mut text = format!("{TITLE}\nimage {}\n", self.origin.escape_default());
        for client in &former.clients {
            // Writing to a string does not fail.
            let _ = writeln!(text, "client {client}");
        }
        if former.is_anybody {
            text.push_str("anybody\n");
        }
        kept_text::store(&self.path, &text)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use crate::KeepsNone;
    use std::sync::Arc;

    #[test]
    fn clients_are_known_until_one_of_them_has_the_lock() {
        let folder = tempfile::tempdir().unwrap();
        let keeping = Keeping {
            runtime_dir: folder.path().to_owned(),
            state_dir: folder.path().to_owned(),
            sockets: Arc::new(KeepsNone),
        };
        let record = Record::of(&keeping, "rbd:vms/web");
        assert_eq!(record.load().unwrap(), Former::default());
        record.add(record.load().unwrap(), 7).unwrap();
        record.add(record.load().unwrap(), 9).unwrap();
        let both = record.load().unwrap();
        assert!(both.has(7) && both.has(9) && !both.has(8));
        record.store_anybody().unwrap();
        assert!(record.load().unwrap().has(8));
        record.store_only(9).unwrap();
        let one = record.load().unwrap();
        assert!(one.has(9) && !one.has(7));
        let other = Record::of(&keeping, "rbd:vms/other");
        assert!(!other.load().unwrap().has(9));
    }
}
