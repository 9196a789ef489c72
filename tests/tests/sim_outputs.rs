//! csv, Parquet, manifest and report are written whole, and the report needs nothing but itself.

use anyhow::{Context, ensure};
use e2e::{hearth, scenario};

#[test]
fn every_output_says_where_it_comes_from() {
    scenario(&[], |lab| {
        let trace = lab
            .write(
                "two.csv",
                "128166372003061629,web,0,Read,0,8192,100\n128166372013061629,web,0,Write,4096,4096,100\n\
                 128166372023061629,web,1,Read,0,4096,100\n",
            )?
            .display()
            .to_string();
        let at = |name: &str| lab.path(name).display().to_string();
        let (csv, parquet, report) = (at("runs.csv"), at("runs.parquet"), at("report.html"));
        let answer = hearth(&[
            "sim",
            &trace,
            "--format",
            "msr",
            "--policy",
            "lru,fifo",
            "--size",
            "1blk,50%",
            "--latency",
            "--csv",
            &csv,
            "--parquet",
            &parquet,
            "--report",
            &report,
        ])?;
        ensure!(answer.code == 0, "{}", answer.stderr);
        ensure!(answer.stdout.contains("MISS RATIO"), "{}", answer.stdout);

        let rows = std::fs::read_to_string(&csv).context("csv")?;
        ensure!(rows.lines().count() == 5, "a header and four runs: {rows}");
        ensure!(
            std::fs::read(&parquet)
                .context("parquet")?
                .starts_with(b"PAR1"),
            "it is Parquet"
        );
        let manifest =
            std::fs::read_to_string(format!("{csv}.manifest.json")).context("manifest")?;
        let manifest: serde_json::Value = serde_json::from_str(&manifest)?;
        ensure!(manifest["program"] == "hearth", "{manifest}");
        ensure!(
            manifest["traces"][0]["xxh3_128"]
                .as_str()
                .is_some_and(|sum| sum.len() == 32),
            "{manifest}"
        );
        ensure!(manifest["parameters"]["sizes"][1] == "50%", "{manifest}");

        let page = std::fs::read_to_string(&report).context("report")?;
        for part in [
            "Miss ratio against size",
            "Hits against flash writes",
            "Hit ratio over time",
            "Latency",
            "Footprint",
            "xxh3_128",
        ] {
            ensure!(page.contains(part), "the report has no {part}");
        }
        for foreign in ["http:", "https:", "<script", "<link", "@import", "url("] {
            ensure!(!page.contains(foreign), "the report needs {foreign}");
        }
        Ok(())
    });
}

#[test]
fn a_file_that_cannot_be_written_is_said_before_anything_is_simulated() {
    scenario(&[], |lab| {
        let trace = lab.write("keys.txt", "1\n2\n1\n")?.display().to_string();
        let nowhere = lab.path("nowhere/runs.csv").display().to_string();
        let answer = hearth(&[
            "sim", &trace, "--policy", "lru", "--size", "1blk", "--csv", &nowhere,
        ])?;
        ensure!(
            answer.code == 2,
            "exit code {}: {}",
            answer.code,
            answer.stderr
        );
        ensure!(
            answer.stderr.contains("nowhere/runs.csv"),
            "{}",
            answer.stderr
        );
        Ok(())
    });
}
