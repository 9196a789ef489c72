//! What of a paper's order comes out.

use moves::papers::{Figure, Paper, figures};

fn of(all: &[Figure], what: &str, method: &str) -> f64 {
    let mut found = all
        .iter()
        .filter(|one| one.what == what && one.method == method);
    found.next().expect("there is such a figure").ours
}

#[test]
fn cloudcache_saves_what_it_says_in_its_order_but_not_in_three_minutes() {
    let all = figures(Paper::CloudCache, 1).expect("the set-ups are fixed");
    for workload in ["Moodle", "Webserver"] {
        let saved = |method| of(&all, &format!("{workload}, saved of that"), method);
        assert!(saved("on-demand") > 20.0);
        assert!(saved("+ dirty") >= saved("on-demand"));
        assert!(saved("+ RWS") >= saved("+ dirty"));
        assert!(saved("live, drain") > saved("+ RWS") - 1.0);
        let stopped = |method| of(&all, &format!("{workload}, VM stopped"), method);
        assert!(stopped("live, drain") < stopped("none") / 100.0);
    }
    let flush = of(&all, "Webserver, VM stopped", "none");
    assert!((flush / 12.0 - 1.0).abs() < 0.1, "{flush}");
    let rws = of(&all, "RWS of 32 GB there", "+ RWS");
    assert!(
        rws > 32.0 * 1024.0 * 1.048 / 125.0,
        "faster than a gigabit: {rws} s"
    );
}
