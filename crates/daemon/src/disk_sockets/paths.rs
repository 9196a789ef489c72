//! Which disk's socket each path is.

use super::SocketKey;
use configuration::Name;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The paths of all disks' sockets.
///
/// Invariant: a path leads to one disk as long as that disk is there, whatever becomes of others. A VM's QEMU connects
/// again and again to the path that it was given; were the path handed to another disk, the VM would go on with that one's
/// bytes.
#[derive(Debug, Default)]
pub(super) struct Paths {
    owners: BTreeMap<PathBuf, SocketKey>,
    /// The same by socket.
    claimed: BTreeMap<SocketKey, PathBuf>,
    /// Who came to a path that another disk had claimed: it does not get it when that one goes.
    barred: BTreeMap<SocketKey, Name>,
}

impl Paths {
    /// Lets a disk have these sockets and no others. Returns those that are barred from now on, each with the disk that
    /// has its path. `is_there` says whether an owner still is; the path of one that is gone is free.
    pub(super) fn claim(
        &mut self,
        disk: &Name,
        sockets: &[(SocketKey, PathBuf)],
        is_there: impl Fn(&SocketKey) -> bool,
    ) -> Vec<(SocketKey, Name)> {
        self.give_up(disk, sockets);
        let mut barred = Vec::new();
        for (key, path) in sockets {
            if self.claimed.contains_key(key) || self.barred.contains_key(key) {
                continue;
            }
            if let Some(owner) = self.owners.get(path) {
                if is_there(owner) {
                    let owner = owner.disk.clone();
                    self.barred.insert(key.clone(), owner.clone());
                    barred.push((key.clone(), owner));
                    continue;
                }
                self.claimed.remove(owner);
            }
            self.owners.insert(path.clone(), key.clone());
            self.claimed.insert(key.clone(), path.clone());
        }
        barred
    }

    /// Frees what a disk has and is not among these sockets.
    fn give_up(&mut self, disk: &Name, sockets: &[(SocketKey, PathBuf)]) {
        let mut given_up = Vec::new();
        for (key, path) in of_disk(&self.claimed, disk) {
            if !sockets.iter().any(|(it, at)| it == key && at == path) {
                given_up.push(key.clone());
            }
        }
        for key in given_up {
            if let Some(path) = self.claimed.remove(&key) {
                self.owners.remove(&path);
            }
        }
        let barred: Vec<SocketKey> = of_disk(&self.barred, disk)
            .map(|(key, _)| key.clone())
            .filter(|key| !sockets.iter().any(|(it, _)| it == key))
            .collect();
        for key in barred {
            self.barred.remove(&key);
        }
    }

    /// Whose socket a path is.
    pub(super) fn owner(&self, path: &Path) -> Option<&SocketKey> {
        self.owners.get(path)
    }

    /// The disk that has the path of this socket, if another one does.
    pub(super) fn barred_by(&self, key: &SocketKey) -> Option<&Name> {
        self.barred.get(key)
    }

    /// Disks that have a path or are barred from one; each at least once.
    pub(super) fn disks(&self) -> impl Iterator<Item = &Name> {
        self.claimed
            .keys()
            .chain(self.barred.keys())
            .map(|key| &key.disk)
    }
}

/// What a map has of a disk's sockets.
pub(super) fn of_disk<'m, T>(
    map: &'m BTreeMap<SocketKey, T>,
    disk: &Name,
) -> impl Iterator<Item = (&'m SocketKey, &'m T)> {
    map.range(SocketKey::first(disk)..)
        .take_while(|(key, _)| key.disk == *disk)
}

#[cfg(test)]
mod tests {
    use super::super::Protocol;
    use super::*;

    fn socket(disk: &str, serial: u64, path: &str) -> (SocketKey, PathBuf) {
        let key = SocketKey {
            disk: disk.parse().unwrap(),
            serial,
            protocol: Protocol::Nbd,
            reader: None,
        };
        (key, path.into())
    }

    /// Lets the disk of the first socket have these; who is barred, and by whom.
    fn claim(
        paths: &mut Paths,
        disk: &str,
        sockets: &[(SocketKey, PathBuf)],
        is_there: bool,
    ) -> Vec<String> {
        let barred = paths.claim(&disk.parse().unwrap(), sockets, |_| is_there);
        barred.into_iter().map(|(_, by)| by.to_string()).collect()
    }

    #[test]
    fn a_path_stays_with_who_claimed_it_and_who_came_second_does_not_inherit_it() {
        let mut paths = Paths::default();
        let (one, two) = (socket("one", 1, "/s"), socket("two", 2, "/s"));
        assert!(claim(&mut paths, "one", std::slice::from_ref(&one), true).is_empty());
        assert_eq!(
            claim(&mut paths, "two", std::slice::from_ref(&two), true),
            ["one"]
        );
        assert_eq!(paths.owner(Path::new("/s")), Some(&one.0));
        // Told once.
        assert!(claim(&mut paths, "two", std::slice::from_ref(&two), true).is_empty());
        assert!(claim(&mut paths, "one", &[], true).is_empty());
        assert!(claim(&mut paths, "two", std::slice::from_ref(&two), true).is_empty());
        assert_eq!(paths.owner(Path::new("/s")), None);
        assert_eq!(
            paths.barred_by(&two.0).map(Name::as_str),
            Some("one"),
            "until it is attached anew"
        );
        let again = socket("two", 3, "/s");
        assert!(claim(&mut paths, "two", std::slice::from_ref(&again), true).is_empty());
        assert_eq!(paths.owner(Path::new("/s")), Some(&again.0));
        assert_eq!(paths.barred_by(&two.0), None);
    }

    #[test]
    fn the_path_of_a_disk_that_is_gone_is_free_although_nobody_gave_it_up() {
        let mut paths = Paths::default();
        claim(&mut paths, "one", &[socket("one", 1, "/s")], true);
        let two = socket("two", 2, "/s");
        assert!(claim(&mut paths, "two", std::slice::from_ref(&two), false).is_empty());
        assert_eq!(paths.owner(Path::new("/s")), Some(&two.0));
        // What the first one gives up later is not the second one's.
        claim(&mut paths, "one", &[], true);
        assert_eq!(paths.owner(Path::new("/s")), Some(&two.0));
    }

    #[test]
    fn a_disk_has_a_path_once_and_gives_up_what_it_has_no_more() {
        let mut paths = Paths::default();
        let (first, mut second) = (socket("one", 1, "/s"), socket("one", 1, "/s"));
        second.0.protocol = Protocol::VhostUser;
        let both = [first.clone(), second.clone()];
        assert_eq!(claim(&mut paths, "one", &both, true), ["one"]);
        second.1 = "/t".into();
        claim(&mut paths, "one", &[], true);
        assert_eq!(paths.disks().count(), 0);
        assert!(claim(&mut paths, "one", &[first, second], true).is_empty());
        claim(&mut paths, "one", &[socket("one", 1, "/u")], true);
        assert_eq!(paths.owner(Path::new("/s")), None);
        assert_eq!(paths.owner(Path::new("/t")), None);
        assert!(paths.owner(Path::new("/u")).is_some());
    }
}
