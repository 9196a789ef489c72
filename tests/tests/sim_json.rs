//! `hearth sim --json` is an array with one object a run, and what it says can be worked out by hand.

use anyhow::ensure;
use e2e::{hearth, scenario};

/// Keys 1 2 1 3 2 1 under LRU with two blocks: the second 1 hits; 3 evicts 2, 2 evicts 1, 1 evicts 3.
const KEYS: &str = "1\n2\n1\n3\n2\n1\n";

#[test]
fn a_run_is_an_object_with_the_documented_keys() {
    scenario(&[], |lab| {
        let trace = lab.write("keys.txt", KEYS)?.display().to_string();
        let answer = hearth(&[
            "sim", &trace, "--policy", "lru,fifo", "--size", "2blk", "--json",
        ])?;
        let runs = answer.json()?;
        ensure!(
            runs.as_array().is_some_and(|runs| runs.len() == 2),
            "{runs}"
        );
        let run = &runs[0];
        for (key, expected) in [
            ("trace", serde_json::json!(trace)),
            ("policy", "lru".into()),
            ("size_blocks", 2.into()),
            ("accesses", 6.into()),
            ("hits", 1.into()),
            ("misses", 5.into()),
            ("flash_writes_blocks", 5.into()),
            ("footprint_blocks", 3.into()),
            ("used_blocks_end", 2.into()),
            ("latency_p99_us", serde_json::Value::Null),
        ] {
            ensure!(
                run[key] == expected,
                "{key} is {}, not {expected}",
                run[key]
            );
        }
        let ratio = run["miss_ratio"].as_f64().unwrap_or_default();
        ensure!((ratio - 5.0 / 6.0).abs() < 1e-12, "miss_ratio is {ratio}");
        // FIFO evicts 1 for 3, although it was just used.
        ensure!(
            runs[1]["policy"] == "fifo" && runs[1]["hits"] == 2,
            "{}",
            runs[1]
        );
        Ok(())
    });
}
