//! What holds for every plan, whatever the fleet.

#![allow(
    clippy::unwrap_used,
    clippy::cast_precision_loss,
    reason = "a test fails by panicking, and its sizes are small"
)]

use placement::{
    Fleet, HostLoad, HostReport, Objective, Plan, Resources, Rules, VmReport, instant_of_seconds,
    plan,
};
use proptest::prelude::*;
use std::collections::BTreeMap;

const GIB: u64 = 1 << 30;

fn vm(number: usize, (mib, dirty, reads, pinned): (u64, u64, u32, bool)) -> VmReport {
    let size = (mib << 20).max(1 << 20);
    VmReport {
        vm: format!("vm-{number}"),
        rwss_bytes: mib << 20,
        dirty_bytes: dirty << 20,
        needs: Resources {
            cpu_millis: 1_000,
            memory_bytes: GIB,
        },
        curve: vec![(size / 2, 0.6), (size, 0.3), (size * 3, 0.2)],
        reads_per_second: f64::from(reads),
        hits: None,
        moved_at_s: (number.is_multiple_of(5)).then_some(number as u64 * 3_600),
        pinned,
        group: (number.is_multiple_of(7)).then(|| format!("group-{}", number % 3)),
        origins: Vec::new(),
    }
}

/// Hosts with up to eight VMs each; every third is small, every fourth is short of processors.
fn hosts() -> impl Strategy<Value = Vec<HostReport>> {
    let vms = prop::collection::vec(
        (0_u64..30_000, 0_u64..2_000, 0_u32..2_000, any::<bool>()),
        0..8,
    );
    prop::collection::vec(vms, 2..8).prop_map(|all| {
        let mut number = 0;
        let of_host = |(at, vms): (usize, Vec<_>)| {
            let vms: Vec<_> = vms
                .into_iter()
                .map(|of| {
                    number += 1;
                    vm(number, of)
                })
                .collect();
            let demand: u64 = vms.iter().map(|vm| vm.rwss_bytes).sum();
            HostReport {
                version: 1,
                host: format!("host-{at}"),
                capacity_bytes: if at % 3 == 2 { 40 * GIB } else { 100 * GIB },
                reserve: 0.1,
                demand_before_bytes: vec![demand; 3],
                free: Resources {
                    cpu_millis: if at % 4 == 3 { 0 } else { 8_000 },
                    memory_bytes: 1 << 40,
                },
                origins: Vec::new(),
                hit_us: 100.0,
                miss_us: 3_000.0,
                bandwidth_bytes: 200 << 20,
                slowdown: 0.2,
                vms,
            }
        };
        all.into_iter().enumerate().map(of_host).collect()
    })
}

fn fleet(reports: &[HostReport]) -> Fleet {
    let loads = reports
        .iter()
        .map(|report| HostLoad::try_from(report.clone()).unwrap());
    Fleet::new(loads.collect(), Vec::new(), Vec::new()).unwrap()
}

/// The load of each host once the plan is carried out.
fn loads_after(reports: &[HostReport], plan: &Plan) -> BTreeMap<String, (u64, u64)> {
    let mut after: BTreeMap<String, (u64, u64)> = reports
        .iter()
        .map(|host| {
            let demand = host.vms.iter().map(|vm| vm.rwss_bytes).sum();
            (host.host.clone(), (demand, host.capacity_bytes))
        })
        .collect();
    for one in &plan.moves {
        after.get_mut(one.from.as_str()).unwrap().0 -= one.demand.get();
        after.get_mut(one.to.as_str()).unwrap().0 += one.demand.get();
    }
    after
}

fn rules() -> impl Strategy<Value = Rules> {
    prop_oneof![
        Just(Rules::paper()),
        Just(Rules::hearth()),
        Just(Rules::gain()),
        Just(Rules {
            objective: Objective::Gain,
            ..Rules::hearth()
        }),
        Just(Rules {
            worth: 2.0,
            ..Rules::hearth()
        }),
    ]
}

proptest! {
    #[test]
    fn no_plan_makes_a_target_overloaded(reports in hosts(), rules in rules()) {
        let plan = plan(&fleet(&reports), &rules, instant_of_seconds(40 * 3600));
        let after = loads_after(&reports, &plan);
        for one in &plan.moves {
            let (demand, capacity) = after[one.to.as_str()];
            prop_assert!((demand as f64) < 0.9 * capacity as f64);
        }
    }

    #[test]
    fn moves_keep_to_the_limits(reports in hosts(), rules in rules()) {
        let now = 40 * 3600;
        let plan = plan(&fleet(&reports), &rules, instant_of_seconds(now));
        prop_assert!(plan.moves.len() <= rules.cluster);
        for one in &plan.moves {
            let of_source = plan.moves.iter().filter(|other| other.from == one.from);
            prop_assert!(of_source.count() <= rules.outbound);
            let of_target = plan.moves.iter().filter(|other| other.to == one.to);
            prop_assert!(of_target.count() <= rules.arrivals);
            let vm = reports.iter().flat_map(|host| &host.vms).find(|vm| vm.vm == one.vm.as_str());
            let vm = vm.unwrap();
            prop_assert!(!vm.pinned);
            let rest = rules.rest_windows * 2 * 3600;
            prop_assert!(vm.moved_at_s.is_none_or(|at| now - at.min(now) >= rest));
            prop_assert!(one.expected.gain_s >= rules.worth * one.expected.cost_s || rules.worth == 0.0);
            let to = reports.iter().find(|host| host.host == one.to.as_str()).unwrap();
            prop_assert!(to.free.cpu_millis > 0);
            let same = |other: &&VmReport| other.group.is_some() && other.group == vm.group;
            prop_assert!(!to.vms.iter().any(|other| same(&other)));
        }
    }

    #[test]
    fn the_order_of_hosts_and_vms_does_not_matter(reports in hosts(), rules in rules(), seed in any::<u64>()) {
        let now = instant_of_seconds(40 * 3600);
        let mut shuffled = reports.clone();
        let mut dice = units::Prng::new(seed);
        for at in (1..shuffled.len()).rev() {
            shuffled.swap(at, usize::try_from(dice.below(at as u64 + 1)).unwrap());
        }
        for host in &mut shuffled {
            host.vms.reverse();
        }
        prop_assert_eq!(plan(&fleet(&reports), &rules, now), plan(&fleet(&shuffled), &rules, now));
    }

    #[test]
    fn the_variance_never_rises(reports in hosts(), rules in rules()) {
        let plan = plan(&fleet(&reports), &rules, instant_of_seconds(40 * 3600));
        prop_assert!(plan.after.load_stddev <= plan.before.load_stddev + 1e-12);
        for one in &plan.moves {
            prop_assert!(one.expected.stddev_after < one.expected.stddev_before + 1e-12);
        }
    }

    #[test]
    fn the_paper_takes_the_least_variance(reports in hosts()) {
        let now = instant_of_seconds(40 * 3600);
        let plan = plan(&fleet(&reports), &Rules::paper(), now);
        let Some(first) = plan.moves.first() else { return Ok(()) };
        // From first principles: every move of one of its VMs to a host that stays under its bound with it.
        let before: Vec<(f64, f64)> = reports.iter()
            .map(|host| (host.vms.iter().map(|vm| vm.rwss_bytes as f64).sum(), host.capacity_bytes as f64))
            .collect();
        let from = reports.iter().position(|host| host.host == first.from.as_str()).unwrap();
        let variance = |to: usize, demand: f64| {
            let loads: Vec<f64> = before.iter().enumerate().map(|(at, (sum, capacity))| {
                let sum = sum + if at == to { demand } else if at == from { -demand } else { 0.0 };
                sum / capacity
            }).collect();
            let mean = loads.iter().sum::<f64>() / loads.len() as f64;
            loads.iter().map(|load| (load - mean) * (load - mean)).sum::<f64>() / loads.len() as f64
        };
        let to = reports.iter().position(|host| host.host == first.to.as_str()).unwrap();
        let chosen = variance(to, first.demand.get() as f64);
        for vm in reports[from].vms.iter().filter(|vm| !vm.pinned) {
            for (to, host) in reports.iter().enumerate().filter(|(to, _)| *to != from) {
                let demand = vm.rwss_bytes as f64;
                let same = |other: &VmReport| other.group.is_some() && other.group == vm.group;
                let runs = host.free.cpu_millis > 0 && !host.vms.iter().any(same);
                if runs && (before[to].0 + demand) / before[to].1 < 0.9 - 1e-12 {
                    prop_assert!(chosen <= variance(to, demand) + 1e-12);
                }
            }
        }
    }
}
