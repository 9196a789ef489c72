//! `hearth mrc` and `hearth advise`: JSON for scripts, words for people, errors with remedies.

use crate::rig::{hearth, run, stderr, stdout};
use serde_json::Value;
use std::path::PathBuf;

/// A trace of keys that loops over `blocks` blocks, `rounds` times, as text.
fn looped(folder: &tempfile::TempDir, blocks: u32, rounds: u32) -> PathBuf {
    let path = folder.path().join("loop.txt");
    let mut round: String = (0..blocks)
        .map(|key| key.to_string())
        .collect::<Vec<_>>()
        .join("\n");
    round.push('\n');
    std::fs::write(&path, round.repeat(rounds as usize)).unwrap();
    path
}

fn json(words: &[&str], trace: &PathBuf) -> Value {
    let output = run(hearth().args(words).arg(trace).arg("--json"));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    serde_json::from_str(&stdout(&output)).unwrap()
}

#[test]
fn a_loop_misses_until_all_of_it_fits() {
    let folder = tempfile::tempdir().unwrap();
    let trace = looped(&folder, 100, 10);
    let words = [
        "mrc",
        "--format",
        "text",
        "--exact",
        "--sizes",
        "99blk,100blk",
    ];
    let curve = &json(&words, &trace)[0];
    assert_eq!(curve["method"], "exact");
    assert_eq!(curve["accesses"], 1000);
    assert_eq!(curve["footprint_blocks"], 100);
    assert_eq!(curve["knee_blocks"], Value::Null);
    assert_eq!(curve["points"][0]["miss_ratio"], 1.0);
    assert_eq!(curve["points"][1]["size_blocks"], 100);
    assert_eq!(curve["points"][1]["miss_ratio"], 0.1);
}

#[test]
fn other_policies_are_simulated_at_the_sizes_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let trace = looped(&folder, 1000, 10);
    let words = [
        "mrc",
        "--format",
        "text",
        "--policy",
        "lru,arc,lirs",
        "--sizes",
        "50%",
    ];
    let curves = json(&words, &trace);
    let ratio = |place: usize| curves[place]["points"][0]["miss_ratio"].as_f64().unwrap();
    assert_eq!(curves[2]["method"], "miniature");
    assert!(ratio(0) > 0.999, "lru misses a loop that is too long");
    assert!(ratio(2) < 0.6, "lirs does not: {}", ratio(2));
}

#[test]
fn people_get_a_plot_and_a_table_and_csv_has_every_point() {
    let folder = tempfile::tempdir().unwrap();
    let trace = looped(&folder, 100, 10);
    let csv = folder.path().join("curve.csv");
    let report = folder.path().join("curve.html");
    let output = run(hearth()
        .args(["mrc", "--format", "text", "--sample", "0.5", "--report"])
        .arg(&report)
        .arg("--csv")
        .args([&csv, &trace]));
    let page = std::fs::read_to_string(report).unwrap();
    assert_eq!(page.matches("<figure>").count(), 2);
    let text = stdout(&output);
    assert!(text.contains("100% |*"), "{text}");
    assert!(text.contains("MISS RATIO"), "{text}");
    assert!(text.contains("sampled blocks only"), "{text}");
    let csv = std::fs::read_to_string(csv).unwrap();
    assert!(csv.starts_with("trace,volume,policy,method,sampled_rate,writes,size_blocks"));
    assert!(csv.lines().count() > 20);
}

#[test]
fn advice_says_what_pays_and_what_the_trace_cannot_tell() {
    let folder = tempfile::tempdir().unwrap();
    let trace = looped(&folder, 100, 20);
    let words = ["advise", "--format", "text", "--policy", "lru"];
    let advice = &json(&words, &trace)[0];
    assert_eq!(advice["pays"], true);
    // The loop fits in 100 blocks: it is the knee, and nothing larger hits more.
    let advised = &advice["advised"];
    assert_eq!(advised["size_blocks"], 100);
    assert_eq!(advice["knee_blocks"], Value::Null, "nobody can see twice");
    assert_eq!(advice["cautions"][0]["kind"], "no-time");
    assert!(advised["origin_time_saved"].as_f64().unwrap() > 0.9);
    let output = run(hearth().args(words).arg(&trace));
    assert!(
        stdout(&output).contains("Give it 400KiB"),
        "{}",
        stdout(&output)
    );
}

#[test]
fn advice_is_about_the_daemon_and_says_what_more_would_gain() {
    let folder = tempfile::tempdir().unwrap();
    let trace = looped(&folder, 2000, 20);
    let words = ["advise", "--format", "text"];
    let advice = &json(&words, &trace)[0];
    let assumed = &advice["assumed"];
    assert_eq!(assumed["policy"], "daemon");
    assert_eq!(assumed["simulated_rate"], 1.0);
    let (advised, larger) = (&advice["advised"], &advice["larger"]);
    let size = |of: &Value| of["size_blocks"].as_u64().unwrap();
    assert!(size(advised) > 1000, "{advised}");
    for (larger, times) in larger.as_array().unwrap().iter().zip([2, 4]) {
        assert!(size(larger) <= times * size(advised), "{larger}");
        assert!(larger["read_hit_ratio"].as_f64() >= advised["read_hit_ratio"].as_f64());
    }
    let output = run(hearth().args(words).arg(&trace));
    let text = stdout(&output);
    assert!(text.contains("what hearth serve does by default"), "{text}");
    assert!(text.contains("The origin saves"), "{text}");
}

#[test]
fn a_part_of_a_trace_stands_for_the_whole() {
    let folder = tempfile::tempdir().unwrap();
    let trace = looped(&folder, 100_000, 4);
    let of = |sample: &[&str]| {
        let words = [&["advise", "--format", "text"][..], sample].concat();
        json(&words, &trace)[0].clone()
    };
    let (whole, part) = (of(&[]), of(&["--sample", "0.25"]));
    assert_eq!(part["assumed"]["simulated_rate"], 0.25);
    for key in ["read_hit_ratio", "flash_bytes"] {
        let [whole, part] = [&whole, &part].map(|of| of["advised"][key].as_f64().unwrap());
        assert!(
            (part / whole - 1.0).abs() < 0.15,
            "{key}: {part} of {whole}"
        );
    }
}

#[test]
fn advice_on_a_scan_is_to_leave_it_uncached() {
    let folder = tempfile::tempdir().unwrap();
    let trace = looped(&folder, 1000, 1);
    let output = run(hearth().args(["advise", "--format", "text"]).arg(&trace));
    assert!(stdout(&output).contains("not one read could hit"));
}

#[test]
fn wrong_arguments_say_what_would_be_right() {
    let folder = tempfile::tempdir().unwrap();
    let trace = looped(&folder, 100, 1);
    for (words, expected) in [
        (&["mrc", "--sample", "2"][..], "at most 1"),
        (&["mrc", "--policy", "belady"], "hearth sim"),
        (&["mrc", "--exact", "--samples", "9"], "cannot be used with"),
        (
            &["mrc", "--format", "text", "--sizes", "0.001%"],
            "holds no block",
        ),
        (&["advise", "--drive-size", "1TiB"], "--dwpd 1"),
        (
            &[
                "mrc", "--format", "text", "--policy", "arc", "--sample", "0.01", "--sizes",
                "50blk",
            ],
            "sample more",
        ),
    ] {
        let output = run(hearth().args(words).arg(&trace));
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(stderr(&output).contains(expected), "{}", stderr(&output));
    }
    let missing = run(hearth().args(["mrc", "--format", "text", "/nonexistent/trace"]));
    assert_eq!(missing.status.code(), Some(1));
}

#[test]
fn an_anonymous_trace_has_the_same_curves_and_none_of_the_names() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let row = |step: u64| {
        let block = step * step % 1777;
        let vm = if step.is_multiple_of(3) {
            "payroll"
        } else {
            "mail"
        };
        let (offset, length) = (block * 65536, 4096 * (1 + step % 3));
        format!("{step},{vm},root,read,{offset},{length}\n")
    };
    let mut rows = "time_us,vm,volume,op,offset_bytes,length_bytes\n".to_owned();
    rows.extend((0..4000).map(row));
    std::fs::write(at("plain.csv"), rows).unwrap();
    std::fs::write(at("key"), "5a".repeat(32)).unwrap();
    let anonymize = |to: &str| {
        let output = run(hearth()
            .args(["trace", "anonymize"])
            .arg(at("plain.csv"))
            .arg("-o")
            .arg(at(to))
            .arg("--key")
            .arg(at("key")));
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        std::fs::read_to_string(at(to)).unwrap()
    };
    let text = anonymize("hidden.csv");
    for name in ["payroll", "mail", "root", "plain"] {
        assert!(!text.contains(name), "{name} is in the anonymous trace");
    }
    assert_eq!(text, anonymize("again.csv"), "one key, one result");
    let exact = ["--exact", "--sizes", "64blk,512blk,2048blk"];
    let simulated = ["--policy", "s3-fifo,arc", "--sizes", "64blk,512blk"];
    for words in [&exact[..], &simulated] {
        let words = [&["mrc"], words].concat();
        let points = |name: &str| json(&words, &at(name))[0]["points"].clone();
        assert_eq!(points("plain.csv"), points("hidden.csv"), "{words:?}");
    }
}
