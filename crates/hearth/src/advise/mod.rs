//! `hearth advise`: what size of cache pays for a workload, or why none does.
//!
//! The arithmetic is `mrc::advice`; here a trace becomes a workload and what caches do with it, and the advice
//! becomes sentences.

mod answer;
pub mod args;
pub(crate) mod host_words;
mod observed;
mod words;

use crate::terminal::exit::{CliError, Exit};
use crate::terminal::to_json;
use crate::traces::ruins;
use answer::Answer;
use args::Advise;
use mrc::advice::{MemoryOutlook, advise};
use std::path::Path;

/// Judges what was asked about and returns what to print.
pub(crate) fn run(arguments: &Advise, json: bool) -> Result<Vec<u8>, CliError> {
    if arguments.drive_size.is_some() && arguments.dwpd.is_none() && arguments.endurance.is_none() {
        return Err(CliError::new(
            Exit::Usage,
            "--drive-size alone does not say how much the drive may be written",
        )
        .with_remedy("--dwpd 1, or --endurance 1200TiB"));
    }
    let mut all = Vec::with_capacity(arguments.traces.len());
    for path in &arguments.traces {
        all.push(judge(arguments, path)?);
    }
    if json {
        return to_json(&all);
    }
    let mut out = String::new();
    for (place, answer) in all.iter().enumerate() {
        if place > 0 {
            out.push('\n');
        }
        words::write(&mut out, answer).map_err(|error| CliError::of(Exit::Failed, &error))?;
    }
    Ok(out.into_bytes())
}

fn judge(arguments: &Advise, path: &Path) -> Result<Answer, CliError> {
    let policy = &arguments.policy;
    let observed = if policy.to_string() == "lru" {
        observed::by_reuse(arguments, path)?
    } else {
        observed::by_simulation(arguments, path)?
    };
    let trace = path.display().to_string();
    if arguments.anyway {
        ruins::tell(&trace, &observed.ruins);
    } else {
        ruins::refuse(&trace, &observed.ruins)?;
    }
    let scenario = arguments.scenario();
    let advice = advise(
        &observed.workload,
        &observed.behaviour,
        &scenario,
        &observed.sizes,
        observed.sampled_blocks,
    );
    let memory = match &advice.advised {
        Some(advised) if !arguments.ram.is_empty() => {
            let read_us = arguments.ram_read.to_std().as_secs_f64() * 1e6;
            let answered = observed::in_front(arguments, path, advised.blocks)?.into_iter();
            let outlook =
                |of| MemoryOutlook::new(&observed.workload, &scenario.costs, advised, of, read_us);
            answered.map(outlook).collect()
        }
        _ => Vec::new(),
    };
    Ok(Answer::new(
        (trace, observed.format),
        policy,
        &observed,
        &scenario,
        (advice, memory),
    ))
}
