//! Who runs where, and what hosts publish.

use super::demand::{self, Demand};
use super::latency::{HIT_US, MISS_US};
use super::settings::{BANDWIDTH, CAPACITY, LIE, MEMORY, Settings};
use placement::shares::share;
use placement::{HostLoad, HostReport, Resources, VmReport};
use std::collections::BTreeSet;
use units::number::{count_near, real};
use units::{Bytes, Prng};

/// Windows before the present one that are published.
const BEFORE: usize = 3;

/// The hosts of a fleet with their VMs.
#[derive(Clone, Debug)]
pub(super) struct Hosts {
    demands: Vec<Demand>,
    vm_names: Vec<String>,
    host_names: Vec<String>,
    /// What runs at each host, as its hypervisor has it.
    running: Vec<BTreeSet<usize>>,
    /// When a VM last came from another host, in seconds.
    moved: Vec<Option<u64>>,
    /// Published demand of the windows before, the newest first.
    before: Vec<Vec<u64>>,
    /// Each VM's hit ratio in the window before.
    hits: Vec<Option<f64>>,
    is_liar: Vec<bool>,
    /// From when until when a host is lost, in seconds.
    lost: Vec<(u64, u64)>,
}

impl Hosts {
    pub(super) fn new(settings: &Settings) -> Self {
        let demands = demand::of_fleet(settings);
        let vms = demands.len();
        let mut lies = Prng::new(settings.seed ^ 0x11a5);
        let running = (0..settings.hosts).map(|host| {
            let first = host * settings.vms;
            (first..first + settings.vms).collect()
        });
        Self {
            demands,
            vm_names: (0..vms).map(|vm| format!("vm-{vm:05}")).collect(),
            host_names: (0..settings.hosts)
                .map(|host| format!("host-{host:04}"))
                .collect(),
            running: running.collect(),
            moved: vec![None; vms],
            before: vec![Vec::new(); settings.hosts],
            hits: vec![None; vms],
            is_liar: (0..settings.hosts)
                .map(|_| lies.one_in(settings.faults.liars))
                .collect(),
            lost: vec![(0, 0); settings.hosts],
        }
    }

    pub(super) const fn count(&self) -> usize {
        self.running.len()
    }

    pub(super) const fn vms(&self) -> usize {
        self.demands.len()
    }

    pub(super) fn name(&self, host: usize) -> &str {
        &self.host_names[host]
    }

    /// The host of this name.
    pub(super) fn host(&self, name: &str) -> Option<usize> {
        self.host_names
            .binary_search_by(|one| one.as_str().cmp(name))
            .ok()
    }

    /// The VM of this name.
    pub(super) fn vm(&self, name: &str) -> Option<usize> {
        self.vm_names
            .binary_search_by(|one| one.as_str().cmp(name))
            .ok()
    }

    pub(super) fn running(&self, host: usize) -> &BTreeSet<usize> {
        &self.running[host]
    }

    pub(super) fn moved(&self, vm: usize) -> Option<u64> {
        self.moved[vm]
    }

    pub(super) fn liars(&self) -> usize {
        self.is_liar.iter().filter(|lies| **lies).count()
    }

    pub(super) fn is_liar(&self, host: usize) -> bool {
        self.is_liar[host]
    }

    pub(super) fn lose(&mut self, host: usize, from_s: u64, until_s: u64) {
        self.lost[host] = (from_s, until_s);
    }

    pub(super) fn is_lost(&self, host: usize, now_s: u64) -> bool {
        let (from_s, until_s) = self.lost[host];
        (from_s..until_s).contains(&now_s)
    }

    /// Whether a host is lost now or was to be.
    pub(super) fn will_be_lost(&self, host: usize, now_s: u64) -> bool {
        now_s < self.lost[host].1
    }

    /// The source's hypervisor lets a VM go.
    pub(super) fn leaves(&mut self, vm: usize, from: usize) -> bool {
        self.running[from].remove(&vm)
    }

    /// The target's hypervisor runs a VM.
    pub(super) fn arrives(&mut self, vm: usize, to: usize, now_s: u64) {
        self.running[to].insert(vm);
        self.moved[vm] = Some(now_s);
    }

    /// What a VM really needs in a window.
    pub(super) fn rwss(&self, vm: usize, window: usize) -> Bytes {
        self.demands[vm].rwss(window)
    }

    /// What the VMs of a host really need.
    pub(super) fn demand(&self, host: usize, window: usize) -> Bytes {
        let vms = self.running[host].iter();
        vms.map(|vm| self.rwss(*vm, window)).sum()
    }

    /// The real load of a host.
    pub(super) fn load(&self, host: usize, window: usize) -> f64 {
        real(self.demand(host, window).get()) / real(CAPACITY.get())
    }

    /// Reads in a second and hit ratio of each VM of a host, by its curve at its share.
    pub(super) fn reads(&self, host: usize, window: usize) -> Vec<(usize, f64, f64)> {
        let demand = self.demand(host, window);
        let of_vm = |vm: &usize| {
            let one = &self.demands[*vm];
            let share = share(CAPACITY, one.rwss(window), demand);
            (*vm, one.reads_per_second(window), one.hits(window, share))
        };
        self.running[host].iter().map(of_vm).collect()
    }

    /// Remembers what a window was like, for what is published in the next one.
    pub(super) fn end_window(&mut self, window: usize) {
        for host in 0..self.count() {
            let published = self.published_demand(host, window);
            self.before[host].insert(0, published);
            self.before[host].truncate(BEFORE);
            for (vm, _, hits) in self.reads(host, window) {
                self.hits[vm] = Some(hits);
            }
        }
    }

    fn published_rwss(&self, host: usize, vm: usize, window: usize) -> u64 {
        let rwss = self.rwss(vm, window).get();
        if self.is_liar[host] {
            count_near(real(rwss) * LIE)
        } else {
            rwss
        }
    }

    fn published_demand(&self, host: usize, window: usize) -> u64 {
        let vms = self.running[host].iter();
        vms.map(|vm| self.published_rwss(host, *vm, window)).sum()
    }

    /// What the hosts publish that are heard of.
    pub(super) fn publish(&self, window: usize, now_s: u64) -> Vec<HostLoad> {
        let heard = (0..self.count()).filter(|host| !self.is_lost(*host, now_s));
        let load = |host| HostLoad::try_from(self.report(host, window));
        heard
            .map(|host| load(host).expect("what a simulated host publishes is in range"))
            .collect()
    }

    fn report(&self, host: usize, window: usize) -> HostReport {
        let vms = self.running[host].iter();
        HostReport {
            version: placement::limits::REPORT_VERSION,
            host: self.host_names[host].clone(),
            capacity_bytes: CAPACITY.get(),
            reserve: 0.1,
            demand_before_bytes: self.before[host].clone(),
            free: Resources {
                cpu_millis: 32_000,
                memory_bytes: MEMORY.get() * 16,
            },
            origins: Vec::new(),
            hit_us: HIT_US,
            miss_us: MISS_US,
            bandwidth_bytes: BANDWIDTH.get(),
            slowdown: 0.21,
            vms: vms.map(|vm| self.vm_report(host, *vm, window)).collect(),
        }
    }

    fn vm_report(&self, host: usize, vm: usize, window: usize) -> VmReport {
        let demand = &self.demands[vm];
        let rwss = self.published_rwss(host, vm, window);
        VmReport {
            vm: self.vm_names[vm].clone(),
            rwss_bytes: rwss,
            dirty_bytes: rwss / 20,
            needs: Resources {
                cpu_millis: 2_000,
                memory_bytes: MEMORY.get(),
            },
            curve: demand.curve(window),
            reads_per_second: demand.reads_per_second(window),
            hits: self.hits[vm],
            moved_at_s: self.moved[vm],
            pinned: false,
            group: None,
            origins: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::{Faults, Rule};

    #[test]
    fn the_fleet_is_the_probes() {
        let settings = Settings {
            faults: Faults::NONE,
            windows: 24,
            ..Settings::new(Rule::None, 1)
        };
        let hosts = Hosts::new(&settings);
        let loads: Vec<f64> = (0..24)
            .flat_map(|window| (0..500).map(move |host| (host, window)))
            .map(|(host, window)| hosts.load(host, window))
            .collect();
        let count = real(loads.len() as u64);
        let above = real(loads.iter().filter(|load| **load > 0.9).count() as u64) / count;
        let mean = loads.iter().sum::<f64>() / count;
        let deviation = loads.iter().map(|load| (load - mean) * (load - mean));
        let deviation = (deviation.sum::<f64>() / count).sqrt();
        println!("mean {mean:.3}, deviation {deviation:.3}, above {above:.3}");
        assert!((above - 0.159).abs() < 0.03, "{above} are above 90 %");
        assert!(
            (deviation - 0.18).abs() < 0.02,
            "a deviation of {deviation}"
        );
    }
}
