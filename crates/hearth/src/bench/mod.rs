//! `hearth bench`: a load on a vhost-user device, an NBD export, a file or a device.
//!
//! ```text
//!   args ─► load::Settings ─► load::run (crate `load`) ─► Outcome ─┬─► words
//!                                └─► progress                      └─► fio's JSON
//! ```
//!
//! With `--replay` a trace takes the place of the settings (`replay`).

pub mod args;
mod interrupt;
pub mod replay;
mod words;

use crate::terminal::exit::{CliError, Exit, chain};
use crate::terminal::{Progress, print, to_json};
use args::Bench;
use interrupt::Interrupt;
use load::{LoadError, Outcome, Settings};
use std::ops::ControlFlow;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Carries the load out and returns what to print.
/// `socket` is the daemon's, which a replay asks for the hits of its disk.
pub(crate) fn run(bench: &Bench, socket: &Path, json: bool) -> Result<Vec<u8>, CliError> {
    if let Some(trace) = &bench.replay.replay {
        return replay::run(bench, trace, socket, json);
    }
    let settings = bench.settings();
    let mut progress = Progress::new("loading");
    let interrupt = Interrupt::listen();
    let outcome = load::run(&settings, &mut |now| {
        match now.bytes_total {
            Some(total) => progress.at(now.bytes.min(total), total),
            None => progress.count_of(now.requests, "requests"),
        }
        if interrupt.came() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    drop(progress);
    let mut outcome = outcome.map_err(|error| explain(&error))?;
    if bench.group_reporting {
        let together = outcome.together();
        outcome = Outcome {
            jobs: vec![together],
        };
    }
    let text = if json {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let seconds = now.map_or(0, |since| since.as_secs());
        let version = concat!("hearth-", env!("CARGO_PKG_VERSION"));
        to_json(&load::report(&settings, &outcome, seconds, version))?
    } else {
        let mut text = String::new();
        words::write(&mut text, &settings, &outcome)
            .map_err(|error| CliError::of(Exit::Failed, &error))?;
        text.into_bytes()
    };
    let failure = match judge(&settings, &outcome) {
        Err(failure) => failure,
        Ok(()) if interrupt.came() => CliError::new(
            Exit::Failed,
            "interrupted: the figures are of what was done until then".to_owned(),
        ),
        Ok(()) => return Ok(text),
    };
    print(&text)?;
    Err(failure)
}

/// What went wrong after the load had begun.
fn judge(settings: &Settings, outcome: &Outcome) -> Result<(), CliError> {
    let verified = outcome.jobs.iter().filter_map(|job| job.verified.as_ref());
    let wrong: u64 = verified.clone().map(|verified| verified.wrong).sum();
    if let Some(first) = verified.flat_map(|verified| &verified.findings).next() {
        let target = &settings.target;
        let message = format!("{target}: {wrong} wrong blocks, the first one {first}");
        let error = CliError::new(Exit::Damaged, message);
        let only_read = !settings.shape.writes();
        return Err(if only_read {
            error.with_remedy(
                "what is only read must have been written with --verify, and the same --randseed and block size",
            )
        } else {
            error
        });
    }
    let failed = outcome.jobs.iter().find_map(|job| job.error.as_ref());
    match failed {
        Some(error) => {
            let message = format!("{}: {}", settings.target, chain(error));
            Err(CliError::new(Exit::Failed, message))
        }
        None => Ok(()),
    }
}

fn explain(error: &LoadError) -> CliError {
    let cli = |exit| CliError::new(exit, chain(error));
    match error {
        LoadError::Unreachable { .. } => cli(Exit::Unreachable).with_remedy(
            "look whether it is there: a path, a listening socket, and the right to use it",
        ),
        LoadError::HungUp { .. } => cli(Exit::Refused).with_remedy(
            "a disk that is written is in use over NBD or over vhost-user, one at a time, and a bench counts as a client: hearth disk show DISK tells who is connected, the daemon's log why it turned this one away",
        ),
        LoadError::Refused { .. } => cli(Exit::Refused),
        LoadError::Unfit { remedy, .. } => cli(Exit::Usage).with_remedy(remedy.0.clone()),
        LoadError::Machine { .. } => cli(Exit::Failed),
    }
}
