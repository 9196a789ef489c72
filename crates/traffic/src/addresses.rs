//! Which VM an address belongs to.

use crate::limits::ADDRESSES_MAX;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::str::FromStr;

/// An address of a VM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Address {
    /// Of its network card.
    Mac([u8; 6]),
    /// Of its network; IPv4 in IPv6 is IPv4.
    Ip(IpAddr),
}

impl FromStr for Address {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        if let Ok(ip) = text.parse::<IpAddr>() {
            return Ok(Self::Ip(ip.to_canonical()));
        }
        let mut mac = [0; 6];
        let mut parts = text.split([':', '-']);
        for byte in &mut mac {
            let part = parts.next().filter(|part| part.len() == 2).ok_or(())?;
            *byte = u8::from_str_radix(part, 16).map_err(|_| ())?;
        }
        parts.next().is_none().then_some(Self::Mac(mac)).ok_or(())
    }
}

/// Why a table of addresses is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct AddressError {
    line: usize,
    problem: String,
}

/// VMs by address.
#[derive(Clone, Debug, Default)]
pub struct Addresses {
    vms: Vec<String>,
    of: BTreeMap<Address, usize>,
}

impl Addresses {
    /// Lines of a VM and one of its addresses: `web1,52:54:00:12:34:56` or `web1,10.0.0.5`. Empty lines and lines that
    /// begin with `#` are skipped, and a first line without an address: a heading.
    ///
    /// # Errors
    /// If a line is none, an address belongs to two VMs, or the addresses are too many.
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        let mut table = Self::default();
        let mut places: BTreeMap<&str, usize> = BTreeMap::new();
        for (at, content) in text.lines().enumerate() {
            let content = content.trim();
            if content.is_empty() || content.starts_with('#') {
                continue;
            }
            let refused = |problem: String| AddressError {
                line: at + 1,
                problem,
            };
            let fields = content
                .split_once(',')
                .map(|(vm, address)| (vm.trim(), address.trim()));
            let (vm, address) = match fields {
                Some((vm, address)) if !vm.is_empty() => (vm, address),
                _ => return Err(refused("write a VM, a comma and its address".to_owned())),
            };
            let Ok(address) = address.parse::<Address>() else {
                if table.of.is_empty() {
                    continue;
                }
                let example = "write one such as 52:54:00:12:34:56 or 10.0.0.5";
                return Err(refused(format!(
                    "'{}' is no address: {example}",
                    address.escape_debug()
                )));
            };
            if table.of.len() == ADDRESSES_MAX {
                return Err(refused(format!(
                    "there are more than {ADDRESSES_MAX} addresses"
                )));
            }
            let place = *places.entry(vm).or_insert_with(|| {
                table.vms.push(vm.to_owned());
                table.vms.len() - 1
            });
            let before = table.of.insert(address, place);
            if before.is_some_and(|before| before != place) {
                return Err(refused(
                    "the address belongs to another VM already".to_owned(),
                ));
            }
        }
        Ok(table)
    }

    /// The VM of an address, as its place in [`vms`](Self::vms).
    pub fn vm(&self, address: Address) -> Option<usize> {
        self.of.get(&address).copied()
    }

    /// The VM of this name, as its place in [`vms`](Self::vms).
    pub fn called(&self, name: &str) -> Option<usize> {
        self.vms.iter().position(|vm| vm == name)
    }

    /// All VMs.
    pub fn vms(&self) -> &[String] {
        &self.vms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vm_has_addresses_of_both_kinds() {
        let table =
            Addresses::parse("vm,address\nweb,52:54:00:00:00:0a\n# x\nweb, 10.0.0.5\ndb,fd00::1\n")
                .unwrap();
        assert_eq!(table.vms(), ["web", "db"]);
        let vm = |text: &str| table.vm(text.parse().unwrap());
        assert_eq!(vm("52-54-00-00-00-0A"), Some(0));
        assert_eq!(vm("::ffff:10.0.0.5"), Some(0));
        assert_eq!(vm("fd00::1"), Some(1));
        assert_eq!(vm("10.0.0.6"), None);
    }

    #[test]
    fn wrong_lines_are_refused_with_their_number() {
        for (text, said) in [
            ("web,10.0.0.1\nweb\n", "line 2: write a VM"),
            (
                "web,10.0.0.1\ndb,10.0.0\n",
                "line 2: '10.0.0' is no address",
            ),
            ("web,10.0.0.1\ndb,10.0.0.1\n", "line 2: the address belongs"),
            (",10.0.0.1\n", "line 1: write a VM"),
        ] {
            let error = Addresses::parse(text).unwrap_err().to_string();
            assert!(error.starts_with(said), "{error}");
        }
    }
}
