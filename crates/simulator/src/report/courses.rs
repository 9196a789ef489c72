//! The figures that have a line for each method at one size: hits over time, latency, shares of VMs.
//!
//! A few methods share a picture. More have one each, with the others in grey behind ([`super::multiples`]); the
//! sizes then lie under each other, folded but for the largest.

use super::chart::{Chart, Line, Marks};
use super::figures::{Figure, Study};
use super::frame::Axis;
use super::label::{self, Unit};
use super::look::Look;
use super::multiples::{Multiples, Panel};
use super::scale::Kind;
use crate::number::{ratio, real};
use crate::result::RunResult;
use crate::series::{self, Series, VmSample};
use std::fmt::{self, Write};

/// Methods that share a picture; more could not be followed.
const TOGETHER_MAX: usize = 4;
/// VMs whose shares are drawn: more pictures than that nobody looks through.
const VMS_SHOWN: usize = 24;
/// Points that a line over time has at most; more would hide one another.
const POINTS_SHOWN: usize = 160;

/// One kind of figure.
struct Course {
    /// What begins its title, and what names its pictures in the page.
    title: &'static str,
    id: &'static str,
    caption: &'static str,
    x: Axis,
    y: Axis,
    steps: bool,
}

/// A method's line at a size, and a number that sums it up.
type Of = fn(&RunResult) -> Option<(Vec<(f64, f64)>, String)>;

/// The figures over time and over latencies.
pub(super) fn of(study: &Study<'_>, place: usize) -> Result<Vec<Figure>, fmt::Error> {
    let mut figures = shares(study, place)?;
    let over_time = Course {
        title: "Hit ratio over time",
        id: "time",
        caption: "Reads and writes; from the first request, warm-up included. Higher is better.",
        x: time_axis(study.runs.iter().find_map(|run| run.series.as_ref())),
        y: Axis::linear("hit ratio", Unit::Part),
        steps: false,
    };
    figures.extend(over_time.figures(study, place, hits_over_time)?);
    let latencies = Course {
        title: "Latency",
        id: "latency",
        caption: "Requests that the modelled devices answer within a time, cumulative. Further left is better.",
        x: Axis {
            label: "latency",
            kind: Kind::Log10,
            unit: Unit::Time,
        },
        y: Axis::linear("requests answered within", Unit::Part),
        steps: true,
    };
    figures.extend(latencies.figures(study, place, latency)?);
    Ok(figures)
}

fn hits_over_time(run: &RunResult) -> Option<(Vec<(f64, f64)>, String)> {
    let series = run.series.as_ref()?;
    // One interval is no course of time: a trace without a clock, or of a single moment.
    (series.samples.len() > 1).then(|| (hit_ratios(series), label::percent_exact(run.hit_ratio())))
}

fn latency(run: &RunResult) -> Option<(Vec<(f64, f64)>, String)> {
    let latency = run.latency.as_ref()?;
    let mean = format!("mean {}", label::time_us(latency.all.mean_us));
    (!latency.cumulative.is_empty()).then(|| (latency.cumulative.clone(), mean))
}

impl Course {
    fn figures(&self, study: &Study<'_>, place: usize, of: Of) -> Result<Vec<Figure>, fmt::Error> {
        let sizes = study.shown_sizes();
        let all: Vec<(u32, Vec<Panel>)> = sizes
            .into_iter()
            .map(|size| (size, panels(study, size, of)))
            .filter(|(_, panels)| !panels.is_empty())
            .collect();
        if all.iter().all(|(_, panels)| panels.len() <= TOGETHER_MAX) {
            let figure = |(size, panels): (u32, Vec<Panel>)| self.together(study, size, panels);
            return all.into_iter().map(figure).collect();
        }
        self.apart(study, place, all).map(|figure| vec![figure])
    }

    /// All methods in one picture.
    fn together(
        &self,
        study: &Study<'_>,
        size: u32,
        panels: Vec<Panel>,
    ) -> Result<Figure, fmt::Error> {
        let chart = Chart {
            x: self.x,
            y: self.y,
            lines: panels.into_iter().flat_map(|panel| panel.lines).collect(),
            marks: if self.steps {
                Marks::Steps
            } else {
                Marks::Plain
            },
            front: None,
        };
        Ok(Figure {
            title: format!("{}, {}", self.title, study.name_of(size)),
            caption: self.caption.to_owned(),
            html: chart.html()?,
            is_wide: false,
        })
    }

    /// A picture for each method, and the sizes under each other.
    fn apart(
        &self,
        study: &Study<'_>,
        place: usize,
        all: Vec<(u32, Vec<Panel>)>,
    ) -> Result<Figure, fmt::Error> {
        let mut html = String::new();
        let last = all.len().saturating_sub(1);
        for (at, (size, panels)) in all.into_iter().enumerate() {
            let multiples = Multiples {
                id: format!("{}-{place}-{size}", self.id),
                x: &self.x,
                y: &self.y,
                panels,
                steps: self.steps,
            };
            write!(
                html,
                "<details{}><summary>{}</summary>{}</details>",
                if at == last { " open" } else { "" },
                study.name_of(size),
                multiples.html()?
            )?;
        }
        Ok(Figure {
            title: self.title.to_owned(),
            caption: format!(
                "{} Each method in its own picture, the others in grey.",
                self.caption
            ),
            html,
            is_wide: true,
        })
    }
}

/// A picture for each method that has a line at this size.
fn panels(study: &Study<'_>, size: u32, of: Of) -> Vec<Panel> {
    let mut panels = Vec::new();
    for (place, method) in study.methods.iter().enumerate() {
        let run = study
            .runs
            .iter()
            .find(|run| run.method() == *method && run.size_blocks == size);
        if let Some((points, note)) = run.and_then(of) {
            panels.push(Panel {
                name: method.clone(),
                note,
                lines: vec![Line {
                    name: method.clone(),
                    look: Look::of(place),
                    notes: Vec::new(),
                    points,
                }],
            });
        }
    }
    panels
}

/// What each VM may hold and is expected to want, under the last method that divides the cache.
fn shares(study: &Study<'_>, place: usize) -> Result<Vec<Figure>, fmt::Error> {
    let mut html = String::new();
    let mut caption = String::new();
    let sizes = study.shown_sizes();
    for (at, size) in sizes.iter().enumerate() {
        let divides = |run: &&RunResult| run.size_blocks == *size && !run.vms.is_empty();
        let Some(run) = study.runs.iter().rev().find(divides) else {
            continue;
        };
        let of_run = run.series.as_ref();
        let Some(series) = of_run.filter(|series| series.samples.len() > 1) else {
            continue;
        };
        caption = format!(
            "What each VM might hold under {}; what it was expected to want is dashed, the shares of the others \
             are grey.",
            run.method()
        );
        let multiples = Multiples {
            id: format!("share-{place}-{size}"),
            x: &time_axis(Some(series)),
            y: &Axis::linear("share", Unit::Bytes),
            panels: panels_of_vms(run, series),
            steps: true,
        };
        write!(
            html,
            "<details{}><summary>{}</summary>{}</details>",
            if at + 1 == sizes.len() { " open" } else { "" },
            study.name_of(*size),
            multiples.html()?
        )?;
    }
    if html.is_empty() {
        return Ok(Vec::new());
    }
    Ok(vec![Figure {
        title: "Shares over time".to_owned(),
        caption,
        html,
        is_wide: true,
    }])
}

fn panels_of_vms(run: &RunResult, series: &Series) -> Vec<Panel> {
    let mut panels = Vec::new();
    for (at, vm) in run.vms.iter().enumerate().take(VMS_SHOWN) {
        let course = |value: fn(&VmSample) -> Option<u64>| -> Vec<(f64, f64)> {
            let points = series.samples.iter().filter_map(|sample| {
                let blocks = sample.vms.get(at).and_then(value)?;
                Some((real(sample.start), real(blocks * run.block_bytes)))
            });
            points.collect()
        };
        let line = |name: &str, dashes: usize, points| Line {
            name: format!("{}: {name}", vm.vm),
            look: Look::dashed(at, dashes),
            notes: Vec::new(),
            points,
        };
        let mut lines = vec![line("share", 0, course(|sample| Some(sample.share_blocks)))];
        let demand = course(|sample| sample.demand_blocks);
        if !demand.is_empty() {
            lines.push(line("demand", 1, demand));
        }
        panels.push(Panel {
            name: vm.vm.clone(),
            note: label::bytes(real(vm.share_blocks * run.block_bytes)),
            lines,
        });
    }
    panels
}

fn time_axis(series: Option<&Series>) -> Axis {
    match series.map(|series| series.axis) {
        Some(series::Axis::TimeUs) => Axis {
            label: "time",
            kind: Kind::Time,
            unit: Unit::Time,
        },
        Some(series::Axis::Accesses) | None => Axis::linear("accesses", Unit::Count),
    }
}

/// The hit ratio of each interval, of several together if there are many.
fn hit_ratios(series: &Series) -> Vec<(f64, f64)> {
    let together = series.samples.len().div_ceil(POINTS_SHOWN).max(1);
    let groups = series.samples.chunks(together);
    groups
        .map(|group| {
            let hits = group.iter().map(|sample| sample.counters.hits()).sum();
            let accesses = group.iter().map(|sample| sample.counters.accesses()).sum();
            (real(group[0].start), ratio(hits, accesses))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::tests::some_run;

    fn figures(methods: usize) -> Vec<Figure> {
        let runs: Vec<RunResult> = (0..methods)
            .map(|method| {
                let mut run = some_run(&format!("method-{method}"), 100);
                if let Some(latency) = &mut run.latency {
                    latency.cumulative = vec![(80.0, 0.5), (900.0, 1.0)];
                }
                run
            })
            .collect();
        of(&Study::of(&runs), 3).unwrap()
    }

    #[test]
    fn few_methods_share_a_picture_and_many_have_one_each() {
        let few = figures(TOGETHER_MAX);
        let latency = few
            .iter()
            .find(|figure| figure.title.starts_with("Latency,"))
            .unwrap();
        assert_eq!(
            latency.html.matches("class=\"series ").count(),
            TOGETHER_MAX
        );
        assert!(!latency.html.contains("<details"));
        let many = figures(15);
        let latency = many
            .iter()
            .find(|figure| figure.title == "Latency")
            .unwrap();
        assert!(latency.is_wide);
        assert_eq!(latency.html.matches("class=\"panel\"").count(), 15);
        assert_eq!(latency.html.matches("<details open>").count(), 1);
        assert!(latency.html.contains("id=\"latency-3-100\""));
    }
}
