//! `hearth trace` with what users get wrong: what is wrong, where, and what to do.

use anyhow::{Context, ensure};
use e2e::{hearth_program, scenario};
use serde_json::Value;
use std::process::Command;

/// Exit code, standard output and what was complained about.
fn hearth(words: &[&str]) -> anyhow::Result<(i32, String, String)> {
    let output = Command::new(hearth_program()?)
        .args(words)
        .output()
        .context("running hearth")?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let code = output.status.code().context("it ended by a signal")?;
    Ok((code, text(&output.stdout), text(&output.stderr)))
}

/// Runs a command that must end with this code and complain in these words.
fn refused(words: &[&str], code: i32, complaint: &[&str]) -> anyhow::Result<()> {
    let (found, _, stderr) = hearth(words)?;
    ensure!(found == code, "{words:?} ended with {found}: {stderr}");
    for part in complaint {
        ensure!(
            stderr.contains(part),
            "{words:?} does not say {part:?}: {stderr}"
        );
    }
    Ok(())
}

#[test]
fn wrong_files_columns_and_names_are_told_with_their_place_and_remedy() {
    scenario(&[], |lab| {
        let at = |name: &str| lab.path(name).display().to_string();
        refused(
            &["trace", "info", &at("none.csv")],
            1,
            &["none.csv", "check the path"],
        )?;
        lab.write("noise.bin", "no trace at all, whatever one thinks of it\n")?;
        refused(
            &["trace", "info", &at("noise.bin")],
            2,
            &["no known format", "hearth trace formats"],
        )?;
        lab.write("x.csv", "1,7,4096\n2,seven,4096\n")?;
        let columns = "time-col=1,obj-id-col=2,obj-size-col=9";
        refused(
            &[
                "trace",
                "info",
                &at("x.csv"),
                "--format",
                "csv",
                "--columns",
                columns,
            ],
            1,
            &["x.csv", "line 1"],
        )?;
        refused(
            &["trace", "info", &at("x.csv"), "--columns", "obj-col=1"],
            2,
            &["obj-col"],
        )?;
        lab.write(
            "cut.csv",
            "time_us,vm,volume,op,offset_bytes,length_bytes\n1,a,b,read,0,512\n2,a,b,read,4096,5",
        )?;
        refused(
            &["trace", "info", &at("cut.csv")],
            1,
            &["line 3", "ends within the record"],
        )?;
        refused(
            &["trace", "info", "gen:zipff"],
            2,
            &["zipff", "zipf, zoned"],
        )?;
        refused(
            &["trace", "generate", "zipf,blocks=0", "-o", &at("y.csv")],
            2,
            &["blocks=0"],
        )?;
        refused(&["trace", "record"], 2, &["--output"])?;
        ensure!(!lab.path("y.csv").exists());
        Ok(())
    });
}

#[test]
fn an_existing_file_is_replaced_only_by_force() {
    scenario(&[], |lab| {
        let output = lab.path("a.csv").display().to_string();
        let generate = [
            "trace",
            "generate",
            "loop,requests=100",
            "--output",
            &output,
        ];
        ensure!(hearth(&generate)?.0 == 0);
        let first = std::fs::read(&output)?;
        refused(&generate, 4, &["exists already", "--force"])?;
        let other = [
            "trace",
            "convert",
            "gen:uniform,requests=50",
            "--output",
            &output,
        ];
        refused(&other, 4, &["exists already"])?;
        ensure!(std::fs::read(&output)? == first, "it was touched");
        ensure!(hearth(&[&other[..], &["--force"]].concat())?.0 == 0);
        ensure!(std::fs::read(&output)? != first, "it was not replaced");
        refused(
            &[
                "trace",
                "convert",
                "gen:loop",
                "--output",
                &lab.path("a.txt").display().to_string(),
            ],
            2,
            &["--to"],
        )?;
        let left = std::fs::read_dir(lab.folder())?.count();
        ensure!(left == 1, "{left} files");
        Ok(())
    });
}

#[test]
fn a_trace_goes_through_every_format_and_stays_the_same() {
    scenario(&[], |lab| {
        let at = |name: &str| lab.path(name).display().to_string();
        let kind = "base-image,requests=20k,vms=3,seed=5";
        let facts = |trace: &str| -> anyhow::Result<Value> {
            let (code, stdout, stderr) = hearth(&["trace", "info", trace, "--json"])?;
            ensure!(code == 0, "{stderr}");
            Ok(serde_json::from_str(&stdout)?)
        };
        let made = facts(&format!("gen:{kind}"))?;
        ensure!(made["requests"] == 20_000, "{made}");
        ensure!(
            made["volumes"]
                .as_array()
                .is_some_and(|volumes| volumes.len() == 6)
        );
        let first = at("a.csv.zst");
        ensure!(hearth(&["trace", "generate", kind, "-o", &first])?.0 == 0);
        let mut from = first.clone();
        for name in ["b.parquet", "c.csv", "d.oracleGeneral.bin.zst"] {
            let to = at(name);
            let (code, _, stderr) = hearth(&["trace", "convert", &from, "-o", &to])?;
            ensure!(code == 0, "{stderr}");
            let found = facts(&to)?;
            // A trace of keys, too, has one of them for a block of the image, whoever reads it.
            for fact in ["accesses", "blocks"] {
                ensure!(
                    found["footprint"][fact] == made["footprint"][fact],
                    "{name}: {fact}"
                );
            }
            from = to;
        }
        let found = facts(&at("c.csv"))?;
        for fact in [
            "operations",
            "sizes",
            "arrival",
            "reuse",
            "sequentiality",
            "volumes",
        ] {
            ensure!(found[fact] == made[fact], "{fact}: {found}");
        }
        Ok(())
    });
}
