//! What a configuration says otherwise than the running one, and which of it can change without a restart.
//!
//! Pure: two configurations in, steps out. Sections that may be repeated are told apart by their names, so that a disk that
//! moves to another file is no difference.

use configuration::{CacheConfig, Config, DiskConfig, Name};
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// A difference, as what is to be done about it. In the order in which the steps are taken: what others may name comes
/// before them, and goes after them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Step {
    /// Log as the new configuration says.
    Log,
    /// Give a cache its new policy.
    Policy(Name),
    /// Attach a disk that is new.
    Attach(Name),
    /// Give a VM its new settings.
    Vm(Name),
    /// Give a disk its new write policy, how its writes reach the origin, and its limits.
    Disk(Name),
    /// Detach a disk that is no more.
    Detach(Name),
    /// Nothing: this key takes a restart.
    Restart(String),
}

impl Step {
    /// The key or section that it is about.
    pub(super) fn key(&self) -> String {
        match self {
            Self::Log => "daemon.log".to_owned(),
            Self::Policy(cache) => format!("cache[{cache}].policy"),
            Self::Vm(vm) => format!("vm[{vm}]"),
            Self::Attach(disk) | Self::Detach(disk) => format!("disk[{disk}]"),
            Self::Disk(disk) => format!("disk[{disk}].write_policy, write_back and limits"),
            Self::Restart(key) => key.clone(),
        }
    }
}

/// What has to be done so that the running configuration becomes the wanted one.
pub(super) fn plan(running: &Config, wanted: &Config) -> Vec<Step> {
    let mut steps = Vec::new();
    for key in single_keys(running, wanted) {
        steps.push(match key.as_str() {
            "daemon.log" => Step::Log,
            _ => Step::Restart(key),
        });
    }
    if running.peers != wanted.peers {
        steps.push(Step::Restart("peer".to_owned()));
    }
    caches(&running.caches, &wanted.caches, &mut steps);
    for (name, (was, is)) in pairs(&running.vms, &wanted.vms, |vm| &vm.name) {
        if was != is {
            steps.push(Step::Vm(name));
        }
    }
    for (name, both) in pairs(&running.disks, &wanted.disks, |disk| &disk.name) {
        disk(name, both, &mut steps);
    }
    steps.sort();
    steps
}

/// The keys of sections of which there is one that differ.
fn single_keys(running: &Config, wanted: &Config) -> Vec<String> {
    let alone = |config: &Config| Config {
        peers: Vec::new(),
        caches: Vec::new(),
        vms: Vec::new(),
        disks: Vec::new(),
        ..config.clone()
    };
    differing("", &alone(running), &alone(wanted))
}

fn caches(running: &[CacheConfig], wanted: &[CacheConfig], steps: &mut Vec<Step>) {
    for (name, both) in pairs(running, wanted, |cache| &cache.name) {
        let (Some(was), Some(is)) = both else {
            steps.push(Step::Restart(format!("cache[{name}]")));
            continue;
        };
        if was.policy != is.policy {
            steps.push(Step::Policy(name.clone()));
        }
        let was = CacheConfig {
            policy: is.policy.clone(),
            ..was.clone()
        };
        let keys = differing(&format!("cache[{name}]"), &was, is);
        steps.extend(keys.into_iter().map(Step::Restart));
    }
}

fn disk(name: Name, both: (Option<&DiskConfig>, Option<&DiskConfig>), steps: &mut Vec<Step>) {
    // A disk that its peers know comes and goes with the link, which begins with the daemon.
    let is_fixed = |disk: &DiskConfig| disk.roams;
    match both {
        (None, None) => {}
        (Some(one), None) | (None, Some(one)) if is_fixed(one) => {
            steps.push(Step::Restart(format!("disk[{name}]")));
        }
        (None, Some(_)) => steps.push(Step::Attach(name)),
        (Some(_), None) => steps.push(Step::Detach(name)),
        (Some(was), Some(is)) => {
            let settings = |disk: &DiskConfig| {
                (
                    disk.write_policy,
                    disk.write_back.clone(),
                    disk.limits.clone(),
                )
            };
            if settings(was) != settings(is) {
                steps.push(Step::Disk(name.clone()));
            }
            let was = DiskConfig {
                write_policy: is.write_policy,
                write_back: is.write_back.clone(),
                limits: is.limits.clone(),
                ..was.clone()
            };
            let keys = differing(&format!("disk[{name}]"), &was, is);
            steps.extend(keys.into_iter().map(Step::Restart));
        }
    }
}

/// Those of two lists that have the same name, beside each other.
fn pairs<'a, T>(
    running: &'a [T],
    wanted: &'a [T],
    name: fn(&T) -> &Name,
) -> BTreeMap<Name, (Option<&'a T>, Option<&'a T>)> {
    let mut pairs: BTreeMap<Name, (Option<&T>, Option<&T>)> = BTreeMap::new();
    for one in running {
        pairs.entry(name(one).clone()).or_default().0 = Some(one);
    }
    for one in wanted {
        pairs.entry(name(one).clone()).or_default().1 = Some(one);
    }
    pairs
}

/// The keys below `path` whose values differ.
fn differing<T: Serialize>(path: &str, running: &T, wanted: &T) -> Vec<String> {
    let mut keys = Vec::new();
    let [was, is] = [running, wanted].map(|one| serde_json::to_value(one).unwrap_or_default());
    collect(path, &was, &is, &mut keys);
    keys
}

fn collect(path: &str, was: &Value, is: &Value, keys: &mut Vec<String>) {
    if was == is {
        return;
    }
    if let (Value::Object(was), Value::Object(is)) = (was, is) {
        for name in names(was, is) {
            let inner = match path {
                "" => name.clone(),
                path => format!("{path}.{name}"),
            };
            let [was, is] = [was, is].map(|table| table.get(name).unwrap_or(&Value::Null));
            collect(&inner, was, is, keys);
        }
    } else {
        keys.push(path.to_owned());
    }
}

fn names<'v>(one: &'v Map<String, Value>, other: &'v Map<String, Value>) -> Vec<&'v String> {
    let more = other.keys().filter(|name| !one.contains_key(*name));
    one.keys().chain(more).collect()
}

/// The running configuration once a step is taken.
pub(super) fn taken(step: &Step, running: &mut Config, wanted: &Config) {
    match step {
        Step::Log => running.daemon.log.clone_from(&wanted.daemon.log),
        Step::Policy(name) => {
            let is = wanted.caches.iter().find(|cache| cache.name == *name);
            let was = running.caches.iter_mut().find(|cache| cache.name == *name);
            if let (Some(was), Some(is)) = (was, is) {
                was.policy.clone_from(&is.policy);
            }
        }
        Step::Vm(name) => {
            running.vms.retain(|vm| vm.name != *name);
            let is = wanted.vms.iter().filter(|vm| vm.name == *name);
            running.vms.extend(is.cloned());
        }
        Step::Attach(name) | Step::Detach(name) => {
            running.disks.retain(|disk| disk.name != *name);
            let is = wanted.disks.iter().filter(|disk| disk.name == *name);
            running.disks.extend(is.cloned());
        }
        Step::Disk(name) => {
            let is = wanted.disks.iter().find(|disk| disk.name == *name);
            let was = running.disks.iter_mut().find(|disk| disk.name == *name);
            if let (Some(was), Some(is)) = (was, is) {
                was.write_policy = is.write_policy;
                was.write_back.clone_from(&is.write_back);
                was.limits.clone_from(&is.limits);
            }
        }
        Step::Restart(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use configuration::parse;

    const CACHE: &str = "[[cache]]\nname = 'c'\npath = '/c'\n";

    fn disk(name: &str, keys: &str) -> String {
        format!("[[disk]]\nname = '{name}'\norigin.file = '/{name}'\n{keys}\n")
    }

    fn planned(running: &str, wanted: &str) -> Vec<Step> {
        let [running, wanted] =
            [running, wanted].map(|text| parse(&format!("{text}{CACHE}")).unwrap());
        let steps = plan(&running, &wanted);
        let mut then = running;
        for step in &steps {
            taken(step, &mut then, &wanted);
        }
        let left = plan(&then, &wanted);
        assert!(
            left.iter().all(|step| matches!(step, Step::Restart(_))),
            "{left:?}"
        );
        steps
    }

    fn name(text: &str) -> Name {
        text.parse().unwrap()
    }

    #[test]
    fn the_same_in_another_order_is_no_difference() {
        let (a, b) = (disk("a", ""), disk("b", ""));
        assert_eq!(planned(&format!("{a}{b}"), &format!("{b}{a}")), []);
    }

    #[test]
    fn what_can_change_is_told_from_what_needs_a_restart() {
        let running = "[daemon]\nlog = 'info'\n[web]\naddress = 'off'\n";
        let wanted = "[daemon]\nlog = 'debug'\nstop_timeout = '1s'\n[web]\naddress = '[::1]:80'\n";
        let restart = |key: &str| Step::Restart(key.to_owned());
        assert_eq!(
            planned(running, wanted),
            [
                Step::Log,
                restart("daemon.stop_timeout"),
                restart("web.address")
            ]
        );
    }

    #[test]
    fn disks_come_before_vms_that_name_them_and_go_after() {
        let running = format!("{}{}", disk("old", ""), disk("same", ""));
        let vm = "[[vm]]\nname = 'v'\nimages = ['new']\n";
        let new = disk("new", "shared = true");
        let same = disk("same", "write_policy = 'around'\nread_only = true");
        assert_eq!(
            planned(&running, &format!("{vm}{new}{same}")),
            [
                Step::Attach(name("new")),
                Step::Vm(name("v")),
                Step::Disk(name("same")),
                Step::Detach(name("old")),
                Step::Restart("disk[same].read_only".to_owned()),
            ]
        );
    }

    #[test]
    fn a_policy_changes_and_a_path_needs_a_restart() {
        let running = parse(CACHE).unwrap();
        let text = format!(
            "{}write_delay = '2s'\npolicy.reuses = 2\n",
            CACHE.replace("/c", "/d")
        );
        let wanted = parse(&text).unwrap();
        let keys: Vec<String> = plan(&running, &wanted).iter().map(Step::key).collect();
        assert_eq!(
            keys,
            ["cache[c].policy", "cache[c].path", "cache[c].write_delay"]
        );
    }
}
