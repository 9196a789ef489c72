//! `cargo xtask instructions`: what a read hit costs the engine, counted in instructions.
//!
//! Times on a machine with neighbours say nothing about a change of a few percent; instructions,
//! counted by callgrind, are the same on every run. The cache's benchmark `engine` is built as it
//! is released and run as `engine counted`; what happens inside of its function `counted_hits` is
//! counted and compared with the number in [`RECORD`]: once without tenants, once with them.
//!
//! The number depends on the compiler and, by the checksum's choice of code, on the processor's
//! kind: it is recorded for each architecture, with the compiler's version beside it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};
use toml::{Table, Value};

/// Where the numbers are.
const RECORD: &str = "crates/cache/benches/instructions.toml";

/// By how much a hit may cost more than recorded: what other code in the same binary moves by
/// being laid out and inlined otherwise.
const GROWTH_MAX_PERCENT: f64 = 3.0;

/// By how much less it has to cost before that is pointed out.
const SHRINKAGE_PERCENT: f64 = 3.0;

const HEADING: &str = "\
# Instructions of a 4 KiB read hit in the engine, checksum included, by architecture: without tenants,
# and with them and one block in 32 in its samples.
# Written by `cargo xtask instructions --record`; `cargo xtask ci` fails if a hit costs 3 % more.
";

/// A way in which hits are counted.
struct Way {
    /// Its key in the record.
    key: &'static str,
    name: &'static str,
    arguments: &'static [&'static str],
}

const WAYS: [Way; 2] = [
    Way {
        key: "hit",
        name: "without tenants",
        arguments: &["counted"],
    },
    Way {
        key: "hit_with_tenants",
        name: "with tenants",
        arguments: &["counted", "tenants"],
    },
];

/// What was recorded.
#[derive(Clone, Debug, PartialEq)]
struct Recorded {
    /// Of each of [`WAYS`].
    hits: [f64; WAYS.len()],
    rustc: String,
}

/// Counts, and compares with what was recorded or records it.
///
/// # Errors
/// If a hit costs more than it may, or nothing could be counted.
pub(crate) fn run(root: &Path, record: bool) -> anyhow::Result<()> {
    if !is_here("valgrind") {
        ensure!(
            std::env::var_os("CI").is_none(),
            "valgrind is not installed; run `make setup`"
        );
        println!("skipped: valgrind is not installed (`make setup` installs it)");
        return Ok(());
    }
    let program = build(root)?;
    let mut hits = [0.0; WAYS.len()];
    for (way, hit) in WAYS.iter().zip(&mut hits) {
        *hit = count(&program, way)?;
    }
    let rustc = compiler()?;
    let path = root.join(RECORD);
    let mut table: Table = match std::fs::read_to_string(&path) {
        Ok(text) => text.parse().context(RECORD)?,
        Err(_) => Table::new(),
    };
    let architecture = std::env::consts::ARCH;
    if record {
        let counted = WAYS.iter().zip(hits).map(|(way, hit)| {
            println!("{}: {hit:.1} instructions a hit", way.name);
            let rounded = (hit * 10.0).round() / 10.0;
            (way.key.to_owned(), Value::Float(rounded))
        });
        let mut entry: Table = counted.collect();
        entry.insert("rustc".to_owned(), Value::String(rustc));
        table.insert(architecture.to_owned(), Value::Table(entry));
        let text = format!("{HEADING}\n{table}");
        std::fs::write(&path, text).with_context(|| format!("writing {RECORD}"))?;
        println!("recorded in {RECORD}");
        return Ok(());
    }
    let Some(recorded) = recorded(&table, architecture) else {
        bail!(
            "{RECORD} lacks numbers for {architecture}; `cargo xtask instructions --record` counts them"
        );
    };
    for (way, hit) in hits.into_iter().enumerate() {
        println!("{}", judge(way, hit, &recorded, &rustc)?);
    }
    Ok(())
}

fn is_here(program: &str) -> bool {
    let asked = Command::new(program).arg("--version").output();
    asked.is_ok_and(|output| output.status.success())
}

fn compiler() -> anyhow::Result<String> {
    let output = Command::new("rustc").arg("--version").output();
    let output = output.context("running rustc")?;
    let version = String::from_utf8_lossy(&output.stdout);
    let number = version.split_whitespace().nth(1);
    Ok(number.unwrap_or("unknown").to_owned())
}

/// Builds the benchmark; its program.
fn build(root: &Path) -> anyhow::Result<PathBuf> {
    let output = Command::new("cargo")
        .args([
            "bench",
            "--locked",
            "--package",
            "cache",
            "--bench",
            "engine",
        ])
        .args(["--no-run", "--message-format", "json-render-diagnostics"])
        .current_dir(root)
        .stderr(std::process::Stdio::inherit())
        .output()
        .context("running cargo bench")?;
    ensure!(output.status.success(), "the benchmark does not build");
    let messages = String::from_utf8_lossy(&output.stdout);
    program(&messages).context("cargo names no program for the benchmark")
}

/// The program of the benchmark among cargo's messages, a JSON object each.
fn program(messages: &str) -> Option<PathBuf> {
    let is_it = |line: &&str| line.contains("\"name\":\"engine\"");
    let line = messages.lines().filter(is_it).find_map(|line| {
        let (_, rest) = line.split_once("\"executable\":\"")?;
        rest.split('"').next()
    });
    line.map(PathBuf::from)
}

/// Instructions of a hit.
fn count(program: &Path, way: &Way) -> anyhow::Result<f64> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg("--toggle-collect=*counted_hits*")
        .arg(program)
        .args(way.arguments)
        .output()
        .context("running valgrind")?;
    let (said, told) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    ensure!(output.status.success(), "the count failed:\n{told}");
    let instructions = number_behind(&told, "Collected :").context("callgrind says no number")?;
    let hits = number_behind(&said, "hits ").context("the benchmark says no number of hits")?;
    ensure!(
        hits > 0.0 && instructions > hits,
        "callgrind counted {instructions} instructions for {hits} hits; is `counted_hits` still its own function?"
    );
    Ok(instructions / hits)
}

fn number_behind(text: &str, mark: &str) -> Option<f64> {
    let (_, rest) = text.split_once(mark)?;
    rest.split_whitespace().next()?.parse().ok()
}

fn recorded(table: &Table, architecture: &str) -> Option<Recorded> {
    let entry = table.get(architecture)?;
    let mut hits = [0.0; WAYS.len()];
    for (way, hit) in WAYS.iter().zip(&mut hits) {
        *hit = entry.get(way.key)?.as_float()?;
    }
    Some(Recorded {
        hits,
        rustc: entry.get("rustc")?.as_str()?.to_owned(),
    })
}

/// What to say of a count.
///
/// # Errors
/// If it is more than it may be.
fn judge(way: usize, hit: f64, recorded: &Recorded, rustc: &str) -> anyhow::Result<String> {
    let (name, before) = (WAYS[way].name, recorded.hits[way]);
    let percent = (hit / before - 1.0) * 100.0;
    let compared =
        format!("{name}: {hit:.1} instructions a hit, {percent:+.1} % of the recorded {before:.1}");
    if percent > GROWTH_MAX_PERCENT {
        let compiler = if rustc == recorded.rustc {
            String::new()
        } else {
            format!(" (with rustc {rustc}; recorded with {})", recorded.rustc)
        };
        bail!(
            "{compared}{compiler}: at most {GROWTH_MAX_PERCENT} % more are allowed. If that is meant, \
             `cargo xtask instructions --record` and say why in the commit"
        );
    }
    if percent < -SHRINKAGE_PERCENT {
        return Ok(format!(
            "{compared}: `cargo xtask instructions --record` keeps it so"
        ));
    }
    Ok(compared)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded_1000() -> Recorded {
        Recorded {
            hits: [1000.0, 2000.0],
            rustc: "1.95.0".to_owned(),
        }
    }

    #[test]
    fn three_percent_more_pass_and_four_fail() {
        assert!(judge(0, 1029.9, &recorded_1000(), "1.95.0").is_ok());
        let failed = judge(0, 1040.0, &recorded_1000(), "1.95.0").unwrap_err();
        assert!(failed.to_string().contains("+4.0 %"), "{failed}");
        assert!(!failed.to_string().contains("rustc"), "{failed}");
        let tenants = judge(1, 2080.0, &recorded_1000(), "1.95.0").unwrap_err();
        assert!(tenants.to_string().contains("with tenants"), "{tenants}");
        assert!(judge(1, 2040.0, &recorded_1000(), "1.95.0").is_ok());
        let other = judge(0, 1040.0, &recorded_1000(), "1.96.0").unwrap_err();
        assert!(other.to_string().contains("recorded with 1.95.0"));
    }

    #[test]
    fn fewer_are_to_be_kept() {
        let said = judge(0, 900.0, &recorded_1000(), "1.95.0").unwrap();
        assert!(said.contains("--record"), "{said}");
        let said = judge(0, 990.0, &recorded_1000(), "1.95.0").unwrap();
        assert!(!said.contains("--record"), "{said}");
    }

    #[test]
    fn what_the_tools_say_is_understood() {
        let told = "==7== Events    : Ir\n==7== Collected : 468993627\n";
        assert_eq!(number_behind(told, "Collected :"), Some(468_993_627.0));
        assert_eq!(number_behind("hits 100000\n", "hits "), Some(100_000.0));
        let messages = "{\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"cache\"},\"executable\":null}\n\
                        {\"target\":{\"name\":\"engine\",\"x\":1},\"executable\":\"/t/engine-1\",\"fresh\":true}\n";
        assert_eq!(program(messages), Some(PathBuf::from("/t/engine-1")));
    }

    #[test]
    fn the_record_has_a_number_for_this_architecture() {
        let table: Table = include_str!("../../../crates/cache/benches/instructions.toml")
            .parse()
            .unwrap();
        let x86 = recorded(&table, "x86_64").unwrap();
        assert!(x86.hits.iter().all(|hit| *hit > 100.0));
        assert!(x86.hits[1] > x86.hits[0], "tenants are not free");
    }
}
