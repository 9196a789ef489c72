//! Runs the steps of `ci` and `check`, each with what it is and how long it took.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

/// What a step took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Took {
    /// By the clock.
    pub(crate) elapsed: Duration,
    /// Of all processors, by the step's processes; those that outlive their parents are missing. On a
    /// machine with neighbours this tells more than the clock.
    pub(crate) processor: Duration,
}

impl std::fmt::Display for Took {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (elapsed, processor) = (self.elapsed.as_secs_f64(), self.processor.as_secs_f64());
        write!(formatter, "{elapsed:.0} s ({processor:.0} s of CPU)")
    }
}

/// Whether a tool answers when it is asked for its version.
pub(crate) fn is_present(tool: &[&str]) -> bool {
    let Some((program, arguments)) = tool.split_first() else {
        return false;
    };
    let mut command = Command::new(program);
    let asked = command.args(arguments).arg("--version").output();
    asked.is_ok_and(|output| output.status.success())
}

/// Runs a command in `root`, after it has been printed.
///
/// # Errors
///
/// When it cannot be started, or fails.
pub(crate) fn run(
    root: &Path,
    name: &str,
    command: &[&str],
    environment: &[(&str, &str)],
) -> anyhow::Result<Took> {
    let (program, arguments) = command.split_first().context("a step has a command")?;
    println!("== {name}: {}", command.join(" "));
    let (began, before) = (Instant::now(), processor_of_children());
    let status = Command::new(program)
        .args(arguments)
        .envs(environment.iter().copied())
        .current_dir(root)
        .status()
        .with_context(|| format!("running {program}"))?;
    let took = Took {
        elapsed: began.elapsed(),
        processor: processor_of_children().saturating_sub(before),
    };
    if !status.success() {
        bail!("{name} failed ({status}) after {took}");
    }
    Ok(took)
}

/// What the processes that this one has waited for have used of the processors so far.
fn processor_of_children() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    sums_of_children(&stat)
}

/// User and system time of the children, from a process's line in `/proc`, where they are in hundredths of a second.
fn sums_of_children(stat: &str) -> Duration {
    // The program's name comes first, in parentheses, and may have spaces.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let sums = fields.split_whitespace().skip(13).take(2);
    let hundredths: u64 = sums.filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(hundredths * 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sums_of_the_children_are_the_sixteenth_and_seventeenth_field() {
        let stat = "7 (a (b) c) S 1 7 7 0 -1 4194560 1 2 3 4 50 60 700 80 20 0 1 0 9 9 9\n";
        assert_eq!(sums_of_children(stat), Duration::from_millis(7800));
        assert_eq!(sums_of_children(""), Duration::ZERO);
    }

    #[test]
    fn a_step_that_fails_is_named() {
        let run = |command: &[&str]| run(Path::new("/"), "a step", command, &[]);
        assert!(run(&["true"]).is_ok());
        let error = run(&["false"]).unwrap_err().to_string();
        assert!(error.starts_with("a step failed"), "{error}");
    }
}
