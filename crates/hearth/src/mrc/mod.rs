//! `hearth mrc`: how many accesses a cache of each size would miss.
//!
//! ```text
//!   args ─► a pass over the trace for LRU, one for each other policy (crate `curves`)
//!        ─► answers ─┬─► plot and table, or JSON, on standard output
//!                    └─► csv, report
//! ```

mod answer;
pub mod args;
pub(crate) mod plot;
mod render;

use crate::terminal::exit::{CliError, Exit, chain};
use crate::terminal::output::{self, to_file};
use crate::terminal::{Progress, to_json};
use crate::traces::ruins::{self, in_words};
use crate::traces::{is_regular, needs_a_file};
pub(crate) use answer::in_blocks;
use answer::{Answer, Named, answers};
use args::{Mrc, Sampling};
use curves::{CurveError, Measured, Method, Settings, measure};
use mrc::Counted;
use policy::replacement::Spec;
use simulator::SizeError;
use simulator::report::curves::{CurveLine, CurvePlot};
use std::io::Write as _;
use std::path::Path;
use trace::OpenError;
use trace::info::Warning;
use units::number::real;

/// Finds the curves that were asked for and returns what to print.
pub(crate) fn run(mrc: &Mrc, json: bool) -> Result<Vec<u8>, CliError> {
    output::check([&mrc.csv, &mrc.report].into_iter().flatten(), &mrc.traces)?;
    let mut all = Vec::with_capacity(mrc.traces.len());
    for path in &mrc.traces {
        all.push(of_trace(mrc, path)?);
    }
    if let Some(path) = &mrc.csv {
        to_file(path, |out| {
            out.write_all(answer::csv(&all.concat()).as_bytes())
        })?;
    }
    if let Some(path) = &mrc.report {
        let page = page(mrc, &all).map_err(|error| CliError::of(Exit::Failed, &error))?;
        to_file(path, |out| out.write_all(page.as_bytes()))?;
    }
    if json {
        return to_json(&all.concat());
    }
    print(mrc, &all)
}

fn print(mrc: &Mrc, all: &[Vec<Answer>]) -> Result<Vec<u8>, CliError> {
    let mut out = String::new();
    for (place, group) in groups(all).iter().enumerate() {
        if place > 0 {
            out.push('\n');
        }
        let footprint = group.iter().map(|one| one.footprint_blocks).max();
        let sizes = in_blocks(
            &mrc.sizes,
            mrc.sampling.reading.block,
            footprint.unwrap_or(0),
        )
        .map_err(|error| wrong_size(&error))?;
        render::group(&mut out, group, mrc.counted(), &sizes)
            .map_err(|error| CliError::of(Exit::Failed, &error))?;
    }
    Ok(out.into_bytes())
}

/// The curves that are shown together: those of a trace, or of one of its volumes.
fn groups(all: &[Vec<Answer>]) -> Vec<Vec<&Answer>> {
    let mut groups: Vec<Vec<&Answer>> = Vec::new();
    for answers in all {
        let of_trace = groups.len();
        for answer in answers {
            let same = groups[of_trace..]
                .iter_mut()
                .find(|group| group[0].volume == answer.volume);
            match same {
                Some(group) => group.push(answer),
                None => groups.push(vec![answer]),
            }
        }
    }
    groups
}

/// The report.
fn page(mrc: &Mrc, all: &[Vec<Answer>]) -> Result<String, std::fmt::Error> {
    let mut plots = Vec::new();
    for group in groups(all) {
        let mut about = String::new();
        render::heading(&mut about, group[0])?;
        let point = |point: &answer::AnswerPoint| (real(point.size_bytes), point.miss_ratio);
        let line = |answer: &&Answer| CurveLine {
            name: answer.policy.clone(),
            points: answer.points.iter().map(point).collect(),
        };
        plots.push(CurvePlot {
            of: group[0].trace.clone(),
            about,
            ruins: group[0].ruins.iter().map(in_words).collect(),
            lines: group.iter().map(line).collect(),
        });
    }
    let counted = match mrc.counted() {
        Counted::All => "reads and writes",
        Counted::Reads => "reads",
    };
    simulator::report::curves::html(&plots, counted)
}

/// All curves of a trace: a pass for each policy.
fn of_trace(mrc: &Mrc, path: &Path) -> Result<Vec<Answer>, CliError> {
    let name = path.display().to_string();
    let is_one_pass = matches!(&mrc.policy.0[..], [only] if is_plain_lru(only));
    if !is_one_pass && !is_regular(path) {
        let needs = "each policy beside lru needs a pass";
        return Err(needs_a_file(path, needs, None));
    }
    let mut settings = Settings {
        method: mrc.sampling.method(),
        writes: mrc.writes.writes(),
        block: mrc.sampling.reading.block,
        per_volume: mrc.per_volume,
    };
    let mut all = Vec::new();
    let mut footprint = None;
    for spec in &mrc.policy.0 {
        settings.method = if is_plain_lru(spec) {
            mrc.sampling.method()
        } else {
            let footprint = match footprint {
                Some(blocks) => blocks,
                None => survey(&mrc.sampling, path)?.measured.total.footprint_blocks,
            };
            miniature(mrc, spec, footprint)?
        };
        let passed = pass(&mrc.sampling, path, &settings)?;
        if all.is_empty() {
            ruins::tell(&name, &passed.ruins);
        }
        let (measured, format) = (&passed.measured, passed.format);
        footprint = Some(measured.total.footprint_blocks);
        let named = Named {
            trace: &name,
            format,
            policy: spec.to_string(),
            method: &settings.method,
            ruins: &passed.ruins,
        };
        all.extend(answers(mrc, &named, measured).map_err(|error| wrong_size(&error))?);
    }
    Ok(all)
}

fn is_plain_lru(spec: &Spec) -> bool {
    spec.about().name == "lru"
}

/// The sizes that a simulation runs at if none are given, in percent of the footprint.
pub(crate) const SIMULATED_PERCENTS: [u64; 14] =
    [1, 2, 3, 5, 7, 10, 15, 20, 30, 40, 50, 65, 80, 100];

fn miniature(mrc: &Mrc, spec: &Spec, footprint: u64) -> Result<Method, CliError> {
    let sampling = &mrc.sampling;
    let rate = match (sampling.sample, sampling.samples) {
        (Some(rate), _) => rate,
        (None, Some(blocks)) => (f64::from(blocks) / real(footprint.max(1))).min(1.0),
        (None, None) => 1.0,
    };
    let sizes = if mrc.sizes.is_empty() {
        let mut sizes: Vec<u64> = SIMULATED_PERCENTS
            .iter()
            .map(|percent| footprint * percent / 100)
            .filter(|blocks| {
                let scaled = real(*blocks) * rate;
                rate >= 1.0 || scaled >= real(mrc::MINIATURE_BLOCKS_MIN)
            })
            .filter(|blocks| *blocks > 0)
            .collect();
        sizes.dedup();
        sizes
    } else {
        in_blocks(&mrc.sizes, sampling.reading.block, footprint)
            .map_err(|error| wrong_size(&error))?
    };
    Ok(Method::Miniature {
        policy: spec.clone(),
        sizes,
        rate,
        seed: sampling.seed,
    })
}

/// What a trace contains, and its number of distinct blocks from a sample of them.
pub(crate) fn survey(sampling: &Sampling, path: &Path) -> Result<Passed, CliError> {
    let settings = Settings {
        method: Method::FixedSize {
            blocks_max: 1 << 16,
            seed: sampling.seed,
        },
        writes: mrc::Writes::Allocate,
        block: sampling.reading.block,
        per_volume: false,
    };
    pass(sampling, path, &settings)
}

/// What one pass over a trace has found.
pub(crate) struct Passed {
    pub(crate) measured: Measured,
    /// The name of the trace's format.
    pub(crate) format: &'static str,
    /// Why what was measured is wrong.
    pub(crate) ruins: Vec<Warning>,
}

/// One pass over a trace.
pub(crate) fn pass(
    sampling: &Sampling,
    path: &Path,
    settings: &Settings,
) -> Result<Passed, CliError> {
    let opened = trace::open(path, &sampling.reading.options()).map_err(|error| match error {
        OpenError::Read(_) | OpenError::Empty { .. } => CliError::of(Exit::Failed, &error),
        error => CliError::of(Exit::Usage, &error),
    })?;
    let (mut reader, watch) = sampling.reading.watch(opened.reader, opened.format);
    let mut progress = Progress::new("drawing the curve");
    let measured = measure(&mut *reader, settings, &mut |requests| {
        progress.count(requests);
    });
    drop(progress);
    let measured = measured.map_err(|error| unread(&error, path))?;
    if measured.total.accesses == 0 {
        return Err(CliError::new(
            Exit::Failed,
            format!("{}: nothing is read or written", path.display()),
        ));
    }
    drop(reader);
    Ok(Passed {
        measured,
        format: opened.format.name(),
        ruins: watch.ruins(),
    })
}

/// Why a trace that was opened could not be read to its end.
pub(crate) fn unread(error: &CurveError, path: &Path) -> CliError {
    match error {
        CurveError::Miniature(_) => CliError::of(Exit::Usage, error),
        CurveError::Read(_) => CliError::of(Exit::Failed, error),
        CurveError::Split(_) => CliError::new(
            Exit::Failed,
            format!("{}: {}", path.display(), chain(error)),
        ),
    }
}

fn wrong_size(error: &SizeError) -> CliError {
    CliError::of(Exit::Usage, error)
}
