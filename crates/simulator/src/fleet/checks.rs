//! What holds after each window, and when a move begins or is granted.

use super::hosts::Hosts;
use super::moves::Moves;
use super::settings::WINDOW_S;
use placement::Rules;
use placement::moving::Timeouts;
use serde::Serialize;
use units::Duration;

/// Something that does not hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// In which window.
    pub window: usize,
    /// What.
    pub what: String,
}

/// The longest that a move can take when nobody answers: each stage its time, and a window for drivers to be replaced.
fn longest_s() -> u64 {
    let Timeouts {
        warm,
        migrate,
        drain,
        withdraw,
    } = Timeouts::default();
    let seconds = |time: Duration| time.as_nanos() / 1_000_000_000;
    seconds(warm) + seconds(migrate) + seconds(drain) + seconds(withdraw) + WINDOW_S
}

/// What does not hold at the end of a window.
pub(super) fn after_window(
    hosts: &Hosts,
    moves: &Moves,
    rules: Option<&Rules>,
    now_s: u64,
) -> Vec<String> {
    let mut wrong = places(hosts);
    if let Some(rules) = rules {
        wrong.extend(limits(moves, rules));
    }
    for going in moves.going() {
        if now_s - going.began_s() > longest_s() {
            wrong.push(format!("nobody has ended the move of {}", going.vm_name()));
        }
        if going.starts() > 1 {
            wrong.push(format!("{} was migrated twice", going.vm_name()));
        }
    }
    wrong
}

/// Every VM runs at one host.
fn places(hosts: &Hosts) -> Vec<String> {
    let mut seen = vec![0_usize; hosts.vms()];
    for host in 0..hosts.count() {
        for vm in hosts.running(host) {
            seen[*vm] += 1;
        }
    }
    let wrong = seen.iter().enumerate().filter(|(_, hosts)| **hosts != 1);
    wrong
        .map(|(vm, hosts)| format!("VM {vm} runs at {hosts} hosts"))
        .collect()
}

/// No more moves than the rules allow: checked as moves begin, too.
pub(super) fn limits(moves: &Moves, rules: &Rules) -> Vec<String> {
    let going = moves.going();
    let mut wrong = Vec::new();
    if going.len() > rules.cluster {
        wrong.push(format!("{} moves are under way", going.len()));
    }
    for one in going {
        let (from, to) = one.way();
        let leaving = going.iter().filter(|other| other.way().0 == from).count();
        if leaving > rules.outbound {
            wrong.push(format!("{leaving} VMs leave host {from}"));
        }
        let coming = going.iter().filter(|other| other.way().1 == to).count();
        if coming > rules.arrivals {
            wrong.push(format!("{coming} VMs come to host {to}"));
        }
    }
    wrong
}

/// A VM that moves has rested.
pub(super) fn rest(hosts: &Hosts, vm: usize, began_s: u64, rules: &Rules) -> Option<String> {
    let rest_s = rules.rest().as_nanos() / 1_000_000_000;
    let rested = hosts
        .moved(vm)
        .is_none_or(|moved| began_s >= moved + rest_s);
    (!rested).then(|| format!("VM {vm} moves within its rest"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::{Rule, Settings};

    #[test]
    fn a_vm_that_is_lost_or_runs_twice_is_found() {
        let settings = Settings {
            hosts: 3,
            vms: 2,
            windows: 1,
            ..Settings::new(Rule::None, 1)
        };
        let mut hosts = Hosts::new(&settings);
        assert!(places(&hosts).is_empty());
        hosts.arrives(0, 2, 0);
        assert_eq!(places(&hosts), ["VM 0 runs at 2 hosts"]);
        hosts.leaves(0, 2);
        hosts.leaves(0, 0);
        assert_eq!(places(&hosts), ["VM 0 runs at 0 hosts"]);
    }

    #[test]
    fn a_vm_that_moves_within_its_rest_is_found() {
        let settings = Settings {
            hosts: 2,
            vms: 1,
            windows: 1,
            ..Settings::new(Rule::None, 1)
        };
        let mut hosts = Hosts::new(&settings);
        hosts.leaves(0, 0);
        hosts.arrives(0, 1, 1_000);
        let rules = Rules::hearth();
        assert!(rest(&hosts, 0, 1_000 + 23 * 3600, &rules).is_some());
        assert!(rest(&hosts, 0, 1_000 + 24 * 3600, &rules).is_none());
    }
}
