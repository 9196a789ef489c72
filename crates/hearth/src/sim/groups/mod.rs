//! `hearth sim groups`: the experiments of Clique's evaluation, by the crate `groups`.

pub mod args;
mod render;

use crate::group::input;
use crate::terminal::exit::{CliError, Exit};
use crate::terminal::output::{self, to_file};
use crate::terminal::{Progress, to_json};
use args::Groups;
use groups::limits::EXACT_VMS_MAX;
use groups::study::{self, Found, PREFIX, Runs, Source};
use groups::{PlanError, standin::Clustered};
use std::io::Write as _;
use std::path::Path;

/// VMs of the paper's matrix.
const VMS: usize = 68;
/// VMs of the groups whose optimum is looked for: some seconds for all of them.
const OPTIMUM_VMS: usize = 14;
/// Sizes of their waves.
const OPTIMUM_SIZES: [usize; 4] = [1, 2, 4, 7];

/// Runs what was asked for and returns what to print.
pub(super) fn run(asked: &Groups, json: bool) -> Result<Vec<u8>, CliError> {
    output::check(&asked.csv, &asked.files())?;
    let sources = sources(asked)?;
    let mut progress = Progress::new("planning groups");
    let mut count = 0;
    let mut done = || {
        count += 1;
        progress.count_of(count, "groups");
    };
    let mut runs = Runs {
        seeds: asked.seed..asked.seed.saturating_add(asked.seeds),
        done: &mut done,
    };
    let mut all = Vec::new();
    for source in &sources {
        let found = of_source(asked, source, &mut runs);
        all.extend(found.map_err(|error| CliError::of(Exit::Usage, &error))?);
    }
    drop(progress);
    if let Some(path) = &asked.csv {
        to_file(path, |out| {
            out.write_all(render::csv(asked.seed, &all).as_bytes())
        })?;
    }
    if json {
        return to_json(&render::rows(&all));
    }
    Ok(render::text(&all).into_bytes())
}

fn sources(asked: &Groups) -> Result<Vec<Source>, CliError> {
    if asked.sources.is_empty() {
        let gravity = [0.5, 0.7].map(|sigma| Source::Gravity { vms: VMS, sigma });
        let clustered = asked.clusters.iter().map(|clusters| Source::Clustered {
            vms: VMS,
            kind: Clustered::of((*clusters).min(VMS)),
        });
        return Ok(gravity.into_iter().chain(clustered).collect());
    }
    asked.sources.iter().map(|text| source(text)).collect()
}

fn source(text: &str) -> Result<Source, CliError> {
    if text.starts_with(PREFIX) {
        return text
            .parse()
            .map_err(|error| CliError::of(Exit::Usage, &error));
    }
    let traffic = input::traffic(Path::new(text))?;
    Ok(Source::Given {
        name: text.to_owned(),
        traffic,
    })
}

/// Every table of a matrix: of generated clusters at their own number, of others at each that was asked for.
fn of_source(
    asked: &Groups,
    source: &Source,
    runs: &mut Runs<'_>,
) -> Result<Vec<Found>, PlanError> {
    let vms = source.vms();
    let fits = |sizes: &[usize]| -> Vec<usize> {
        sizes.iter().copied().filter(|size| *size < vms).collect()
    };
    let mut all = study::by_size(source, &fits(&asked.sizes), runs)?;
    let clusters = match source {
        Source::Clustered { kind, .. } => vec![kind.clusters],
        Source::Gravity { .. } | Source::Given { .. } => fits(&asked.clusters),
    };
    all.extend(study::by_clusters(source, &clusters, runs)?);
    let small = source.with_vms(vms.min(OPTIMUM_VMS));
    if small.vms() <= EXACT_VMS_MAX && clusters_fit(&small) {
        let sizes = OPTIMUM_SIZES.into_iter().filter(|size| *size < small.vms());
        let sizes: Vec<usize> = sizes.collect();
        all.extend(study::by_optimum(&small, &sizes, runs)?);
    }
    all.extend(study::by_split(
        source,
        &fits(&asked.sizes),
        asked.sizes_sigma,
        runs,
    )?);
    Ok(all)
}

/// Whether each cluster has a VM.
const fn clusters_fit(source: &Source) -> bool {
    match source {
        Source::Clustered { vms, kind } => kind.clusters <= *vms,
        Source::Gravity { .. } | Source::Given { .. } => true,
    }
}
