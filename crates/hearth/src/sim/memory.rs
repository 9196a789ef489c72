//! How much memory a simulation may take, and how much it has taken.
//!
//! What is free is the least of what the machine has (`MemAvailable`) and what the program's control groups have left,
//! of the second version or of the first. Nothing of it is free on a system that does not say: then there is no
//! bound unless the user gives one.

use crate::terminal::quantity;
use simulator::{Limits, Plan};
use std::fs;
use std::path::Path;
use units::Bytes;

/// What a simulation may take of what is free, in quarters: an estimate can be wrong, and others need some too.
const QUARTERS: u64 = 3;

/// Buffers of a trace's reader, unpacking included.
const READER: Bytes = Bytes::mib(8);

/// The bound that was asked for, or that of this machine.
fn bound(asked: Option<Bytes>) -> Option<Bytes> {
    asked.or_else(|| {
        let free = free()?.get();
        let taken = taken().map_or(0, Bytes::get);
        Some(Bytes::new((free / 4).saturating_mul(QUARTERS) + taken))
    })
}

/// What this program has of memory now.
fn taken() -> Option<Bytes> {
    kib(&fs::read_to_string("/proc/self/status").ok()?, "VmRSS:")
}

/// The most that this program has had of memory.
fn peak() -> Option<Bytes> {
    kib(&fs::read_to_string("/proc/self/status").ok()?, "VmHWM:")
}

/// What a command was allowed, expected and found to take.
#[derive(Debug)]
pub(super) struct Memory {
    allowed: Option<Bytes>,
    expected: Option<Bytes>,
    runs: usize,
    readings: usize,
}

impl Memory {
    /// Nothing is planned yet.
    pub(super) fn new(asked: Option<Bytes>) -> Self {
        Self {
            allowed: bound(asked),
            expected: None,
            runs: 0,
            readings: 0,
        }
    }

    /// What the next study may take, of traces that lie in so many files.
    pub(super) fn limits(&self, files: usize, rereads: bool, plans: bool) -> Limits {
        let program = taken().map_or(0, Bytes::get);
        Limits {
            memory: self.allowed,
            program: Bytes::new(program + READER.get() * files as u64),
            rereads,
            plans,
        }
    }

    /// A study will go so.
    pub(super) fn planned(&mut self, plan: &Plan) {
        self.expected = self.expected.max(plan.peak());
        self.readings += plan.passes().len();
        self.runs += plan.passes().iter().map(Vec::len).sum::<usize>();
    }

    /// The same in words, if anything was expected.
    pub(super) fn in_words(&self) -> Option<String> {
        let expected = in_units(self.expected?);
        let taken = peak().map_or(String::new(), |peak| {
            format!(", {} taken at most", in_units(peak))
        });
        let allowed = self.allowed.map_or(String::new(), |allowed| {
            format!(", {} allowed", in_units(allowed))
        });
        Some(format!(
            "memory: about {expected} expected{taken}{allowed}; runs: {}, readings: {}",
            self.runs, self.readings
        ))
    }

    /// For a manifest.
    pub(super) fn to_json(&self) -> serde_json::Value {
        let bytes = |of: Option<Bytes>| of.map(Bytes::get);
        serde_json::json!({
            "allowed_bytes": bytes(self.allowed),
            "expected_bytes": bytes(self.expected),
            "peak_bytes": bytes(peak()),
            "runs": self.runs,
            "readings": self.readings,
        })
    }
}

fn in_units(bytes: Bytes) -> String {
    quantity::bytes(bytes.get())
}

fn free() -> Option<Bytes> {
    let machine = kib(&fs::read_to_string("/proc/meminfo").ok()?, "MemAvailable:");
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let read = |path: &str| fs::read_to_string(Path::new("/sys/fs/cgroup").join(path)).ok();
    let group = left_in(&groups, &read);
    machine.into_iter().chain(group).min()
}

/// A line of `/proc/meminfo` or `/proc/self/status`.
fn kib(text: &str, name: &str) -> Option<Bytes> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(Bytes::new(kib.checked_mul(1024)?))
}

/// What the control groups of `/proc/self/cgroup` leave: the least of a group and all above it. `read` gives a
/// file below `/sys/fs/cgroup`.
fn left_in(groups: &str, read: &dyn Fn(&str) -> Option<String>) -> Option<Bytes> {
    let mut least: Option<Bytes> = None;
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else {
            continue;
        };
        let (root, limit, usage) = match controllers {
            "" => ("", "memory.max", "memory.current"),
            names if names.split(',').any(|name| name == "memory") => {
                ("memory/", "memory.limit_in_bytes", "memory.usage_in_bytes")
            }
            _ => continue,
        };
        let mut group = path.trim_matches('/');
        loop {
            let number = |file: &str| -> Option<u64> {
                let separator = if group.is_empty() { "" } else { "/" };
                let text = read(&format!("{root}{group}{separator}{file}"))?;
                text.trim().parse().ok()
            };
            // "max" is no number, and no limit.
            if let (Some(limit), Some(usage)) = (number(limit), number(usage)) {
                let left = Bytes::new(limit.saturating_sub(usage));
                least = Some(least.map_or(left, |least| least.min(left)));
            }
            if group.is_empty() {
                break;
            }
            group = group.rsplit_once('/').map_or("", |(above, _)| above);
        }
    }
    least
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(groups: &str, files: &[(&str, &str)]) -> Option<u64> {
        let read = |path: &str| {
            let file = files.iter().find(|(name, _)| *name == path);
            file.map(|(_, text)| (*text).to_owned())
        };
        left_in(groups, &read).map(Bytes::get)
    }

    #[test]
    fn a_group_has_what_it_and_all_above_it_leave() {
        let files = [
            ("a/b/memory.max", "max\n"),
            ("a/b/memory.current", "10\n"),
            ("a/memory.max", "100\n"),
            ("a/memory.current", "30\n"),
        ];
        assert_eq!(left("0::/a/b\n", &files), Some(70));
        assert_eq!(left("0::/c\n", &files), None);
    }

    #[test]
    fn groups_of_the_first_version_are_asked_too() {
        let files = [
            ("memory/x/memory.limit_in_bytes", "500\n"),
            ("memory/x/memory.usage_in_bytes", "600\n"),
        ];
        assert_eq!(left("4:memory:/x\n3:cpuset:/\n0::/\n", &files), Some(0));
        assert_eq!(left("3:cpuset:/x\n", &files), None);
    }

    #[test]
    fn a_size_in_kib_is_read_from_its_line() {
        let text = "VmPeak:  9 kB\nVmHWM:\t   2048 kB\n";
        assert_eq!(kib(text, "VmHWM:"), Some(Bytes::mib(2)));
        assert_eq!(kib(text, "VmRSS:"), None);
    }
}
