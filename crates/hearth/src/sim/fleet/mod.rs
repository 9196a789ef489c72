//! `hearth sim fleet`: hosts whose flash is balanced by moves of VMs, by the planner and the drivers that a cluster runs.

pub mod args;
mod demand;
mod render;

use super::outputs;
use crate::terminal::exit::{CliError, Exit};
use crate::terminal::output::{self, to_file};
use crate::terminal::{Progress, to_json};
use args::{FaultsWord, Fleet};
use demand::Source;
use serde_json::json;
use simulator::Manifest;
use simulator::fleet::{Demanded, Outcome, cloudcache, run as simulate};
use std::io::Write as _;

/// Draws over which the figures of the paper's experiment are averaged.
const DRAWS: usize = 200;

/// Simulates what was asked for and returns what to print.
pub(super) fn run(fleet: &Fleet, json: bool) -> Result<Vec<u8>, CliError> {
    let outputs = fleet.csv.iter().chain(&fleet.report);
    output::check(outputs, &fleet.demand_from)?;
    let source = Source::read(fleet)?;
    if fleet.paper.is_some() {
        let figures = cloudcache::figures(fleet.seed, DRAWS, &source.demanded);
        return if json {
            to_json(&render::told_paper(&figures, &source.facts))
        } else {
            Ok(render::paper(&figures, &source.facts).into_bytes())
        };
    }
    let mut progress = Progress::new("simulating");
    let mut all = Vec::new();
    for (at, settings) in fleet.runs(&source.demanded).iter().enumerate() {
        let before = (at * fleet.windows) as u64;
        let outcome = simulate(settings, &mut |windows| {
            progress.count_of(before + windows, "windows");
        });
        all.push(outcome.map_err(|error| CliError::of(Exit::Usage, &error))?);
    }
    drop(progress);
    write(fleet, &all, &source)?;
    if json {
        return to_json(&render::told(&all, &source.facts));
    }
    Ok(render::table(&all, &source.facts).into_bytes())
}

/// Writes the files that were asked for.
fn write(fleet: &Fleet, all: &[Outcome], source: &Source) -> Result<(), CliError> {
    if let Some(path) = &fleet.csv {
        to_file(path, |out| simulator::fleet::csv(out, all))?;
    }
    let Some(path) = &fleet.report else {
        return Ok(());
    };
    let parameters = json!({
        "hosts": fleet.hosts,
        "vms_per_host": fleet.vms,
        "windows": fleet.windows,
        "faults": match fleet.faults { FaultsWord::None => "none", FaultsWord::Usual => "usual" },
        "demand_window": match source.demanded {
            Demanded::Generated => None,
            Demanded::Traces(_) => Some(fleet.demand_window.to_string()),
        },
        "rules": all.iter().map(|one| one.rule).collect::<Vec<_>>(),
    });
    let manifest = Manifest::new(
        outputs::command(),
        fleet.seed,
        parameters,
        source.files.clone(),
    );
    let page = simulator::report::fleet::html(all, &manifest);
    let page = page.map_err(|error| CliError::of(Exit::Failed, &error))?;
    to_file(path, |out| out.write_all(page.as_bytes()))
}
