//! The same seed is the same world, event by event.

use world::{Options, run};

#[test]
fn a_seed_run_twice_gives_the_same_digest_and_trace() {
    for seed in [0, 1, 2, 4073, u64::MAX] {
        let options = Options {
            trace: true,
            ..Options::new(seed)
        };
        let (first, second) = (run(options).unwrap(), run(options).unwrap());
        assert_eq!(first, second, "seed {seed}");
        assert!(first.trace.len() > 100, "something happens in seed {seed}");
    }
}

#[test]
fn recording_a_trace_changes_nothing() {
    let options = Options::new(7);
    let quiet = run(options).unwrap();
    let traced = run(Options {
        trace: true,
        ..options
    });
    assert_eq!(quiet.digest, traced.unwrap().digest);
}

#[test]
fn another_seed_is_another_world() {
    let digest = |seed| run(Options::new(seed)).unwrap().digest;
    assert_ne!(digest(1), digest(2));
}
