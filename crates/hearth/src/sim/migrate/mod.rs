//! `hearth sim migrate`: a VM moves between two modelled hosts, and its cache with it, by the crate `moves`.

pub mod args;
mod render;

use crate::terminal::Progress;
use crate::terminal::exit::{CliError, Exit};
use args::Migrate;
use moves::outcome::Outcome;
use moves::papers;
use strategies::Strategy;

/// Simulates what was asked for and returns what to print.
pub(super) fn run(migrate: &Migrate, json: bool) -> Result<Vec<u8>, CliError> {
    let mut progress = Progress::new("moving");
    let Some(trace) = &migrate.trace else {
        let mut all = Vec::new();
        for paper in migrate.papers() {
            let figures = papers::figures(paper, migrate.seed);
            let figures = figures.map_err(|error| CliError::of(Exit::Failed, &error))?;
            progress.count(figures.len() as u64);
            all.push((paper, figures));
        }
        drop(progress);
        return render::papers(&all, json);
    };
    let mut setup = migrate.setup(trace)?;
    let mut all: Vec<(Strategy, Outcome)> = Vec::new();
    for strategy in migrate.strategies() {
        setup.row = strategy.row();
        let outcome = moves::run(&setup).map_err(|error| {
            CliError::of(Exit::Usage, &error).with_remedy("a larger --size: 512KiB at least")
        })?;
        if !outcome.vms.iter().all(|vm| vm.after.has_reads()) {
            let problem = "a VM reads nothing after the move: its requests end before";
            return Err(CliError::new(Exit::Usage, problem.to_owned())
                .with_remedy("more requests, or a smaller --before and --ahead"));
        }
        progress.count(1);
        all.push((strategy, outcome));
    }
    drop(progress);
    render::moves(&all, setup.interval, json)
}
