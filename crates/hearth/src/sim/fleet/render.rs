//! What came of a fleet, for people and for programs.

use crate::terminal::quantity::{bytes, share};
use crate::terminal::{Side, Table};
use serde::Serialize;
use simulator::fleet::cloudcache::{Against, Figures, PAPER};
use simulator::fleet::{Outcome, PROBE, Probe, Summary, TraceFacts};
use std::fmt::Write;
use units::Bytes;

/// Violations that are shown of a rule; all are in the JSON.
const SHOWN: usize = 5;

/// A run in JSON: sums, and each window.
#[derive(Serialize)]
pub(super) struct Told<'a> {
    #[serde(flatten)]
    summary: Summary<'a>,
    overloaded_below_paper: Option<bool>,
}

/// Everything in JSON.
#[derive(Serialize)]
pub(super) struct All<'a> {
    runs: Vec<Told<'a>>,
    probe: &'a [Probe],
    /// What demand was taken from; nothing if it was generated.
    traces: &'a [TraceFacts],
}

/// The paper's experiment in JSON.
#[derive(Serialize)]
pub(super) struct AllOfPaper<'a> {
    paper: Figures,
    ours: &'a [Figures],
    traces: &'a [TraceFacts],
}

pub(super) const fn told_paper<'a>(
    figures: &'a [Figures],
    traces: &'a [TraceFacts],
) -> AllOfPaper<'a> {
    AllOfPaper {
        paper: PAPER,
        ours: figures,
        traces,
    }
}

pub(super) fn told<'a>(all: &'a [Outcome], traces: &'a [TraceFacts]) -> All<'a> {
    let paper = all.iter().find(|one| one.rule == "paper");
    All {
        runs: all.iter().map(|outcome| of_run(outcome, paper)).collect(),
        probe: &PROBE,
        traces,
    }
}

fn of_run<'a>(outcome: &'a Outcome, paper: Option<&Outcome>) -> Told<'a> {
    Told {
        summary: outcome.summary(),
        overloaded_below_paper: paper.map(|paper| outcome.overloaded() <= paper.overloaded()),
    }
}

pub(super) fn table(all: &[Outcome], traces: &[TraceFacts]) -> String {
    let mut table = Table::new(&[
        ("rule", Side::Left),
        ("above 90 %", Side::Right),
        ("deviation", Side::Right),
        ("moves", Side::Right),
        ("back", Side::Right),
        ("failed", Side::Right),
        ("moved", Side::Right),
        ("hits", Side::Right),
        ("p90", Side::Right),
        ("drivers", Side::Right),
        ("liars found", Side::Right),
    ]);
    for one in all {
        let (rolled_back, failed) = one.not_done();
        table.row(vec![
            one.rule.to_owned(),
            share(one.overloaded_part()),
            format!("{:.3}", one.mean(|sample| Some(sample.load_stddev))),
            one.moves().to_string(),
            rolled_back.to_string(),
            failed.to_string(),
            Bytes::new(one.moved_bytes()).to_string(),
            share(one.mean(|sample| sample.hits)),
            format!("{:.3}ms", one.mean(|sample| sample.p90_ms)),
            one.drivers_replaced.to_string(),
            format!(
                "{} of {}, {} wrong",
                one.liars_found, one.liars, one.honest_distrusted
            ),
        ]);
    }
    let mut out = format!("{}{table}\n", sources(traces));
    let mut probe = Table::new(&[
        ("the probe's rule", Side::Left),
        ("above 90 %", Side::Right),
        ("deviation", Side::Right),
        ("moves", Side::Right),
    ]);
    for one in &PROBE {
        probe.row(vec![
            one.rule.to_owned(),
            share(one.overloaded_part),
            format!("{:.3}", one.load_stddev),
            one.moves.to_string(),
        ]);
    }
    // Writing to a string does not fail.
    let _ = writeln!(
        out,
        "{probe}\nThe probe had 148 windows, moves that take no time, and no faults.\n"
    );
    checks(&mut out, all);
    out
}

fn checks(out: &mut String, all: &[Outcome]) {
    let paper = all.iter().find(|one| one.rule == "paper");
    for one in all {
        if let Some(paper) = paper
            && one.rule != "none"
            && one.overloaded() > paper.overloaded()
        {
            let _ = writeln!(
                out,
                "{}: {} host-windows above 90 %, more than the paper's {}",
                one.rule,
                one.overloaded(),
                paper.overloaded()
            );
        }
        for wrong in one.violations.iter().take(SHOWN) {
            let _ = writeln!(
                out,
                "{}: in window {} {}",
                one.rule, wrong.window, wrong.what
            );
        }
        if one.violations.len() > SHOWN {
            let more = one.violations.len() - SHOWN;
            let _ = writeln!(out, "{}: and {more} more: --json has all", one.rule);
        }
    }
    if all.iter().all(|one| one.violations.is_empty()) {
        out.push_str(
            "Held in every window: each VM at one host, rests, limits on moves, every move ended by somebody.\n",
        );
    }
}

/// What demand was taken from; nothing if it was generated.
fn sources(traces: &[TraceFacts]) -> String {
    if traces.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&[
        ("demand of", Side::Left),
        ("windows", Side::Right),
        ("mean RWSS", Side::Right),
        ("peak / mean", Side::Right),
        ("WSS / RWSS", Side::Right),
        ("hits with RWSS", Side::Right),
    ]);
    for one in traces {
        table.row(vec![
            one.trace.clone(),
            one.windows.to_string(),
            bytes(one.rwss_mean_bytes),
            format!("{:.1}", one.peak),
            format!("{:.2}", one.wss_by_rwss),
            one.hits.map_or_else(|| "no reads".to_owned(), share),
        ]);
    }
    format!("{table}\n")
}

/// The paper's experiment with its figures beside ours.
pub(super) fn paper(figures: &[Figures], traces: &[TraceFacts]) -> String {
    let mut table = Table::new(&[
        ("demand by flash", Side::Left),
        ("moved", Side::Right),
        ("the largest", Side::Right),
        ("(c)/(b) after the move", Side::Right),
        ("(c)/(a)", Side::Right),
        ("(c)/(b)", Side::Right),
        ("(b)/(a)", Side::Right),
    ]);
    for one in std::iter::once(&PAPER).chain(figures) {
        let moved = one.moved.map_or_else(
            || "day 8".to_owned(),
            |(moved, draws)| format!("{moved} of {draws}"),
        );
        table.row(vec![
            one.demand
                .map_or_else(|| "the paper".to_owned(), |demand| format!("{demand:.2}")),
            moved,
            one.moved_largest
                .map_or_else(|| "yes".to_owned(), |count| count.to_string()),
            against(one.after_move),
            against(one.overall),
            against(one.overall_allocated),
            against(one.allocated),
        ]);
    }
    let ours = if traces.is_empty() {
        "is generated, with straight curves"
    } else {
        "is these traces'"
    };
    format!(
        "CloudCache, section 6: 12 VMs and 3, 64GiB each, ten days; hits and p90 on average over the twelve VMs\n\n\
         {}{table}\n\
         (a) no allocation, (b) by reuse working set, (c) and a move by the planner. The paper does not print the demand of\n\
         its last window, and its traces are not public: ours {ours}.\n",
        sources(traces)
    )
}

fn against(one: Against) -> String {
    format!("{:+.0}% / {:+.0}%", one.hits * 100.0, one.p90 * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use simulator::fleet::{Faults, Rule, Settings, run};

    #[test]
    fn a_table_has_a_row_for_each_rule_and_the_probes_below() {
        let settings = Settings {
            hosts: 6,
            vms: 5,
            windows: 6,
            faults: Faults::NONE,
            ..Settings::new(Rule::Hearth, 1)
        };
        let outcome = run(&settings, &mut |_| {}).unwrap();
        let text = table(&[outcome], &[]);
        assert!(text.contains("\nhearth "), "{text}");
        assert!(text.contains("90 %, 3 windows"), "{text}");
        assert!(text.contains("Held in every window"), "{text}");
    }
}
