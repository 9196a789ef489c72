//! `hearth group plan`, `hearth sim groups` and `hearth traffic`: plans for scripts, pictures, and input that is refused.

use crate::rig::{hearth, run, stderr, stdout};
use serde_json::Value;
use std::path::{Path, PathBuf};

const TRAFFIC: &str =
    "vm,vm,bytes_per_second\nweb,db,100MiB/s\nshop,log,90MiB/s\ndb,log,1MiB/s\nweb,<b>,1\n";
const LOADS: &str = "web,1GiB,1MiB/s\nshop,1GiB,1MiB/s\ndb,4GiB,9MiB/s\nlog,2GiB,0\n";

fn files(folder: &Path) -> [PathBuf; 2] {
    let paths = [folder.join("traffic.csv"), folder.join("vms.csv")];
    std::fs::write(&paths[0], TRAFFIC).unwrap();
    std::fs::write(&paths[1], LOADS).unwrap();
    paths
}

fn plan(folder: &Path, words: &[&str]) -> std::process::Output {
    let [traffic, loads] = files(folder);
    run(hearth()
        .args(["group", "plan", "--link-rate", "1Gbit", "--traffic"])
        .arg(traffic)
        .arg("--vms")
        .arg(loads)
        .args(words))
}

fn json(output: &std::process::Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{}", stderr(output));
    serde_json::from_str(&stdout(output)).unwrap()
}

fn names(wave: &Value) -> Vec<&str> {
    let vms = wave["vms"].as_array().unwrap();
    vms.iter().map(|vm| vm["vm"].as_str().unwrap()).collect()
}

#[test]
fn vms_that_talk_cross_together() {
    let folder = tempfile::tempdir().unwrap();
    let answer = json(&plan(
        folder.path(),
        &["--sizes", "2", "--to", "a,b", "--compare", "--json"],
    ));
    let waves = answer["waves"].as_array().unwrap();
    let mut found = [names(&waves[0]), names(&waves[1])];
    found.sort();
    assert_eq!(found, [["shop", "log"], ["web", "db"]]);
    assert_eq!(answer["converges"], true);
    assert_eq!(answer["vms_that_stay"], 1);
    // What is split is a MiB a second, while the second wave crosses.
    let split = answer["volume_bytes"].as_f64().unwrap();
    let second = waves[1]["time_seconds"].as_f64().unwrap();
    assert!((split / (second * 1_048_576.0) - 1.0).abs() < 1e-9);
    assert_eq!(answer["methods"].as_array().unwrap().len(), 6);
    let hosts: Vec<&Value> = waves[0]["vms"]
        .as_array()
        .unwrap()
        .iter()
        .map(|vm| &vm["to"])
        .collect();
    assert_ne!(hosts[0], hosts[1]);
}

#[test]
fn a_wave_ends_together_and_shares_the_link() {
    let folder = tempfile::tempdir().unwrap();
    let answer = json(&plan(
        folder.path(),
        &["web", "db", "--sizes", "2", "--json"],
    ));
    let vms = answer["waves"][0]["vms"].as_array().unwrap();
    let sum: f64 = vms
        .iter()
        .map(|vm| vm["bandwidth_bytes_per_second"].as_f64().unwrap())
        .sum();
    assert!((sum / 125e6 - 1.0).abs() < 1e-9);
    assert_eq!(vms[0]["time_seconds"], vms[1]["time_seconds"]);
}

#[test]
fn what_does_not_converge_is_named_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let [traffic, loads] = files(folder.path());
    let output = run(hearth()
        .args([
            "group",
            "plan",
            "--link-rate",
            "10MiB/s",
            "--sizes",
            "4",
            "--traffic",
        ])
        .arg(traffic)
        .arg("--vms")
        .arg(loads));
    let text = stdout(&output);
    assert!(
        text.contains("wave 1 does not converge: with db it makes"),
        "{text}"
    );
    assert!(text.contains("--sizes auto"), "{text}");
}

#[test]
fn a_picture_has_each_vm_and_replaces_no_input() {
    let folder = tempfile::tempdir().unwrap();
    let picture = folder.path().join("plan.svg");
    let path = picture.to_str().unwrap();
    plan(folder.path(), &["--svg", path]);
    let svg = std::fs::read_to_string(&picture).unwrap();
    assert!(svg.starts_with("<svg") && svg.matches("<circle").count() == 4);
    let input = folder.path().join("vms.csv");
    let refused = plan(folder.path(), &["--svg", input.to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(2));
    assert_eq!(std::fs::read_to_string(input).unwrap(), LOADS);
}

#[test]
fn wrong_input_is_refused_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    for (words, code, said) in [
        (&["nobody"][..], 6, "does not have the VM 'nobody'"),
        (&["--sizes", "3,3"], 2, "add up to 6, but 4 VMs move"),
        (&["--sizes", "0"], 2, "gives no sizes"),
        (&["--method", "luck"], 2, "invalid value 'luck'"),
    ] {
        let output = plan(folder.path(), words);
        assert_eq!(output.status.code(), Some(code), "{words:?}");
        assert!(stderr(&output).contains(said), "{}", stderr(&output));
    }
    let [traffic, loads] = files(folder.path());
    std::fs::write(&traffic, "a,b,1\na,b,NaN\n").unwrap();
    let output = run(hearth()
        .args(["group", "plan", "--link-rate", "1Gbit", "--traffic"])
        .arg(&traffic)
        .arg("--vms")
        .arg(loads));
    assert!(
        stderr(&output).contains("line 2: 'NaN' is not a rate"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn the_simulation_tells_each_seed() {
    let folder = tempfile::tempdir().unwrap();
    let csv = folder.path().join("groups.csv");
    let output = run(hearth()
        .args([
            "sim",
            "groups",
            "gen:gravity,vms=10",
            "--sizes",
            "2,5",
            "--clusters",
            "2",
            "--seeds",
            "2",
        ])
        .args(["--json", "--csv"])
        .arg(&csv));
    let rows = json(&output);
    let rows = rows.as_array().unwrap();
    let of = |table: &str| rows.iter().filter(|row| row["table"] == table).count();
    assert_eq!(of("saved against serial"), 8);
    assert_eq!(of("saved against random, sizes of k-means"), 4);
    assert_eq!(of("above the optimum"), 12);
    assert_eq!(of("saved against serial, unequal VMs"), 8);
    let lines = std::fs::read_to_string(csv).unwrap().lines().count();
    assert_eq!(lines, 1 + rows.len() * 2);
}

#[test]
fn the_simulation_takes_a_matrix_of_ones_own() {
    let folder = tempfile::tempdir().unwrap();
    let [traffic, _] = files(folder.path());
    let output = run(hearth()
        .args(["sim", "groups", "--seeds", "1", "--sizes", "2"])
        .arg(traffic));
    let text = stdout(&output);
    assert!(
        text.contains("above the optimum") && text.contains("annealed"),
        "{text}"
    );
    let refused = run(hearth().args(["sim", "groups", "gen:star"]));
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        stderr(&refused).contains("gen:gravity"),
        "{}",
        stderr(&refused)
    );
}

#[test]
fn traffic_needs_a_source_that_speaks() {
    let folder = tempfile::tempdir().unwrap();
    let addresses = folder.path().join("addresses.csv");
    std::fs::write(&addresses, "web,10.0.0.1\ndb,10.0.0.2\n").unwrap();
    let traffic = |words: &[&str]| {
        run(hearth()
            .args(["traffic", "--addresses"])
            .arg(&addresses)
            .args(words))
    };
    assert_eq!(traffic(&[]).status.code(), Some(2));
    let silent = traffic(&["--sflow", "127.0.0.1:0", "--for", "100ms"]);
    assert_eq!(silent.status.code(), Some(1));
    assert!(
        stderr(&silent).contains("no sFlow datagram came"),
        "{}",
        stderr(&silent)
    );
    let table = folder.path().join("nf_conntrack");
    let line = "ipv4 2 tcp 6 1 src=10.0.0.1 dst=10.0.0.2 sport=1 dport=2 src=10.0.0.2 dst=10.0.0.1 sport=2 dport=1\n";
    std::fs::write(&table, line).unwrap();
    let uncounted = traffic(&["--for", "100ms", "--conntrack", table.to_str().unwrap()]);
    assert!(
        stderr(&uncounted).contains("nf_conntrack_acct=1"),
        "{}",
        stderr(&uncounted)
    );
}
