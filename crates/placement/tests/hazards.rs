//! The hazards of planning, each over many windows, with and without its guard.

#![allow(
    clippy::unwrap_used,
    reason = "a test fails by panicking, and its sizes are small"
)]

use placement::{
    Finding, Fleet, Guard, HostLoad, HostReport, Name, Proposed, Resources, Rules, VmReport,
    instant_of_seconds, plan, remove,
};

const GIB: u64 = 1 << 30;
const WINDOW_S: u64 = 2 * 3600;

fn vm(name: &str, gib: u64) -> VmReport {
    let size = gib * GIB;
    VmReport {
        vm: name.to_owned(),
        rwss_bytes: size,
        dirty_bytes: 0,
        needs: Resources::default(),
        curve: vec![(size / 2, 0.5), (size, 0.2), (size * 4, 0.1)],
        reads_per_second: 500.0,
        hits: None,
        moved_at_s: None,
        pinned: false,
        group: None,
        origins: Vec::new(),
    }
}

fn host(name: &str, vms: Vec<VmReport>) -> HostReport {
    HostReport {
        version: 1,
        host: name.to_owned(),
        capacity_bytes: 100 * GIB,
        reserve: 0.1,
        demand_before_bytes: Vec::new(),
        free: Resources::default(),
        origins: Vec::new(),
        hit_us: 100.0,
        miss_us: 2_000.0,
        bandwidth_bytes: GIB,
        slowdown: 0.2,
        vms,
    }
}

/// A fleet over time: its moves are done within their window.
struct Run {
    hosts: Vec<HostReport>,
    /// What each host's demand is multiplied by when it is published.
    lies: Vec<f64>,
    findings: Vec<Finding>,
    moves: Vec<Proposed>,
    waiting: Vec<Proposed>,
    now: u64,
}

impl Run {
    fn new(hosts: Vec<HostReport>) -> Self {
        Self {
            lies: vec![1.0; hosts.len()],
            hosts,
            findings: Vec::new(),
            moves: Vec::new(),
            waiting: Vec::new(),
            now: 0,
        }
    }

    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "sizes of tests"
    )]
    fn published(&self) -> Vec<HostLoad> {
        let of_host = |(host, lie): (&HostReport, &f64)| {
            let mut host = host.clone();
            for vm in &mut host.vms {
                vm.rwss_bytes = (vm.rwss_bytes as f64 * lie) as u64;
            }
            HostLoad::try_from(host).unwrap()
        };
        self.hosts.iter().zip(&self.lies).map(of_host).collect()
    }

    /// One window: what is published, planned and done.
    fn window(&mut self, rules: &Rules) {
        self.now += WINDOW_S;
        let now = instant_of_seconds(self.now);
        let loads = self.published();
        // What the moves of the window before found.
        for planned in std::mem::take(&mut self.waiting) {
            let target = loads.iter().find(|load| *load.host() == planned.to);
            self.findings
                .extend(Finding::of(&planned, target.unwrap(), now));
        }
        let demands: Vec<u64> = loads.iter().map(|load| load.demand().get()).collect();
        let fleet = Fleet::new(loads, Vec::new(), self.findings.clone()).unwrap();
        let plan = plan(&fleet, rules, now);
        for (host, demand) in self.hosts.iter_mut().zip(demands) {
            host.demand_before_bytes.insert(0, demand);
            host.demand_before_bytes.truncate(3);
        }
        for planned in plan.moves {
            let from = self.place(&planned.from);
            let vms = &mut self.hosts[from].vms;
            let at = vms.iter().position(|vm| vm.vm == planned.vm.as_str());
            let mut vm = vms.remove(at.unwrap());
            vm.moved_at_s = Some(self.now);
            let to = self.place(&planned.to);
            self.hosts[to].vms.push(vm);
            self.moves.push(planned.clone());
            self.waiting.push(planned);
        }
    }

    fn place(&self, host: &Name) -> usize {
        let mut all = self.hosts.iter();
        all.position(|one| one.host == host.as_str()).unwrap()
    }
}

/// Rules under which a host is planned for at once, so that a hazard shows in few windows.
fn quick() -> Rules {
    Rules {
        windows: 1,
        worth: 0.0,
        ..Rules::hearth()
    }
}

#[test]
fn a_vm_does_not_go_back_and_forth() {
    // Both hosts' own VMs breathe against each other, so that the one that has the traveller is always too full.
    let moves = || {
        let mut run = Run::new(vec![
            host("a", vec![vm("traveller", 20), vm("w", 60)]),
            host("b", vec![vm("x", 60)]),
        ]);
        run.hosts[0].vms[1].pinned = true;
        run.hosts[1].vms[0].pinned = true;
        for _ in 0..24 {
            for host in &mut run.hosts {
                let has_traveller = host.vms.iter().any(|vm| vm.vm == "traveller");
                let own = host.vms.iter_mut().find(|vm| vm.vm != "traveller").unwrap();
                own.rwss_bytes = if has_traveller { 75 } else { 60 } * GIB;
            }
            run.window(&quick());
        }
        run.moves.len()
    };
    // Two days of windows, and a rest of one day.
    assert_eq!(moves(), 2);
    remove(Some(Guard::Rest));
    let without = moves();
    remove(None);
    assert_eq!(without, 24);
}

#[test]
fn many_full_hosts_do_not_run_to_one_empty_host() {
    // The most that one host takes in a round.
    let herd = || {
        let mut hosts: Vec<_> = (0..5)
            .map(|at| {
                let vms = (0..19).map(|of| vm(&format!("v{at}-{of}"), 5)).collect();
                host(&format!("full-{at}"), vms)
            })
            .collect();
        hosts.push(host("empty", Vec::new()));
        hosts.extend((0..5).map(|at| host(&format!("half-{at}"), vec![vm(&format!("h{at}"), 50)])));
        let mut run = Run::new(hosts);
        run.window(&quick());
        let to_empty = run.moves.iter().filter(|one| one.to.as_str() == "empty");
        (run.moves.len(), to_empty.count())
    };
    assert_eq!(herd(), (5, 1));
    remove(Some(Guard::OneArrival));
    let without = herd();
    remove(None);
    assert_eq!(without, (5, 5));
}

#[test]
fn a_host_that_publishes_too_little_is_found_out() {
    // The liar is full and publishes a quarter; three hosts that keep filling up believe it, or do not.
    let sent_to_liar = || {
        let mut hosts: Vec<_> = (0..3)
            .map(|at| {
                let vms = (0..12).map(|of| vm(&format!("v{at}-{of}"), 10)).collect();
                host(&format!("full-{at}"), vms)
            })
            .collect();
        let own = (0..9).map(|of| vm(&format!("own-{of}"), 10)).collect();
        hosts.push(host("liar", own));
        let honest = vec![vm("h", 40)];
        hosts.push(host("honest", honest));
        let mut run = Run::new(hosts);
        run.lies[3] = 0.25;
        for _ in 0..12 {
            run.window(&quick());
        }
        let to_liar = run.moves.iter().filter(|one| one.to.as_str() == "liar");
        to_liar.count()
    };
    // Two misfits, and what was on its way when the second was found.
    assert_eq!(sent_to_liar(), 2);
    remove(Some(Guard::Trust));
    let without = sent_to_liar();
    remove(None);
    // All that the honest host has no room for.
    assert_eq!(without, 5);
}
