//! What the host and its VMs use, as `hearth monitor` reads it: the daemon's own unit sees no process but its own.
//!
//! ```text
//!   a client over a unix socket ─► its process is the VM's ─► Watched ─► hearth monitor reads /proc, asks QEMU, libvirt
//!                                                               ▲             │ Reading
//!            GET /v1/resources, metrics ◄── the last samples ◄──┴─────────────┘
//!   shards, where `hot` is `frequency` ◄── weights that have changed by more than a fifth
//! ```
//!
//! Invariants:
//! - A process is a VM's from its first connection until the monitor, asked about it, does not find it.
//! - At most [`PROCESSES_MAX`] processes are watched.
//! - What QEMU or libvirt says of a VM without a disk here is not kept.

use api::resources::{ResourceSample, Resources, VmCpu, VmUsage, Watched};
use configuration::Name;
use monitor::{History, Reading, Standing, Usage, VmReading, is_another_weight, weights};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use units::number::real;

/// Processes that are watched: what the monitor says of so many fits a request of the API.
const PROCESSES_MAX: usize = 512;

#[derive(Default)]
struct State {
    processes: BTreeMap<i32, Name>,
    /// Those that the monitor was asked about.
    asked: BTreeSet<i32>,
    last: Option<(Instant, Reading)>,
    samples: History<ResourceSample>,
    /// The weights that the shards were told, where they are not one.
    weights: BTreeMap<Name, f64>,
    cpu_seconds: BTreeMap<Name, f64>,
}

/// What is known of the host's resources.
#[derive(Default)]
pub(super) struct HostResources(Mutex<State>);

impl HostResources {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere leaves each map whole: every change is one map operation.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A process has connected to a disk of a VM.
    pub(super) fn came(&self, vm: Name, process: Option<i32>) {
        let mut state = self.lock();
        if let Some(pid) = process
            && (state.processes.len() < PROCESSES_MAX || state.processes.contains_key(&pid))
        {
            state.processes.insert(pid, vm);
        }
    }

    /// The monitor has read the host, and the processes that it was asked about, while these VMs have disks here. What it
    /// reads next, and the weights that the shards are to be told.
    pub(super) fn read(
        &self,
        reading: Reading,
        here: &BTreeSet<Name>,
    ) -> (Watched, Vec<(Name, f64)>) {
        let mut state = self.lock();
        let state = &mut *state;
        let there: BTreeSet<i32> = reading.processes.iter().map(|of| of.pid).collect();
        let asked = std::mem::take(&mut state.asked);
        state
            .processes
            .retain(|pid, _| there.contains(pid) || !asked.contains(pid));
        let before = state.last.as_ref().map(|(_, before)| before);
        let mut changed = Vec::new();
        if let Some(usage) = before.and_then(|before| Usage::between(before, &reading)) {
            state.take(&usage, &reading.vms, here);
            changed = state.changed_weights();
        }
        state.last = Some((Instant::now(), reading));
        state.asked = state.processes.keys().copied().collect();
        let watched = Watched {
            processes: state.asked.iter().copied().collect(),
        };
        (watched, changed)
    }

    /// What is known, with the last so many samples.
    pub(super) fn shown(&self, samples: usize) -> Resources {
        let state = self.lock();
        let vm_cpu = state.cpu_seconds.iter().map(|(vm, seconds)| VmCpu {
            vm: vm.to_string(),
            seconds: *seconds,
        });
        Resources {
            age_seconds: state
                .last
                .as_ref()
                .map(|(at, _)| at.elapsed().as_secs_f64()),
            host: state.last.as_ref().map(|(_, last)| last.host),
            samples: state.samples.last(samples).cloned().collect(),
            vm_cpu: vm_cpu.collect(),
        }
    }
}

impl State {
    fn take(&mut self, usage: &Usage, told: &[VmReading], here: &BTreeSet<Name>) {
        let mut vms: BTreeMap<&Name, (VmUsage, Standing)> = BTreeMap::new();
        for of in told {
            // A host has VMs that are none of ours, with names that are none here.
            if let Some(vm) = of.vm.parse::<Name>().ok().and_then(|vm| here.get(&vm)) {
                let (known, _) = vms.entry(vm).or_insert_with(|| nothing_used(vm));
                known.figures = of.figures;
            }
        }
        for process in &usage.processes {
            let Some(vm) = self.processes.get(&process.pid) else {
                continue;
            };
            let (of, standing) = vms.entry(vm).or_insert_with(|| nothing_used(vm));
            standing.cpus += process.cpu_seconds / usage.seconds;
            of.processes += 1;
            of.cpu_share += process.cpu_share;
            of.memory_share += process.memory_share;
            of.memory_bytes += process.memory_bytes;
            *self.cpu_seconds.entry(vm.clone()).or_insert(0.0) += process.cpu_seconds;
        }
        let sample = ResourceSample {
            uptime_seconds: usage.uptime_seconds,
            seconds: usage.seconds,
            host: usage.host,
            vms: weighed(vms.into_values().collect()),
        };
        self.samples.push(sample);
        let here: BTreeSet<&Name> = self.processes.values().collect();
        self.cpu_seconds.retain(|vm, _| here.contains(vm));
    }

    /// The weights of the last sample that are noticeably others than the shards were told. A VM that is not in it weighs one.
    fn changed_weights(&mut self) -> Vec<(Name, f64)> {
        let mut now: BTreeMap<Name, f64> =
            self.weights.keys().map(|vm| (vm.clone(), 1.0)).collect();
        let last = self.samples.last(1).flat_map(|sample| &sample.vms);
        now.extend(last.filter_map(|of| Some((of.vm.parse().ok()?, of.weight))));
        now.retain(|vm, weight| {
            is_another_weight(self.weights.get(vm).copied().unwrap_or(1.0), *weight)
        });
        self.weights.extend(now.clone());
        self.weights
            .retain(|_, weight| is_another_weight(1.0, *weight));
        now.into_iter().collect()
    }
}

/// A VM of which nothing is known yet.
fn nothing_used(vm: &Name) -> (VmUsage, Standing) {
    let used = VmUsage {
        vm: vm.to_string(),
        ..VmUsage::default()
    };
    (used, Standing::default())
}

/// VMs with their weights: by what each was given where QEMU or libvirt says so, else by what its processes use.
fn weighed(vms: Vec<(VmUsage, Standing)>) -> Vec<VmUsage> {
    let standing = |(vm, used): &(VmUsage, Standing)| Standing {
        cpus: vm.figures.vcpus.map_or(used.cpus, real),
        memory: real(vm.figures.given_memory_bytes.unwrap_or(vm.memory_bytes)),
    };
    let standings: Vec<Standing> = vms.iter().map(standing).collect();
    let weights = weights(&standings).into_iter();
    let weighed = vms.into_iter().zip(weights);
    weighed
        .map(|((vm, _), weight)| VmUsage { weight, ..vm })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor::{HostReading, ProcessReading, VmFigures};

    fn reading(at: f64, processes: &[(i32, f64)]) -> Reading {
        let process = |(pid, cpu_seconds): &(i32, f64)| ProcessReading {
            pid: *pid,
            started_ticks: 1,
            cpu_seconds: *cpu_seconds,
            resident_bytes: 1 << 20,
        };
        Reading {
            uptime_seconds: at,
            host: HostReading {
                cpu_busy_seconds: at,
                cpu_seconds: 2.0 * at,
                memory_bytes: 4 << 20,
                memory_available_bytes: 2 << 20,
                ..HostReading::default()
            },
            processes: processes.iter().map(process).collect(),
            vms: Vec::new(),
        }
    }

    fn read(resources: &HostResources, reading: Reading) -> Watched {
        resources.read(reading, &["web", "db"].map(vm).into()).0
    }

    fn vm(name: &str) -> Name {
        name.parse().unwrap()
    }

    #[test]
    fn what_the_processes_of_a_vm_use_is_added_up() {
        let resources = HostResources::default();
        assert_eq!(resources.shown(9).age_seconds, None);
        resources.came(vm("web"), Some(7));
        resources.came(vm("web"), Some(8));
        resources.came(vm("db"), Some(9));
        resources.came(vm("far"), None);
        assert_eq!(read(&resources, reading(10.0, &[])).processes, [7, 8, 9]);
        read(&resources, reading(20.0, &[(7, 1.0), (8, 2.0), (9, 3.0)]));
        read(&resources, reading(30.0, &[(7, 3.0), (8, 5.0), (9, 3.0)]));
        let shown = resources.shown(1);
        let [sample] = &shown.samples[..] else {
            panic!("{shown:?}")
        };
        let [db, web] = &sample.vms[..] else {
            panic!("{sample:?}")
        };
        assert_eq!((db.vm.as_str(), web.vm.as_str()), ("db", "web"));
        assert_eq!((web.processes, web.memory_bytes), (2, 2 << 20));
        assert!((web.cpu_share - 0.25).abs() < 1e-9, "5 of 20 seconds");
        let cpu: Vec<_> = shown.vm_cpu.iter().map(|of| of.seconds).collect();
        assert!(
            (cpu[0] - 0.0).abs() < 1e-9 && (cpu[1] - 5.0).abs() < 1e-9,
            "{cpu:?}"
        );
        assert_eq!(resources.shown(usize::MAX).samples.len(), 2);
    }

    #[test]
    fn a_process_that_is_not_found_is_forgotten() {
        let resources = HostResources::default();
        resources.came(vm("web"), Some(7));
        read(&resources, reading(1.0, &[]));
        // It comes after the question.
        resources.came(vm("web"), Some(8));
        assert_eq!(read(&resources, reading(2.0, &[])).processes, [8]);
        assert_eq!(read(&resources, reading(3.0, &[(8, 0.0)])).processes, [8]);
        assert!(read(&resources, reading(4.0, &[])).processes.is_empty());
        assert!(resources.shown(1).vm_cpu.is_empty());
    }

    #[test]
    fn no_more_processes_are_watched_than_fit_a_request() {
        let resources = HostResources::default();
        for pid in 0..i32::try_from(2 * PROCESSES_MAX).unwrap() {
            resources.came(vm("web"), Some(pid));
        }
        let watched = read(&resources, reading(1.0, &[]));
        assert_eq!(watched.processes.len(), PROCESSES_MAX);
    }

    #[test]
    fn what_qemu_says_is_kept_of_vms_with_disks_here() {
        let resources = HostResources::default();
        let of = |vm: &str| VmReading {
            vm: vm.to_owned(),
            figures: VmFigures {
                vcpus: Some(4),
                ..VmFigures::default()
            },
        };
        let told = |at, vms: &[&str]| Reading {
            vms: vms.iter().map(|vm| of(vm)).collect(),
            ..reading(at, &[(7, at)])
        };
        resources.came(vm("web"), Some(7));
        read(&resources, told(10.0, &["db"]));
        read(&resources, told(20.0, &["web", "db", "far", "no name/"]));
        let known = resources.shown(1).samples.remove(0).vms;
        let known: Vec<_> = known
            .iter()
            .map(|of| (of.vm.as_str(), of.processes, of.figures.vcpus))
            .collect();
        assert_eq!(known, [("db", 0, Some(4)), ("web", 1, Some(4))]);
        read(&resources, told(30.0, &[]));
        let known = resources.shown(1).samples.remove(0).vms;
        assert_eq!((known.len(), known[0].figures), (1, VmFigures::default()));
    }

    #[test]
    fn weights_are_told_when_they_change_noticeably() {
        let resources = HostResources::default();
        let of = |vm: &str, vcpus, mib: u64| VmReading {
            vm: vm.to_owned(),
            figures: VmFigures {
                vcpus,
                given_memory_bytes: Some(mib << 20),
                ..VmFigures::default()
            },
        };
        let told = |at, vms: &[VmReading]| {
            let reading = Reading {
                vms: vms.to_vec(),
                ..reading(at, &[(7, at)])
            };
            let (_, changed) = resources.read(reading, &["web", "db"].map(vm).into());
            changed
                .into_iter()
                .map(|(vm, weight)| (vm.to_string(), weight))
                .collect::<Vec<_>>()
        };
        resources.came(vm("web"), Some(7));
        told(10.0, &[]);
        let equal = [of("web", Some(2), 512), of("db", Some(2), 512)];
        assert_eq!(told(20.0, &equal), []);
        let unequal = [of("web", Some(3), 512), of("db", Some(1), 512)];
        let halves = [("db".to_owned(), 0.5), ("web".to_owned(), 1.5)];
        assert_eq!(told(30.0, &unequal), halves);
        assert_eq!(told(40.0, &unequal), []);
        let alike = [of("web", Some(3), 520), of("db", Some(1), 504)];
        assert_eq!(told(50.0, &alike), []);
        // Its process used one processor, which is as much as the other has.
        let by_use = [of("web", None, 512), of("db", Some(1), 512)];
        let ones = [("db".to_owned(), 1.0), ("web".to_owned(), 1.0)];
        assert_eq!(told(60.0, &by_use), ones);
        assert_eq!(told(70.0, &unequal), halves);
        assert_eq!(told(80.0, &[]), ones, "one VM alone is in the sample");
    }
}
