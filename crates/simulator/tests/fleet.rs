//! Fleets of hosts under many faults: what has to hold, holds, and a seed decides everything.

#![allow(clippy::unwrap_used, reason = "helpers of a test are part of it")]

use curves::{DemandSettings, demand_series};
use simulator::fleet::{Demanded, Faults, Outcome, Rule, Settings, TraceDemand, TraceDemands, run};
use trace::Options;
use units::{Bytes, Duration};

/// Far more than a fleet sees, so that a small one sees everything.
const MANY: Faults = Faults {
    host_lost: 40,
    aborts: 4,
    liars: 10,
    planner_away: 2,
    store_per_thousand: 60,
};

fn fleet(rule: Rule, seed: u64, faults: Faults) -> Outcome {
    let settings = Settings {
        hosts: 40,
        vms: 12,
        windows: 30,
        faults,
        ..Settings::new(rule, seed)
    };
    let outcome = run(&settings, &mut |_| {});
    outcome.unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn every_check_holds_under_many_faults() {
    let (mut replaced, mut rolled_back, mut failed) = (0, 0, 0);
    for seed in 1..=6 {
        for rule in [Rule::Paper, Rule::Hearth, Rule::Gain] {
            let outcome = fleet(rule, seed, MANY);
            assert_eq!(outcome.violations, [], "{rule:?} of seed {seed}");
            replaced += outcome.drivers_replaced;
            rolled_back += outcome.not_done().0;
            failed += outcome.not_done().1;
        }
    }
    println!("{replaced} drivers replaced, {rolled_back} moves rolled back, {failed} failed");
    // The faults did reach the moves.
    assert!(replaced > 10);
    assert!(rolled_back > 10);
}

#[test]
fn a_seed_decides_everything() {
    let run = |seed| fleet(Rule::Hearth, seed, MANY);
    assert_eq!(run(5), run(5));
    assert_ne!(run(5), run(6));
}

/// A trace whose rate has a day and a night of 60 s, in windows of 5 s.
fn traced() -> Demanded {
    let text = "gen:diurnal,requests=20000,blocks=3000,rate=100,period=60s,seed=3";
    let settings = DemandSettings::new(Duration::from_secs(5), Bytes::kib(4)).unwrap();
    let mut opened = trace::open(text.as_ref(), &Options::default()).unwrap();
    let series = demand_series(&mut *opened.reader, &settings, &mut |_| {}).unwrap();
    let trace = TraceDemand::new(text, series).unwrap();
    Demanded::Traces(TraceDemands::new(vec![trace]).unwrap())
}

#[test]
fn every_check_holds_with_the_demand_of_a_trace() {
    let mut moves = 0;
    for rule in Rule::ALL {
        let settings = Settings {
            hosts: 40,
            vms: 12,
            windows: 30,
            faults: MANY,
            demand: traced(),
            ..Settings::new(rule, 1)
        };
        let outcome = run(&settings, &mut |_| {}).unwrap();
        assert_eq!(outcome.violations, [], "{rule:?}");
        moves += outcome.moves();
    }
    assert!(moves > 20, "{moves} moves");
}

#[test]
fn our_rule_leaves_no_more_overload_than_the_papers() {
    for seed in 1..=3 {
        let of = |rule| {
            let settings = Settings {
                hosts: 120,
                windows: 36,
                faults: Faults::NONE,
                ..Settings::new(rule, seed)
            };
            let outcome = run(&settings, &mut |_| {});
            outcome
                .unwrap_or_else(|error| panic!("{error}"))
                .overloaded()
        };
        let (none, paper, hearth) = (of(Rule::None), of(Rule::Paper), of(Rule::Hearth));
        assert!(hearth <= paper, "{hearth} and {paper} of seed {seed}");
        assert!(paper * 2 < none, "{paper} and {none} of seed {seed}");
    }
}
