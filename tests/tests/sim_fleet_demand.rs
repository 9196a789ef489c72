//! `hearth sim fleet --demand-from`: VMs are dealt what real traces need, and a trace that will not do is told so.

use anyhow::{Context, Result, ensure};
use e2e::{hearth, scenario};

/// Five guests for 370 seconds.
const TRACE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../fixtures/guests/debian-12-five.csv.zst"
);
const SMALL: [&str; 10] = [
    "sim",
    "fleet",
    "--hosts",
    "12",
    "--vms",
    "6",
    "--windows",
    "20",
    "--faults",
    "none",
];

fn answer(words: &[&str]) -> Result<serde_json::Value> {
    hearth(&[&SMALL, words, &["--json"]].concat())?.json()
}

#[test]
fn a_fleet_needs_as_much_as_a_generated_one_by_other_curves() {
    scenario(&[], |lab| {
        let at = |name: &str| lab.path(name).display().to_string();
        let (csv, report) = (at("fleet.csv"), at("fleet.html"));
        let from = ["--demand-from", TRACE, "--demand-window", "20s"];
        let traced = answer(&[&from[..], &["--csv", &csv, "--report", &report]].concat())?;
        let generated = answer(&[])?;

        let facts = &traced["traces"][0];
        ensure!(
            facts["windows"] == 18,
            "370s are 18 windows of 20s: {facts}"
        );
        ensure!(facts["peak"].as_f64() > Some(1.0), "{facts}");
        ensure!(
            generated["traces"] == serde_json::json!([]),
            "{}",
            generated["traces"]
        );
        let of_none = |all: &serde_json::Value, what: &str| -> Result<f64> {
            let samples = all["runs"][0]["samples"].as_array().context("samples")?;
            let values = samples.iter().map(|sample| sample[what].as_f64());
            let values: Vec<f64> = values.collect::<Option<_>>().context("numbers")?;
            ensure!(values.len() == 20, "{} windows", values.len());
            Ok(values.iter().sum::<f64>() / 20.0)
        };
        let load = of_none(&traced, "load_mean")? / of_none(&generated, "load_mean")?;
        ensure!((load - 1.0).abs() < 0.03, "the loads are as {load} to one");
        let hits = (of_none(&traced, "hits")?, of_none(&generated, "hits")?);
        ensure!((hits.0 - hits.1).abs() > 0.01, "the same hits: {hits:?}");
        for run in traced["runs"].as_array().context("runs")? {
            ensure!(run["violations"] == serde_json::json!([]), "{run}");
        }

        let rows = std::fs::read_to_string(&csv).context("csv")?;
        ensure!(rows.lines().count() == 81, "a header, 4 rules, 20 windows");
        let page = std::fs::read_to_string(&report).context("report")?;
        for part in ["debian-12-five.csv.zst", "demand_window", "xxh3_128"] {
            ensure!(page.contains(part), "the report lacks {part}");
        }
        Ok(())
    });
}

#[test]
fn the_papers_experiment_runs_on_a_trace() {
    scenario(&[], |_| {
        let words = [
            "sim",
            "fleet",
            "--paper",
            "cloudcache",
            "--demand-from",
            TRACE,
            "--demand-window",
            "20s",
        ];
        let told = hearth(&[&words[..], &["--json"]].concat())?.json()?;
        ensure!(told["traces"][0]["windows"] == 18, "{}", told["traces"]);
        let ours = told["ours"].as_array().context("figures")?;
        ensure!(ours.len() == 4, "{} rows", ours.len());
        ensure!(
            ours.iter()
                .all(|row| row["after_move"]["hits"].as_f64() > Some(0.0)),
            "{ours:?}"
        );
        let text = hearth(&words)?.stdout;
        ensure!(text.contains("ours is these traces'"), "{text}");
        Ok(())
    });
}

#[test]
fn a_trace_that_will_not_do_is_told_with_what_to_do() {
    scenario(&[], |lab| {
        let timeless = lab.write("keys.txt", "1\n2\n1\n")?.display().to_string();
        let missing = lab.path("nowhere.csv").display().to_string();
        for (words, code, expected) in [
            (&["--demand-from", TRACE][..], 2, "0 whole windows of 2h"),
            (&["--demand-from", TRACE], 2, "at most 61s"),
            (&["--demand-from", TRACE], 2, "--demand-window"),
            (&["--demand-from", &timeless], 2, "tells no times"),
            (&["--demand-from", &missing], 1, "nowhere.csv"),
            (
                &["--demand-from", TRACE, "--demand-window", "1ms"],
                2,
                "from 1s to",
            ),
            (&["--demand-window", "1min"], 2, "--demand-from"),
        ] {
            let answer = hearth(&[&SMALL, words].concat())?;
            ensure!(
                answer.code == code,
                "{words:?}: exit code {}: {}",
                answer.code,
                answer.stderr
            );
            ensure!(
                answer.stderr.contains(expected),
                "{words:?}: {}",
                answer.stderr
            );
        }
        Ok(())
    });
}
