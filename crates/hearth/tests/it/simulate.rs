//! `hearth sim`: JSON for scripts, traces together, and outputs that replace no trace.

use crate::rig::{hearth, run, stderr, stdout};
use serde_json::Value;
use std::path::PathBuf;

/// A trace in Hearth's csv, of requests of a block each: time, operation, block.
fn trace(folder: &tempfile::TempDir, name: &str, requests: &[(u64, &str, u64)]) -> PathBuf {
    let mut lines = vec!["time_us,vm,volume,op,offset_bytes,length_bytes".to_owned()];
    for (time, op, block) in requests {
        lines.push(format!("{time},vm,disk,{op},{},4096", block * 4096));
    }
    let text = lines.join("\n") + "\n";
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    path
}

fn two(folder: &tempfile::TempDir) -> [PathBuf; 2] {
    let loops = [(100, "read", 0), (300, "read", 1), (500, "read", 0)];
    let later = loops.map(|(time, op, block)| (time + 10_000, op, block));
    [
        trace(folder, "a.csv", &loops),
        trace(folder, "b.csv", &later),
    ]
}

fn runs(words: &[&str], traces: &[PathBuf]) -> Vec<Value> {
    let output = run(hearth()
        .args(["sim", "--policy", "lru", "--json"])
        .args(words)
        .args(traces));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    serde_json::from_str(&stdout(&output)).unwrap()
}

#[test]
fn a_run_has_what_scripts_look_for() {
    let folder = tempfile::tempdir().unwrap();
    // Of two blocks the last two used: 0 misses, 1 misses, 0 hits, 2 takes the place of 1, 1 misses.
    let requests = [
        (1, "read", 0),
        (2, "write", 1),
        (3, "read", 0),
        (4, "read", 2),
        (5, "read", 1),
    ];
    let path = trace(&folder, "a.csv", &requests);
    let one = &runs(&["--size", "2blk"], &[path])[0];
    let figures = [
        "size_blocks",
        "accesses",
        "hits",
        "misses",
        "flash_writes_blocks",
    ];
    assert_eq!(
        figures.map(|name| one[name].as_u64()),
        [2, 5, 1, 4, 4].map(Some)
    );
    assert_eq!(one["miss_ratio"], 0.8);
    assert_eq!(one["policy"], "lru");
}

#[test]
fn traces_by_themselves_are_a_run_each_and_together_one() {
    let folder = tempfile::tempdir().unwrap();
    let traces = two(&folder);
    let hits = |one: &Value| one["hits"].as_u64().unwrap();
    let alone = runs(&["--size", "2blk"], &traces);
    assert_eq!(alone.iter().map(hits).collect::<Vec<_>>(), [1, 1]);

    // One after the other they use the cache as if each were alone; in turn neither finds its first block.
    let after = runs(&["--size", "2blk", "--together", "recorded"], &traces);
    assert_eq!(after.iter().map(hits).collect::<Vec<_>>(), [2]);
    let in_turn = runs(&["--size", "2blk", "--together", "from-zero"], &traces);
    assert_eq!(in_turn.iter().map(hits).collect::<Vec<_>>(), [0]);
    let both = runs(&["--size", "100%", "--together", "from-zero"], &traces);
    assert_eq!(both[0]["footprint_blocks"], 4);
    let volumes = both[0]["volumes"].as_array().unwrap();
    let vms: Vec<_> = volumes
        .iter()
        .map(|volume| volume["vm"].as_str().unwrap())
        .collect();
    assert_eq!(vms, traces.each_ref().map(|path| path.to_str().unwrap()));
    assert_eq!(volumes.iter().map(hits).collect::<Vec<_>>(), [1, 1]);
}

#[test]
fn a_generator_can_be_a_machine_among_others() {
    let output = run(hearth()
        .args(["sim", "--size", "1MiB", "--together", "from-zero", "--json"])
        .args(["--policy", "fifo", "gen:loop,blocks=10,requests=20"])
        .arg("gen:loop,blocks=5,requests=20"));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let all: Vec<Value> = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(all[0]["accesses"], 40);
    assert_eq!(all[0]["misses"], 15);
}

#[test]
fn the_manifest_names_every_trace_that_was_merged() {
    let folder = tempfile::tempdir().unwrap();
    let traces = two(&folder);
    let path = folder.path().join("manifest.json");
    let manifest = path.to_str().unwrap();
    runs(
        &[
            "--size",
            "2blk",
            "--together",
            "recorded",
            "--manifest",
            manifest,
        ],
        &traces,
    );
    let manifest: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    assert_eq!(manifest["parameters"]["together"], "recorded");
    for (place, trace) in traces.iter().enumerate() {
        let read = &manifest["traces"][place];
        assert_eq!(read["file"].as_str(), trace.to_str());
        assert_eq!(
            read["bytes"].as_u64(),
            Some(std::fs::metadata(trace).unwrap().len())
        );
    }
}

#[test]
fn no_output_replaces_a_trace() {
    let folder = tempfile::tempdir().unwrap();
    let [path, _] = two(&folder);
    let before = std::fs::read(&path).unwrap();
    for words in [
        &["sim", "--size", "2blk", "--policy", "lru", "--csv"][..],
        &["sim", "--size", "2blk", "--policy", "lru", "--report"],
        &["mrc", "--csv"],
        &["mrc", "--report"],
    ] {
        let output = run(hearth().args(words).arg(&path).arg(&path));
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(stderr(&output).contains("it is a trace that is read"));
        assert_eq!(std::fs::read(&path).unwrap(), before);
    }
}

#[test]
fn curves_and_advice_take_columns_too_and_columns_are_for_csv() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("odd.csv");
    std::fs::write(&path, "7;1;x\n8;2;x\n7;3;x\n").unwrap();
    let columns = ["--columns", "obj-id-col=1,time-col=2,delimiter=;"];
    for command in ["mrc", "advise"] {
        let words = [command, "--policy", "lru", "--json"];
        let output = run(hearth().args(words).args(columns).arg(&path));
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let answers: Value = serde_json::from_str(&stdout(&output)).unwrap();
        assert_eq!(answers[0]["footprint_blocks"], 2, "{answers}");
        let output = run(hearth()
            .args([command, "--format", "msr"])
            .args(columns)
            .arg(&path));
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains("columns can be named for csv, not for msr"));
    }
}

#[test]
fn a_cache_that_is_too_small_for_the_log_is_refused_in_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let [path, _] = two(&folder);
    let output = run(hearth().args(["sim", "--size", "2blk"]).arg(&path));
    assert_eq!(output.status.code(), Some(2));
    let error = stderr(&output);
    assert_eq!(error.matches("needs at least").count(), 1, "{error}");
}

#[test]
fn an_empty_trace_ends_every_command_alike() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("empty.csv");
    std::fs::write(&path, "").unwrap();
    for words in [
        &["sim", "--size", "1MiB"][..],
        &["mrc"],
        &["advise"],
        &["trace", "info"],
    ] {
        let output = run(hearth().args(words).arg(&path));
        assert_eq!(output.status.code(), Some(1), "{words:?}");
        assert!(stderr(&output).contains("the trace is empty"));
    }
}

#[test]
fn a_move_behind_the_end_of_a_trace_is_refused() {
    let trace = "gen:zipf,blocks=1k,requests=20k,rate=1000";
    let moved = |before: &str| {
        run(hearth()
            .args(["sim", "migrate", trace, "--strategy", "live,none", "--json"])
            .args(["--before", before, "--ahead", "2s", "--after", "5s"]))
    };
    let output = moved("60s");
    assert_eq!(output.status.code(), Some(2), "{}", stdout(&output));
    let said = stderr(&output);
    assert!(said.contains("a smaller --before and --ahead"), "{said}");
    let output = moved("5s");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let moves: Vec<Value> = serde_json::from_str(&stdout(&output)).unwrap();
    let hits = |at: usize| moves[at]["hit_ratio_after"].as_f64().unwrap();
    assert!(hits(0) > hits(1), "{moves:?}");
}

#[test]
fn miners_are_tried_alone_and_at_one_price() {
    let trace = "gen:sequential,blocks=64k,requests=4k,size=16KiB,run=1MiB,reads=1";
    let output = run(hearth()
        .args(["sim", "prefetch", trace, "--prefetch", "readahead,vip"])
        .args(["--ram", "1MiB,2MiB", "--ram-policy", "fifo", "--json"]));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let rows: Vec<Value> = serde_json::from_str(&stdout(&output)).unwrap();
    let tried: Vec<_> = rows
        .iter()
        .map(|row| row["prefetch"].as_str().unwrap())
        .collect();
    let of_size = ["none", "sequential", "readahead", "vip", "readahead,vip"];
    assert_eq!(tried, of_size.repeat(2));
    let hits = |at: usize| rows[at]["read_hits"].as_u64().unwrap();
    assert!(
        hits(0) < 100 && hits(2) > 3_000 && hits(4) > 3_000,
        "{rows:?}"
    );
    assert_eq!(rows[0]["precision"], Value::Null);
    let output = run(hearth().args(["sim", "prefetch", trace, "--prefetch", "readhead"]));
    assert_eq!(output.status.code(), Some(2));
    let said = stderr(&output);
    assert!(said.contains("did you mean 'readahead'?"), "{said}");
}
