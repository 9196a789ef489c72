//! The keys that a cluster has.
//!
//! | key | value | lives by |
//! |---|---|---|
//! | `hosts/HOST` | what the host is | a lease of the host |
//! | `load/HOST` | what its VMs wanted in the last window | a lease of some windows |
//! | `disks/DISK/owner` | who has the disk | for ever |
//! | `moves/ID` | how far a move is, and who drives it | until it is archived |
//! | `plans/ID` | what was planned, and what came of it | a lease of 30 days |
//! | `leader/balance` | who plans | a lease of that host |
//! | `settings/NAME` | modes, limits, pins | for ever |

use crate::key::{InvalidKey, Key, Prefix};
use units::DiskId;

/// Folder of the hosts that are heard of.
pub const HOSTS: Folder = Folder("hosts");
/// Folder of the hosts' loads.
pub const LOADS: Folder = Folder("load");
/// Folder of the disks' owners.
pub const OWNERS: Folder = Folder("disks");
/// Folder of moves.
pub const MOVES: Folder = Folder("moves");
/// Folder of plans.
pub const PLANS: Folder = Folder("plans");
/// Folder of settings.
pub const SETTINGS: Folder = Folder("settings");
/// Where the planner's name is.
pub const LEADER: &str = "leader/balance";

/// One of the folders above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Folder(&'static str);

impl Folder {
    /// Its keys.
    pub fn prefix(self) -> Prefix {
        Prefix::below(&constant(self.0))
    }
}

/// Where a host says that it is there.
///
/// # Errors
/// [`InvalidKey`] if its name has anything else than a DNS name has.
pub fn host(name: &str) -> Result<Key, InvalidKey> {
    HOSTS.prefix().key(name)
}

/// Where a host's load is.
///
/// # Errors
/// As [`host`].
pub fn load(host: &str) -> Result<Key, InvalidKey> {
    LOADS.prefix().key(host)
}

/// Where it says who has a disk.
pub fn owner(disk: DiskId) -> Key {
    constant(&format!("{}/{disk}/owner", OWNERS.0))
}

/// Which disk's owner is at a key, if it is one.
pub fn owned(key: &Key) -> Option<DiskId> {
    let rest = key.below(&OWNERS.prefix())?;
    rest.strip_suffix("/owner")?.parse().ok()
}

/// Where a move is.
///
/// # Errors
/// [`InvalidKey`] if that cannot be its name.
pub fn moving(id: &str) -> Result<Key, InvalidKey> {
    MOVES.prefix().key(id)
}

/// Where a plan is.
///
/// # Errors
/// [`InvalidKey`] if that cannot be its name.
pub fn plan(id: &str) -> Result<Key, InvalidKey> {
    PLANS.prefix().key(id)
}

/// Where the planner's name is.
pub fn leader() -> Key {
    constant(LEADER)
}

/// Where a setting is.
///
/// # Errors
/// [`InvalidKey`] if that cannot be its name.
pub fn setting(name: &str) -> Result<Key, InvalidKey> {
    SETTINGS.prefix().key(name)
}

/// A key that this file spells.
///
/// # Panics
/// If it is spelt wrong.
fn constant(text: &str) -> Key {
    Key::new(text).expect("a key of ours is a key")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owner_of_a_disk_is_found_again() {
        let disk = DiskId::from_u128(0x1234);
        let key = owner(disk);
        assert_eq!(owned(&key), Some(disk));
        assert_eq!(owned(&leader()), None);
        assert_eq!(owned(&Key::new("disks/x/owner").unwrap()), None);
        assert!(host("a/../b c").is_err());
    }
}
