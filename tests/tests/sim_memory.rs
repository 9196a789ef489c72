//! `hearth sim --memory`: runs that do not fit at once go in turn, what fails costs no other its row, and what is expected is near what is taken.

use anyhow::{Context, ensure};
use e2e::{hearth, scenario};
use serde_json::Value;

/// Two hundred thousand blocks, each asked for once and every third again, and a time that goes on.
fn trace() -> String {
    let line = |block: u64| {
        let time = 128_166_372_000_000_000 + block * 10_000;
        let read = format!("{time},vm,0,Read,{},4096,1\n", block * 4096);
        if block.is_multiple_of(3) {
            return format!("{read}{time},vm,0,Write,{},4096,1\n", block / 3 * 4096);
        }
        read
    };
    (0..200_000).map(line).collect()
}

fn bytes(manifest: &Value, key: &str) -> anyhow::Result<u64> {
    manifest["parameters"]["memory"][key]
        .as_u64()
        .with_context(|| format!("{key}: {manifest}"))
}

#[test]
fn what_is_expected_is_within_a_factor_of_two_of_what_is_taken() {
    scenario(&[], |lab| {
        let trace = lab.write("blocks.csv", &trace())?.display().to_string();
        let manifest = lab.path("manifest.json").display().to_string();
        // Runs in place, of the daemon's log, behind admission, and divided with demand measured exactly.
        let cases: [&[&str]; 4] = [
            &["--policy", "lru,fifo,lirs,s3-fifo,arc,w-tinylfu"],
            &["--policy", "segment-twin-clock,segment-fifo,daemon"],
            &["--policy", "lru", "--admission", "larc,reuse-age,frequency"],
            &[
                "--policy",
                "lru,segment-clock",
                "--allocation",
                "equal,utility",
            ],
        ];
        for case in cases {
            let mut arguments = vec!["sim", &trace, "--size", "10%,50%", "--manifest", &manifest];
            arguments.extend(case);
            let answer = hearth(&arguments)?;
            ensure!(answer.code == 0, "{}", answer.stderr);
            ensure!(answer.stderr.contains("memory: about"), "{}", answer.stderr);
            let manifest: Value = serde_json::from_str(&std::fs::read_to_string(&manifest)?)?;
            let (expected, peak) = (
                bytes(&manifest, "expected_bytes")?,
                bytes(&manifest, "peak_bytes")?,
            );
            ensure!(
                peak / 2 <= expected && expected <= peak * 2,
                "{case:?}: {expected} expected, {peak} taken"
            );
        }
        Ok(())
    });
}

#[test]
fn runs_go_in_turn_within_the_memory_and_what_does_not_fit_is_told() {
    scenario(&[], |lab| {
        let trace = lab.write("blocks.csv", &trace())?.display().to_string();
        let (csv, manifest) = (lab.path("runs.csv"), lab.path("manifest.json"));
        let (csv, manifest) = (csv.display().to_string(), manifest.display().to_string());
        let run = |sizes: &str, memory: &str| {
            hearth(&[
                "sim",
                &trace,
                "--policy",
                "lru,fifo,sieve,clock",
                "--size",
                sizes,
                "--memory",
                memory,
                "--csv",
                &csv,
                "--manifest",
                &manifest,
            ])
        };
        let all = run("10%,50%", "4GiB")?;
        ensure!(all.code == 0, "{}", all.stderr);
        // The last size alone would take more than three gigabytes.
        let some = run("10%,50%,100000000blk", "48MiB")?;
        ensure!(some.code == 1, "exit code {}: {}", some.code, some.stderr);
        ensure!(
            some.stderr.contains("4 of 12 runs have no result"),
            "{}",
            some.stderr
        );
        ensure!(some.stderr.contains("48MiB are allowed"), "{}", some.stderr);
        let rows = std::fs::read_to_string(&csv)?;
        ensure!(rows.lines().count() == 9, "a header and eight runs: {rows}");
        let manifest: Value = serde_json::from_str(&std::fs::read_to_string(&manifest)?)?;
        ensure!(bytes(&manifest, "readings")? > 1, "{manifest}");
        ensure!(
            bytes(&manifest, "expected_bytes")? <= 48 << 20,
            "{manifest}"
        );
        ensure!(
            manifest["parameters"]["failed"]
                .as_array()
                .is_some_and(|failed| failed.len() == 4),
            "{manifest}"
        );
        let none = run("10%", "1MiB")?;
        ensure!(none.code == 2, "exit code {}: {}", none.code, none.stderr);
        ensure!(none.stderr.contains("a larger --memory"), "{}", none.stderr);
        Ok(())
    });
}
