//! `hearth advise`: what size of cache pays for a workload, or why none does.
//!
//! The arithmetic is `mrc::advice`; here a trace becomes a workload and a curve over its reads, and the
//! advice becomes sentences.

mod answer;
pub mod args;
pub(crate) mod host_words;
mod words;

use crate::mrc::in_blocks;
use crate::terminal::exit::{CliError, Exit};
use crate::terminal::to_json;
use answer::Answer;
use args::Advise;
use curves::{Curves, Measured, Settings};
use mrc::advice::{Workload, advise};
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

/// The sizes that are compared if none are given, in percent of the footprint.
const USUAL_PERCENTS: [u64; 6] = [1, 5, 10, 25, 50, 100];

/// Those of them that hold a block: nobody asked for the others.
fn usual_sizes(footprint_blocks: u64) -> Vec<u64> {
    let sizes = USUAL_PERCENTS.map(|percent| footprint_blocks * percent / 100);
    sizes.into_iter().filter(|blocks| *blocks > 0).collect()
}

fn judge(arguments: &Advise, path: &Path) -> Result<Answer, CliError> {
    let sampling = &arguments.sampling;
    let scenario = arguments.scenario();
    let settings = Settings {
        method: sampling.method(),
        writes: scenario.write_mode.writes(),
        block: sampling.reading.block,
        per_volume: false,
    };
    let (measured, format) = crate::mrc::pass(sampling, path, &settings)?;
    let Measured { total, facts, .. } = &measured;
    let Curves { reads, .. } = total;
    let workload = Workload {
        reads: total.reads_count,
        writes: total.accesses - total.reads_count,
        footprint_blocks: total.footprint_blocks,
        block_bytes: sampling.reading.block.get(),
        seconds: facts.duration_seconds(),
    };
    let sizes = if arguments.sizes.is_empty() {
        usual_sizes(total.footprint_blocks)
    } else {
        in_blocks(
            &arguments.sizes,
            sampling.reading.block,
            total.footprint_blocks,
        )
        .map_err(|error| CliError::of(Exit::Usage, &error))?
    };
    let advice = advise(&workload, reads, &scenario, &sizes, total.sampled_blocks);
    Ok(Answer::new(
        path.display().to_string(),
        format,
        &workload,
        &scenario,
        advice,
    ))
}
