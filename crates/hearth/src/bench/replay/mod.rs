//! `hearth bench --replay`: a recorded load on a disk.
//!
//! ```text
//!   trace ─► select (first reading) ─► may it write? ─► load::replay (second reading) ─┬─► words
//!                                          daemon: counters before │ after             └─► JSON
//! ```

pub mod args;
mod consent;
mod hits;
mod selected;
mod words;

use super::args::Bench;
use super::interrupt::Interrupt;
use crate::terminal::exit::{CliError, Exit, chain};
use crate::terminal::{Progress, print, to_json};
use hits::Hits;
use load::{ReplayOutcome, ReplayReport, ReplaySettings, Speed};
use selected::Selected;
use serde::Serialize;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Requests in flight unless told otherwise: QEMU's default of a virtqueue is 256 descriptors.
const DEPTH: usize = 128;

/// Everything that is told of a replay.
#[derive(Serialize)]
struct Answer {
    #[serde(flatten)]
    report: ReplayReport,
    /// The trace as it was given.
    trace: String,
    /// The VM whose requests were replayed; empty where the trace does not say.
    vm: String,
    /// Their volume.
    volume: String,
    /// Requests that were to be replayed.
    trace_requests: u64,
    /// The volume's requests that were left out: writes without `--write`, and requests of no bytes.
    left_out_requests: u64,
    /// Of the blocks that the trace reads, the share that it had touched before: the hit ratio of an empty cache
    /// without limit.
    trace_rereference_share: f64,
    /// What the daemon has counted meanwhile; absent if it could not be asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    daemon: Option<Hits>,
}

/// Replays the trace and returns what to print. `socket` is the daemon's, if there is one.
pub(super) fn run(
    bench: &Bench,
    trace: &Path,
    socket: &Path,
    json: bool,
) -> Result<Vec<u8>, CliError> {
    let asked = &bench.replay;
    let selected = selected::select(trace, asked)?;
    let settings = ReplaySettings {
        target: bench.address(),
        speed: asked.speed,
        iodepth: bench.iodepth.unwrap_or(DEPTH),
        runtime: bench.runtime,
        wrap: asked.wrap,
    };
    let has_times = selected.info.arrival.is_some() || selected.survey.requests == 1;
    if !has_times && settings.speed != Speed::Max {
        let message = format!("{} has no times", trace.display());
        return Err(CliError::new(Exit::Usage, message).with_remedy("--speed max"));
    }
    if selected.survey.writes {
        consent::ask(&settings.target, &selected.info.operations, asked.yes)?;
    }
    let requests = selected::requests(trace, asked)?;
    let before = hits::look(socket, &settings.target);
    let (outcome, interrupt) = play(&settings, &selected, requests)?;
    let after = before
        .as_ref()
        .and_then(|_| hits::look(socket, &settings.target));
    let daemon = before
        .zip(after)
        .and_then(|(before, after)| Hits::between(&before, &after));
    let text = if json {
        to_json(&answer(&settings, &selected, &outcome, daemon, trace))?
    } else {
        let mut text = String::new();
        let facts = words::Facts {
            trace,
            settings: &settings,
            selected: &selected,
            outcome: &outcome,
            daemon: daemon.as_ref(),
        };
        words::write(&mut text, &facts).map_err(|error| CliError::of(Exit::Failed, &error))?;
        text.into_bytes()
    };
    let failure = match &outcome.error {
        Some(error) => CliError::new(
            Exit::Failed,
            format!("{}: {}", settings.target, chain(error)),
        ),
        None if interrupt.came() => CliError::new(
            Exit::Failed,
            "interrupted: the figures are of what was done until then",
        ),
        None => return Ok(text),
    };
    print(&text)?;
    Err(failure)
}

fn play(
    settings: &ReplaySettings,
    selected: &Selected,
    requests: load::Requests,
) -> Result<(ReplayOutcome, Interrupt), CliError> {
    let interrupt = Interrupt::listen();
    let mut progress = Progress::new("replaying");
    let survey = selected.survey;
    let outcome = load::replay(settings, survey, requests, &mut |now| {
        progress.part_of(
            now.requests.min(survey.requests),
            survey.requests,
            "requests",
        );
        if interrupt.came() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    drop(progress);
    Ok((outcome.map_err(|error| super::explain(&error))?, interrupt))
}

fn answer(
    settings: &ReplaySettings,
    selected: &Selected,
    outcome: &ReplayOutcome,
    daemon: Option<Hits>,
    trace: &Path,
) -> Answer {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let seconds = now.map_or(0, |since| since.as_secs());
    let version = concat!("hearth-", env!("CARGO_PKG_VERSION"));
    Answer {
        report: load::replay_report(settings, outcome, seconds, version),
        trace: trace.display().to_string(),
        vm: selected.volume.vm.clone(),
        volume: selected.volume.name.clone(),
        trace_requests: selected.survey.requests,
        left_out_requests: selected.left_out,
        trace_rereference_share: selected.info.reuse.read_rereference_share,
        daemon,
    }
}
