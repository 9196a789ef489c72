//! What a plan is made from: the loads of all hosts, the moves under way, and what earlier moves found.

use crate::found::Finding;
use crate::limits::HOSTS_MAX;
use crate::load::HostLoad;
use crate::name::Name;
use std::collections::{BTreeMap, BTreeSet};

/// A move that has begun and has not ended, or that ended in a way which an operator has to look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnderWay {
    /// The VM.
    pub vm: Name,
    /// Where it was.
    pub from: Name,
    /// Where it goes.
    pub to: Name,
    /// It has failed, and nobody has cleared it. Its VM stays where it is; the limits on moves do not count it.
    pub has_failed: bool,
}

/// The loads of all hosts, by name, with what is under way.
#[derive(Clone, Debug)]
pub struct Fleet {
    pub(crate) hosts: Vec<HostLoad>,
    pub(crate) under_way: Vec<UnderWay>,
    pub(crate) findings: Vec<Finding>,
    /// VMs that two hosts name, and one of these hosts.
    pub(crate) named_twice: BTreeSet<Name>,
}

/// Why loads are not a fleet.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum FleetError {
    /// One host's load is there twice.
    #[error("the load of host {0} is there twice: leave the older one out")]
    HostTwice(Name),
    /// Too many hosts.
    #[error("{0} hosts: at most {HOSTS_MAX}")]
    TooManyHosts(usize),
}

impl Fleet {
    /// The fleet of these hosts.
    ///
    /// A VM that two hosts name is no error: one of them may be wrong, or both have published while it moved. It
    /// counts at both and stays where it is.
    ///
    /// # Errors
    /// If a host is there twice, or there are too many.
    pub fn new(
        mut hosts: Vec<HostLoad>,
        under_way: Vec<UnderWay>,
        findings: Vec<Finding>,
    ) -> Result<Self, FleetError> {
        if hosts.len() > HOSTS_MAX {
            return Err(FleetError::TooManyHosts(hosts.len()));
        }
        // Sums of floating-point numbers depend on their order, and a plan must not depend on the order of the input.
        hosts.sort_by(|one, other| one.host.cmp(&other.host));
        if let Some(pair) = hosts.windows(2).find(|pair| pair[0].host == pair[1].host) {
            return Err(FleetError::HostTwice(pair[0].host.clone()));
        }
        let mut owners: BTreeMap<&Name, usize> = BTreeMap::new();
        for vm in hosts.iter().flat_map(|host| &host.vms) {
            *owners.entry(&vm.vm).or_default() += 1;
        }
        let named_twice = owners.into_iter().filter(|(_, hosts)| *hosts > 1);
        let named_twice = named_twice.map(|(vm, _)| vm.clone()).collect();
        Ok(Self {
            hosts,
            under_way,
            findings,
            named_twice,
        })
    }

    /// The hosts, by name.
    pub fn hosts(&self) -> &[HostLoad] {
        &self.hosts
    }

    /// The place of a host in [`Fleet::hosts`].
    pub(crate) fn place(&self, host: &Name) -> Option<usize> {
        self.hosts.binary_search_by(|one| one.host.cmp(host)).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::{host, name, vm};

    #[test]
    fn a_host_that_is_there_twice_is_refused() {
        let load = || HostLoad::try_from(host("a", 10, &[])).unwrap();
        let error = Fleet::new(vec![load(), load()], Vec::new(), Vec::new()).unwrap_err();
        assert_eq!(error, FleetError::HostTwice(name("a")));
    }

    #[test]
    fn a_vm_that_two_hosts_name_is_known() {
        let load = |of| HostLoad::try_from(host(of, 10, &[vm("v", 1)])).unwrap();
        let fleet = Fleet::new(vec![load("b"), load("a")], Vec::new(), Vec::new()).unwrap();
        assert_eq!(fleet.hosts()[0].host(), &name("a"));
        assert!(fleet.named_twice.contains(&name("v")));
    }
}
