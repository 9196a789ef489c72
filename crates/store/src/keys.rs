//! The keys that a cluster has.
//!
//! | key | value | lives by |
//! |---|---|---|
//! | `hosts/HOST` | what the host is | a lease of the host |
//! | `load/HOST` | what its VMs wanted in the last window | a lease of some windows |
//! | `disks/DISK/owner` | who has the disk | for ever |
//! | `moves/VM` | how far the VM's last move is, and who drives it | until its next move |
//! | `orders/VM` | what the driver wants of the move's two hosts | as its move |
//! | `answers/VM/HOST` | what a host has answered | as its move |
//! | `pace/VM` | what a migration may send in a second | a lease of who says it |
//! | `turns` | raised whenever a move begins at its hosts, so that two begin one after the other | for ever |
//! | `plans/VM/STEP` | what was planned, and what came of it | a lease of 30 days |
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
/// Folder of what drivers want of hosts.
pub const ORDERS: Folder = Folder("orders");
/// Folder of what hosts have answered.
pub const ANSWERS: Folder = Folder("answers");
/// Folder of what migrations may send.
pub const PACES: Folder = Folder("pace");
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

/// Where a VM's move is.
///
/// # Errors
/// [`InvalidKey`] if the VM's name has anything else than a DNS name or underscores.
pub fn moving(vm: &str) -> Result<Key, InvalidKey> {
    MOVES.prefix().key(vm)
}

/// Where it says what the driver of a VM's move wants.
///
/// # Errors
/// As [`moving`].
pub fn order(vm: &str) -> Result<Key, InvalidKey> {
    ORDERS.prefix().key(vm)
}

/// Where a host answers the driver of a VM's move.
///
/// # Errors
/// As [`moving`].
pub fn answer(vm: &str, host: &str) -> Result<Key, InvalidKey> {
    ANSWERS.prefix().key(&format!("{vm}/{host}"))
}

/// Where it says what a VM's migration may send.
///
/// # Errors
/// As [`moving`].
pub fn pace(vm: &str) -> Result<Key, InvalidKey> {
    PACES.prefix().key(vm)
}

/// What is raised whenever a move begins at its hosts.
pub fn turns() -> Key {
    constant("turns")
}

/// Where a plan is, or, by the VM alone, all of that VM's.
///
/// # Errors
/// As [`moving`].
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
