//! Filters of system calls, as systemd makes them of `SystemCallFilter=` and the `Restrict...=`
//! settings. `systemd-analyze` says what its groups hold, the compiler what number a call has.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use anyhow::{Context, bail, ensure};
use rustix::io::Errno;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

use super::confinement::{CallList, Confinement, Switch};
use crate::tools;

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Flags of `clone`, `unshare` and `setns` that make or enter a namespace.
const NAMESPACE_FLAGS: [u64; 8] = [
    0x80,
    0x0002_0000,
    0x0200_0000,
    0x0400_0000,
    0x0800_0000,
    0x1000_0000,
    0x2000_0000,
    0x4000_0000,
];
const PROT_WRITE: u64 = 2;
const PROT_EXEC: u64 = 4;
const SHM_EXEC: u64 = 0o100_000;
/// Set-user-ID and set-group-ID.
const SUID_SGID: [u64; 2] = [0o4000, 0o2000];
const O_CREAT: u64 = 0o100;
/// The scheduling policies `FIFO`, `RR` and `DEADLINE`.
const REALTIME: [u64; 3] = [1, 2, 6];
/// Asks which personality there is instead of setting one.
const PERSONALITY_QUERY: u64 = 0xffff_ffff;

/// All filters that a unit asks for, ready to be applied one after the other.
///
/// # Errors
///
/// When a name is not known, or a tool is missing.
pub(super) fn filters(asked: &Confinement) -> anyhow::Result<Vec<BpfProgram>> {
    let calls = Calls::of_this_machine()?;
    let mut programs = vec![denied(restrictions(asked, &calls)?, Errno::PERM)?];
    if asked.has(Switch::RestrictNamespaces) {
        // Its flags lie in memory, where no filter can look: callers fall back to `clone`.
        let rules = Rules::from([(calls.number("clone3")?, Vec::new())]);
        programs.push(denied(rules, Errno::NOSYS)?);
    }
    if !asked.families.is_empty() {
        // With `none` there is no condition: every socket is denied.
        let named = asked.families.iter().filter(|name| *name != "none");
        let families = named.map(|name| family(name));
        let others = families
            .map(|number| condition(0, SeccompCmpOp::Ne, number?))
            .collect::<anyhow::Result<Vec<_>>>()?;
        let mut rules = Vec::new();
        if !others.is_empty() {
            rules.push(SeccompRule::new(others)?);
        }
        let rules = Rules::from([(calls.number("socket")?, rules)]);
        programs.push(denied(rules, Errno::AFNOSUPPORT)?);
    }
    if !asked.calls.is_empty() {
        programs.push(allowed(asked, &calls)?);
    }
    Ok(programs)
}

fn restrictions(asked: &Confinement, calls: &Calls) -> anyhow::Result<Rules> {
    let mut rules = Rules::new();
    let mut add = |call: &str, conditions: Vec<SeccompCondition>| -> anyhow::Result<()> {
        // Some machines lack the older ones of two calls.
        if let Ok(number) = calls.number(call) {
            rules
                .entry(number)
                .or_default()
                .push(SeccompRule::new(conditions)?);
        }
        Ok(())
    };
    if asked.has(Switch::MemoryDenyWriteExecute) {
        let both = PROT_WRITE | PROT_EXEC;
        add("mmap", vec![has_all(2, both)?])?;
        add("mprotect", vec![has_all(2, PROT_EXEC)?])?;
        add("pkey_mprotect", vec![has_all(2, PROT_EXEC)?])?;
        add("shmat", vec![has_all(2, SHM_EXEC)?])?;
    }
    if asked.has(Switch::LockPersonality) {
        let set = vec![
            condition(0, SeccompCmpOp::Ne, 0)?,
            condition(0, SeccompCmpOp::Ne, PERSONALITY_QUERY)?,
        ];
        add("personality", set)?;
    }
    if asked.has(Switch::RestrictNamespaces) {
        for flag in NAMESPACE_FLAGS {
            add("clone", vec![has_all(0, flag)?])?;
            add("unshare", vec![has_all(0, flag)?])?;
        }
        add("setns", vec![condition(0, SeccompCmpOp::Ge, 0)?])?;
    }
    if asked.has(Switch::RestrictRealtime) {
        for policy in REALTIME {
            add(
                "sched_setscheduler",
                vec![condition(1, SeccompCmpOp::Eq, policy)?],
            )?;
        }
    }
    if asked.has(Switch::RestrictSuidSgid) {
        for bit in SUID_SGID {
            for (call, argument) in [
                ("chmod", 1),
                ("fchmod", 1),
                ("fchmodat", 2),
                ("mkdir", 1),
                ("mkdirat", 2),
                ("mknod", 1),
                ("mknodat", 2),
                ("creat", 1),
            ] {
                add(call, vec![has_all(argument, bit)?])?;
            }
            add("open", vec![has_all(1, O_CREAT)?, has_all(2, bit)?])?;
            add("openat", vec![has_all(2, O_CREAT)?, has_all(3, bit)?])?;
        }
    }
    Ok(rules)
}

fn condition(argument: u8, operator: SeccompCmpOp, value: u64) -> anyhow::Result<SeccompCondition> {
    let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value);
    condition.context("a condition of a filter")
}

fn has_all(argument: u8, bits: u64) -> anyhow::Result<SeccompCondition> {
    condition(argument, SeccompCmpOp::MaskedEq(bits), bits)
}

fn denied(rules: Rules, errno: Errno) -> anyhow::Result<BpfProgram> {
    let error = SeccompAction::Errno(errno.raw_os_error().unsigned_abs());
    program(rules, SeccompAction::Allow, error)
}

fn allowed(asked: &Confinement, calls: &Calls) -> anyhow::Result<BpfProgram> {
    ensure!(
        asked.errno.as_deref() == Some("EPERM"),
        "SystemCallErrorNumber is not EPERM: teach the sandbox {:?}",
        asked.errno
    );
    let groups = Groups::of_systemd()?;
    let mut numbers = BTreeSet::new();
    for list in &asked.calls {
        let CallList {
            is_taken_away,
            names,
        } = list;
        for name in names {
            for call in groups.calls(name)? {
                // A group names the calls of all machines.
                let Ok(number) = calls.number(&call) else {
                    continue;
                };
                if *is_taken_away {
                    numbers.remove(&number);
                } else {
                    numbers.insert(number);
                }
            }
        }
    }
    let rules = numbers.into_iter().map(|number| (number, Vec::new()));
    let error = SeccompAction::Errno(Errno::PERM.raw_os_error().unsigned_abs());
    program(rules.collect(), error, SeccompAction::Allow)
}

fn program(
    rules: Rules,
    others: SeccompAction,
    these: SeccompAction,
) -> anyhow::Result<BpfProgram> {
    let machine = TargetArch::try_from(std::env::consts::ARCH).context("this machine")?;
    let filter = SeccompFilter::new(rules, others, these, machine).context("a filter")?;
    filter.try_into().context("a filter's program")
}

fn family(name: &str) -> anyhow::Result<u64> {
    use rustix::net::AddressFamily;
    let family = match name {
        "AF_UNIX" => AddressFamily::UNIX,
        "AF_INET" => AddressFamily::INET,
        "AF_INET6" => AddressFamily::INET6,
        "AF_NETLINK" => AddressFamily::NETLINK,
        _ => bail!("the sandbox does not know the address family {name}"),
    };
    Ok(u64::from(family.as_raw()))
}

/// Numbers of system calls by name, from the kernel's header.
struct Calls(BTreeMap<String, String>);

impl Calls {
    fn of_this_machine() -> anyhow::Result<Self> {
        let header = "/dev/null";
        let words = ["-E", "-dM", "-include", "asm/unistd.h", "-x", "c", header];
        let output = tools::run(Command::new("cc").args(words))?;
        let defined = output.stdout.lines().filter_map(|line| {
            let (name, value) = line.strip_prefix("#define ")?.split_once(' ')?;
            Some((name.to_owned(), value.to_owned()))
        });
        Ok(Self(defined.collect()))
    }

    fn number(&self, call: &str) -> anyhow::Result<i64> {
        let mut value = self.0.get(&format!("__NR_{call}"));
        // Some are called after another one, which has the number.
        while let Some(text) = value {
            if let Ok(number) = text.parse() {
                return Ok(number);
            }
            value = self.0.get(text);
        }
        bail!("there is no system call {call} here")
    }
}

/// systemd's groups of system calls.
struct Groups(BTreeMap<String, Vec<String>>);

impl Groups {
    fn of_systemd() -> anyhow::Result<Self> {
        let output = tools::run(Command::new("systemd-analyze").arg("syscall-filter"))?;
        let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut current = String::new();
        let lines = output
            .stdout
            .lines()
            .filter(|line| !line.trim().starts_with('#'));
        for line in lines.filter(|line| !line.is_empty()) {
            if line.starts_with('@') {
                line.trim().clone_into(&mut current);
            } else {
                let group = groups.entry(current.clone()).or_default();
                group.push(line.trim().to_owned());
            }
        }
        Ok(Self(groups))
    }

    /// The calls that a name stands for: a group's, or itself.
    fn calls(&self, name: &str) -> anyhow::Result<BTreeSet<String>> {
        if !name.starts_with('@') {
            return Ok(BTreeSet::from([name.to_owned()]));
        }
        let members = self.0.get(name);
        let members = members.with_context(|| format!("systemd has no group {name}"))?;
        let mut calls = BTreeSet::new();
        for member in members {
            calls.extend(self.calls(member)?);
        }
        Ok(calls)
    }
}
