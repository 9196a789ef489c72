//! `hearth plan`: loads in a file, rules, and what is refused.

use crate::rig::{hearth, run, stderr, stdout};
use serde_json::Value;

const LOADS: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../fixtures/plan/loads.json"
);

fn planned(words: &[&str]) -> Value {
    let output = run(hearth()
        .args(["plan", "--dry-run", "--json", "--loads", LOADS])
        .args(words));
    assert!(output.status.success(), "{}", stderr(&output));
    serde_json::from_str(&stdout(&output)).unwrap()
}

#[test]
fn a_file_of_loads_is_planned_with() {
    let plan = planned(&[]);
    let moves = plan["moves"].as_array().unwrap();
    assert_eq!(moves.len(), 1, "{plan}");
    assert_eq!(moves[0]["from"], "node-a");
    assert!(moves[0]["expected"]["gain_s"].as_f64() > moves[0]["expected"]["cost_s"].as_f64());
    assert_eq!(plan["short"][0]["host"], "node-d");
    assert!(plan["short"][0]["missing_bytes"].as_u64() > Some(50 << 30));
    let output = run(hearth().args(["plan", "--dry-run", "--loads", LOADS]));
    let text = stdout(&output);
    assert!(text.contains("of flash are missing"), "{text}");
    assert!(text.contains("it is pinned"), "{text}");
}

#[test]
fn options_hold_over_a_file_of_rules() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rules.toml");
    std::fs::write(&path, "windows = 5\n").unwrap();
    let rules = ["--rules", path.to_str().unwrap()];
    // Four windows are known, and five are asked for.
    assert_eq!(planned(&rules)["moves"].as_array().unwrap().len(), 0);
    let both = [rules[0], rules[1], "--windows", "2"];
    assert_eq!(planned(&both)["moves"].as_array().unwrap().len(), 1);
}

#[test]
fn bad_input_is_refused_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("loads.json");
    let text = std::fs::read_to_string(LOADS).unwrap();
    for (from, to, expected) in [
        (
            "\"version\": 1",
            "\"version\": 9",
            "this release reads version 1",
        ),
        ("\"node-b\"", "\"node-a\"", "node-a is there twice"),
        ("0.55", "5.5", "it is a number from 0 to 1"),
        ("\"hosts\"", "\"hots\"", "unknown field `hots`"),
    ] {
        std::fs::write(&path, text.replacen(from, to, 1)).unwrap();
        let output = run(hearth().args(["plan", "--dry-run", "--loads"]).arg(&path));
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains(expected), "{}", stderr(&output));
    }
}
