//! The key by which a target knows this host for one unit, and whether another host's may be taken.
//!
//! ```text
//!   hearth iscsi key 1
//!   unit iscsi://store:3260/iqn.2026-01.org.example:vms/1
//!   key 00f3a1c277b01e55
//!   anybody              another host that is gone for good, by an operator's word
//! ```
//!
//! The key outlives the process: a unit that a killed daemon had reserved is still ours.

use crate::late::random;
use crate::{Keeping, kept_text};
use std::io;
use std::path::PathBuf;

const TITLE: &str = "hearth iscsi key 1";

/// The key, and whether whoever has the unit may be fenced off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) own: u64,
    pub(super) takes_from_anybody: bool,
}

impl Key {
    /// One that is not remembered.
    pub(super) fn passing() -> Self {
        Self {
            own: random().max(1),
            takes_from_anybody: false,
        }
    }
}

/// Where it is remembered.
#[derive(Clone, Debug)]
pub(super) struct Record {
    origin: String,
    path: PathBuf,
}

impl Record {
    pub(super) fn of(keeping: &Keeping, origin: &str) -> Self {
        Self {
            origin: origin.to_owned(),
            path: kept_text::path_of(&keeping.state_dir, "iscsi-keys", origin, "key"),
        }
    }

    pub(super) fn path(&self) -> PathBuf {
        self.path.clone()
    }

    /// The key that is remembered, or a new one that is from now on. May block.
    pub(super) fn load(&self) -> io::Result<Key> {
        let text = kept_text::text(&self.path)?;
        let key = |line: &str| u64::from_str_radix(line.strip_prefix("key ")?, 16).ok();
        if let Some(own) = text.lines().find_map(key) {
            return Ok(Key {
                own,
                takes_from_anybody: text.lines().any(|line| line == "anybody"),
            });
        }
        let key = Key::passing();
        self.store(key)?;
        Ok(key)
    }

    /// Remembers the key. May block.
    pub(super) fn store(&self, key: Key) -> io::Result<()> {
        let anybody = if key.takes_from_anybody {
            "anybody\n"
        } else {
            ""
        };
        let (unit, own) = (self.origin.escape_default(), key.own);
        let text = format!("{TITLE}\nunit {unit}\nkey {own:016x}\n{anybody}");
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
    fn a_key_outlives_its_process() {
        let folder = tempfile::tempdir().unwrap();
        let keeping = Keeping {
            runtime_dir: folder.path().to_owned(),
            state_dir: folder.path().to_owned(),
            sockets: Arc::new(KeepsNone),
        };
        let record = Record::of(&keeping, "iscsi://a/b/1");
        let key = record.load().unwrap();
        assert_eq!(record.load().unwrap(), key);
        assert_ne!(Record::of(&keeping, "iscsi://a/b/2").load().unwrap(), key);
        let takes = Key {
            takes_from_anybody: true,
            ..key
        };
        record.store(takes).unwrap();
        assert_eq!(record.load().unwrap(), takes);
    }
}
