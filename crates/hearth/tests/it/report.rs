//! The section on memory and prefetch of a report has the figures of the JSON of the same run.

use crate::rig::{hearth, run, stderr, stdout};
use serde_json::Value;
use std::path::PathBuf;

/// Reads in order, then the same blocks in leaps, twice, and a write now and then.
fn trace(folder: &tempfile::TempDir) -> PathBuf {
    let mut lines = vec!["time_us,vm,volume,op,offset_bytes,length_bytes".to_owned()];
    let mut add = |op: &str, block: u64| {
        let time = lines.len() * 100;
        lines.push(format!("{time},vm,disk,{op},{},4096", block * 4096));
    };
    for block in 0..400 {
        add("read", block);
    }
    for round in 0..800 {
        add("read", round * 37 % 400);
        if round % 50 == 0 {
            add("write", round % 400);
        }
    }
    let path = folder.path().join("some.csv");
    std::fs::write(&path, lines.join("\n") + "\n").unwrap();
    path
}

/// The JSON of a run, and the cells of its report's table on memory.
fn json_and_cells(words: &[&str]) -> (Vec<Value>, Vec<Vec<String>>) {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report.html");
    let output = run(hearth()
        .arg("sim")
        .args(words)
        .arg(trace(&folder))
        .arg("--json")
        .arg("--report")
        .arg(&report));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let page = std::fs::read_to_string(report).unwrap();
    for foreign in ["http:", "https:", "<script", "<link", "url("] {
        assert!(!page.contains(foreign), "the report needs {foreign}");
    }
    assert!(page.contains("xxh3_128"), "it says where it comes from");
    let (_, table) = page.split_once("<table id=\"memory\">").unwrap();
    let (table, _) = table.split_once("</table>").unwrap();
    let rows = table.split("<tr>").skip(2);
    let cell = |cell: &str| {
        let (_, text) = cell.split_once('>').unwrap();
        text.split_once('<').unwrap().0.to_owned()
    };
    let cells = rows.map(|row| row.split("<td").skip(1).map(cell).collect());
    (
        serde_json::from_str(&stdout(&output)).unwrap(),
        cells.collect(),
    )
}

fn percent(value: f64) -> String {
    format!("{:.2}%", value * 100.0)
}

#[test]
fn memory_in_front_is_reported_by_kind() {
    let words = [
        "--policy",
        "lru",
        "--size",
        "100blk",
        "--admission",
        "staging:kind=hybrid,n=1",
        "--staging",
        "20%",
        "--ram",
        "10blk,50blk",
        "--ram-policy",
        "lru,frequency",
    ];
    let (runs, rows) = json_and_cells(&words);
    assert_eq!((runs.len(), rows.len()), (4, 4));
    let count = |run: &Value, key: &str| run[key].as_u64().unwrap();
    let all = |key: &str| runs.iter().map(|run| count(run, key)).sum::<u64>();
    assert!(all("ram_hot_read_hits") > 0, "{runs:#?}");
    assert!(all("ram_read_hits") > all("ram_hot_read_hits"), "{runs:#?}");
    for (run, row) in runs.iter().zip(&rows) {
        let (reads, in_ram) = (count(run, "reads"), count(run, "ram_read_hits"));
        let hot = count(run, "ram_hot_read_hits");
        let expected = [reads, in_ram - hot, 0, hot].map(|number| number.to_string());
        assert_eq!(row[2..6], expected);
        let number = |count: u64| f64::from(u32::try_from(count).unwrap());
        assert_eq!(row[6], percent(number(in_ram) / number(reads)));
        let refused = run["refused"].as_object().unwrap();
        assert!(!refused.is_empty());
        for (reason, blocks) in refused {
            assert!(row[7].contains(&format!("{blocks} {reason}")), "{row:?}");
        }
    }
}

#[test]
fn prefetch_is_reported_with_precision_waste_and_refusals() {
    let words = [
        "prefetch",
        "--prefetch",
        "readahead,sequential:n=8",
        "--ram",
        "256KiB",
        "--bucket",
        "16KiB",
    ];
    let (experiments, rows) = json_and_cells(&words);
    assert_eq!((experiments.len(), rows.len()), (5, 5));
    let count = |of: &Value, key: &str| of[key].as_u64().unwrap();
    for (of, row) in experiments.iter().zip(&rows) {
        let used = count(of, "blocks_used");
        let expected = [
            count(of, "blocks").to_string(),
            "0".to_owned(),
            used.to_string(),
            (count(of, "block_hits") - used).to_string(),
            percent(of["block_hit_ratio"].as_f64().unwrap()),
            count(of, "blocks_prefetched").to_string(),
            used.to_string(),
            count(of, "blocks_wasted").to_string(),
            of["precision"]
                .as_f64()
                .map_or_else(|| "-".to_owned(), percent),
            format!("{:.3}", of["waste"].as_f64().unwrap()),
        ];
        assert_eq!(row[2..12], expected, "{of:#}");
        let refused = match count(of, "guesses_refused") {
            0 => "-".to_owned(),
            guesses => format!("{guesses} by price"),
        };
        assert_eq!(row[13], refused);
    }
    let some = |key: &str| experiments.iter().any(|of| count(of, key) > 0);
    for key in ["blocks_used", "blocks_wasted", "guesses_refused"] {
        assert!(some(key), "no {key}: {experiments:#?}");
    }
}
