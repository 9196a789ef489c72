//! What holds for every group: plans are whole, better methods are not worse, and hostile input is refused or cut down.

use groups::limits::RATE_BYTES_MAX;
use groups::standin::{self, Clustered};
use groups::{Load, Method, Plan, Problem, Rate, Sizes, Split, TrafficMatrix, cost};
use proptest::prelude::*;
use units::{Bytes, Prng};

fn link() -> Rate {
    Rate::new(1.25e9).expect("a rate")
}

fn problem(traffic: TrafficMatrix, sigma: f64, dice: &mut Prng) -> Problem {
    let loads = standin::loads(traffic.vms(), Bytes::gib(4), sigma, dice);
    Problem::new(traffic, loads, link(), Split::Dealt).expect("a group")
}

fn gravity(vms: usize, seed: u64) -> Problem {
    let mut dice = Prng::new(seed);
    problem(standin::gravity(vms, 0.7, &mut dice), 0.0, &mut dice)
}

fn clustered(vms: usize, seed: u64) -> Problem {
    let mut dice = Prng::new(seed);
    let kind = Clustered::of(4);
    problem(standin::clustered(vms, &kind, &mut dice).0, 0.0, &mut dice)
}

fn volume(problem: &Problem, method: Method, sizes: &Sizes) -> f64 {
    let plan = method.plan(problem, sizes, 1).expect("sizes fit");
    plan.volume().expect("VMs that write nothing converge")
}

fn assert_whole(plan: &Plan, problem: &Problem, sizes: Option<&[usize]>) {
    let mut vms = plan.grouped().concat();
    vms.sort_unstable();
    assert!(vms.into_iter().eq(0..problem.vms()));
    let found: Vec<usize> = plan.waves().iter().map(|wave| wave.vms.len()).collect();
    if let Some(sizes) = sizes {
        assert_eq!(found, sizes);
    }
}

/// Rates as strangers write them.
fn hostile() -> impl Strategy<Value = f64> {
    prop_oneof![
        Just(0.0),
        Just(1.0),
        Just(1e300),
        Just(f64::MAX),
        Just(f64::MIN_POSITIVE),
        Just(5e-324),
        0.0..1e12,
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn every_plan_holds_each_vm_once_in_waves_of_the_sizes(
        rates in prop::collection::vec((0_usize..9, 0_usize..9, hostile()), 1..40),
        dirty in prop::collection::vec(prop_oneof![Just(0.0), 0.0..1e9, Just(1e300)], 9),
        bytes in prop::collection::vec(prop_oneof![Just(0), Just(u64::MAX), 1_u64..1 << 40], 9),
        cut in 1_usize..9,
        split in prop::sample::select(vec![Split::Equal, Split::Dealt]),
        link in prop::sample::select(vec![1.0, 1.25e9, 1e13]),
    ) {
        let names: Vec<String> = (0..9).map(|vm| vm.to_string()).collect();
        let mut traffic = TrafficMatrix::of_vms(names.iter().map(String::as_str)).unwrap();
        for (one, other, rate) in rates {
            traffic.add(one, other, rate).unwrap();
        }
        prop_assert!(traffic.row(0).iter().all(|rate| (0.0..=RATE_BYTES_MAX).contains(rate)));
        let load = |(dirty, bytes): (&f64, &u64)| Load {
            size: Bytes::new(*bytes),
            dirty: Rate::new(*dirty).unwrap(),
        };
        let loads = dirty.iter().zip(&bytes).map(load).collect();
        let problem = Problem::new(traffic, loads, Rate::new(link).unwrap(), split).unwrap();
        let given = [cut, 9 - cut];
        let each: Vec<usize> = [cut; 9].iter().scan(9_usize, |left, size| {
            let size = (*size).min(*left);
            *left -= size;
            (size > 0).then_some(size)
        }).collect();
        for method in Method::ALL {
            let plan = |sizes: &Sizes| method.plan(&problem, sizes, 7).unwrap();
            let is_serial = method == Method::Serial;
            assert_whole(&plan(&Sizes::Each(cut)), &problem, (!is_serial).then_some(&each));
            if cut < 9 {
                let plan = plan(&Sizes::Given(given.to_vec()));
                assert_whole(&plan, &problem, (!is_serial).then_some(&given));
            }
            let plan = plan(&Sizes::Auto { largest: cut });
            assert_whole(&plan, &problem, None);
            let volume = plan.volume();
            prop_assert!(volume.is_none_or(|volume| volume.is_finite() && volume >= 0.0), "{volume:?}");
            if method == Method::Serial {
                continue;
            }
            for wave in plan.waves() {
                prop_assert!(wave.vms.len() <= cut);
            }
        }
    }

    #[test]
    fn a_wave_of_its_own_size_converges_unless_one_vm_never_does(seed in 0_u64..1_000) {
        let mut dice = Prng::new(seed);
        let traffic = standin::gravity(20, 0.7, &mut dice);
        let mut loads = standin::loads(20, Bytes::gib(4), 0.7, &mut dice);
        for load in &mut loads {
            load.dirty = Rate::new(f64::from(u32::try_from(dice.below(1_200_000_000)).unwrap())).unwrap();
        }
        let problem = Problem::new(traffic, loads, link(), Split::Dealt).unwrap();
        for method in [Method::Random, Method::RMinCut, Method::KmeansSf, Method::Annealed] {
            let plan = method.plan(&problem, &Sizes::Auto { largest: usize::MAX }, seed).unwrap();
            prop_assert!(plan.volume().is_some(), "{method:?}");
        }
    }

    #[test]
    fn nothing_beats_exact(seed in 0_u64..1_000, size in 1_usize..6) {
        let sizes = Sizes::Each(size);
        for problem in [gravity(10, seed), clustered(10, seed)] {
            let least = volume(&problem, Method::Exact, &sizes);
            for method in [Method::Random, Method::RMinCut, Method::KmeansSf, Method::Annealed] {
                let other = volume(&problem, method, &sizes);
                prop_assert!(other >= least * (1.0 - 1e-9), "{method:?}: {other} {least}");
            }
        }
    }
}

#[test]
fn annealed_is_never_worse_than_the_papers_methods() {
    for size in [2, 4, 8, 16, 32] {
        let sizes = Sizes::Each(size);
        for seed in 1..=2 {
            for problem in [gravity(68, seed), clustered(68, seed)] {
                let annealed = volume(&problem, Method::Annealed, &sizes);
                for method in [Method::RMinCut, Method::KmeansSf] {
                    let other = volume(&problem, method, &sizes);
                    assert!(
                        annealed <= other,
                        "{size} {seed} {method:?}: {annealed} {other}"
                    );
                }
            }
        }
    }
}

#[test]
fn annealed_is_near_the_optimum() {
    let mut excess = Vec::new();
    for vms in [10, 14] {
        for size in [2, 4, 7] {
            for seed in 1..=4 {
                for problem in [gravity(vms, seed), clustered(vms, seed)] {
                    let sizes = Sizes::Each(size);
                    let least = volume(&problem, Method::Exact, &sizes);
                    let annealed = volume(&problem, Method::Annealed, &sizes);
                    // Clusters that do not talk may cross without any volume.
                    excess.push((annealed - least) / least.max(1.0));
                }
            }
        }
    }
    let mean = excess.iter().sum::<f64>() / f64::from(u32::try_from(excess.len()).unwrap());
    assert!(mean <= 0.005, "{mean}");
}

#[test]
fn the_seed_decides_the_plan() {
    let problem = gravity(30, 3);
    for method in [Method::Random, Method::KmeansSf, Method::Annealed] {
        let plan = |seed| method.plan(&problem, &Sizes::Each(4), seed).unwrap();
        assert_eq!(plan(5), plan(5));
    }
}

#[test]
fn annealing_lowers_the_volume_of_serial_too() {
    let problem = gravity(40, 1);
    let serial = cost::serial_mean(&problem);
    let annealed = volume(&problem, Method::Annealed, &Sizes::Each(1));
    assert!(cost::saved(annealed, serial) > 0.15, "{annealed} {serial}");
}
