//! Which figures a report has, and which data each shows.

use super::chart::{Axis, Chart, Line, Marks};
use super::scale::Kind;
use super::{TraceReport, heat, label};
use crate::number::{ratio, real};
use crate::result::RunResult;
use crate::series::{self, Series, VmSample};
use std::fmt;

/// A figure with its heading.
pub(super) struct Figure {
    pub(super) title: String,
    pub(super) caption: String,
    pub(super) html: String,
}

/// Sizes that the figures with one size each are drawn for: the smallest, the largest and between.
const SIZES_SHOWN: usize = 3;
/// Volumes whose footprint is drawn: the busiest.
const FOOTPRINTS_SHOWN: usize = 4;

/// The figures of a trace.
pub(super) fn of(report: &TraceReport) -> Result<Vec<Figure>, fmt::Error> {
    let study = Study::of(&report.runs);
    let mut figures = Vec::new();
    figures.push(study.miss_ratio_curve()?);
    figures.push(study.flash_writes()?);
    figures.extend(study.read_hits_against_flash()?);
    for size in study.shown_sizes() {
        figures.extend(study.shares(size)?);
    }
    for size in study.shown_sizes() {
        figures.extend(study.over_time(size)?);
    }
    for size in study.shown_sizes() {
        figures.extend(study.latencies(size)?);
    }
    if let Some(heat) = &report.heat {
        let mut maps: Vec<_> = heat.maps.iter().enumerate().collect();
        maps.sort_by_key(|(_, map)| std::cmp::Reverse(map.accesses));
        for (place, map) in maps
            .into_iter()
            .take(FOOTPRINTS_SHOWN)
            .filter(|(_, map)| map.accesses > 0)
        {
            let volume = report.volumes.get(place).map(ToString::to_string);
            let volume = volume
                .filter(|name| name != "-")
                .map_or(String::new(), |name| format!(" of {name}"));
            figures.push(Figure {
                title: format!("Footprint{volume}"),
                caption:
                    "Block accesses by time and address; stronger is more, on a logarithmic scale."
                        .to_owned(),
                html: heat::html(map, heat.axis)?,
            });
        }
    }
    Ok(figures)
}

/// The runs of a trace, with their policies and sizes in order.
struct Study<'a> {
    runs: &'a [RunResult],
    /// Each with the admission in front of it.
    methods: Vec<String>,
    sizes: Vec<u32>,
}

impl<'a> Study<'a> {
    fn of(runs: &'a [RunResult]) -> Self {
        let mut methods: Vec<String> = Vec::new();
        let mut sizes: Vec<u32> = Vec::new();
        for run in runs {
            if !methods.contains(&run.method()) {
                methods.push(run.method());
            }
            sizes.push(run.size_blocks);
        }
        sizes.sort_unstable();
        sizes.dedup();
        Self {
            runs,
            methods,
            sizes,
        }
    }

    fn shown_sizes(&self) -> Vec<u32> {
        let last = self.sizes.len().saturating_sub(1);
        if self.sizes.len() <= SIZES_SHOWN {
            return self.sizes.clone();
        }
        [0, last / 2, last].map(|place| self.sizes[place]).to_vec()
    }

    /// A line for each policy through its runs, from the smallest size to the largest.
    fn by_policy(&self, point: impl Fn(&RunResult) -> (f64, f64)) -> Vec<Line> {
        let line = |(colour, method): (usize, &String)| {
            let mut runs: Vec<_> = self
                .runs
                .iter()
                .filter(|run| run.method() == *method)
                .collect();
            runs.sort_by_key(|run| run.size_blocks);
            Line {
                name: method.clone(),
                colour,
                points: runs.into_iter().map(&point).collect(),
            }
        };
        self.methods.iter().enumerate().map(line).collect()
    }

    /// A line for each policy from its run of one size; runs that have none are left out.
    fn at_size(
        &self,
        size: u32,
        points: impl Fn(&RunResult) -> Option<Vec<(f64, f64)>>,
    ) -> Vec<Line> {
        let mut lines = Vec::new();
        for (colour, method) in self.methods.iter().enumerate() {
            let run = self
                .runs
                .iter()
                .find(|run| run.method() == *method && run.size_blocks == size);
            if let Some(points) = run.and_then(&points) {
                lines.push(Line {
                    name: method.clone(),
                    colour,
                    points,
                });
            }
        }
        lines
    }

    fn name_of(&self, size: u32) -> String {
        let run = self.runs.iter().find(|run| run.size_blocks == size);
        run.map_or(String::new(), |run| label::bytes(real(run.size_bytes())))
    }

    fn miss_ratio_curve(&self) -> Result<Figure, fmt::Error> {
        let chart = Chart {
            x: axis("cache size", Kind::Log2, label::bytes),
            y: axis("miss ratio", Kind::Linear, label::percent),
            lines: self.by_policy(|run| (real(run.size_bytes()), run.counters.miss_ratio())),
            marks: Marks::Dotted,
        };
        Ok(Figure {
            title: "Miss ratio against size".to_owned(),
            caption: "Reads and writes; each dot is a run.".to_owned(),
            html: chart.html()?,
        })
    }

    fn flash_writes(&self) -> Result<Figure, fmt::Error> {
        self.trade_off(
            "Hits against flash writes",
            "hit ratio",
            RunResult::hit_ratio,
        )
    }

    /// The same for reads alone, if there is anything to be traded: several methods, and writes that do not
    /// count as hits.
    fn read_hits_against_flash(&self) -> Result<Option<Figure>, fmt::Error> {
        let has_both = |run: &RunResult| run.counters.reads > 0 && run.counters.writes > 0;
        if self.methods.len() < 2 || !self.runs.iter().any(has_both) {
            return Ok(None);
        }
        let reads = |run: &RunResult| ratio(run.counters.read_hits, run.counters.reads);
        self.trade_off("Read hits against flash writes", "read hit ratio", reads)
            .map(Some)
    }

    /// What each run hits for what it writes, and the front: the runs that no other beats in both.
    fn trade_off(
        &self,
        title: &str,
        label: &'static str,
        hits: impl Fn(&RunResult) -> f64,
    ) -> Result<Figure, fmt::Error> {
        let point = |run: &RunResult| (run.flash_writes_per_access(), hits(run));
        let mut lines = self.by_policy(point);
        let all: Vec<(f64, f64)> = self.runs.iter().map(point).collect();
        lines.push(Line {
            name: "nothing better in both".to_owned(),
            colour: lines.len(),
            points: front(&all),
        });
        let chart = Chart {
            x: axis(
                "flash blocks written an access",
                Kind::Linear,
                label::trimmed,
            ),
            y: axis(label, Kind::Linear, label::percent),
            lines,
            marks: Marks::Dotted,
        };
        Ok(Figure {
            title: title.to_owned(),
            caption: "Up is more hits, left is less wear; a line joins a method's sizes, the last one the runs \
                      that no other run beats in both."
                .to_owned(),
            html: chart.html()?,
        })
    }

    fn over_time(&self, size: u32) -> Result<Option<Figure>, fmt::Error> {
        let mut kind = series::Axis::Accesses;
        for series in self.runs.iter().filter_map(|run| run.series.as_ref()) {
            kind = series.axis;
        }
        let lines = self.at_size(size, |run| run.series.as_ref().map(hit_ratios));
        // One interval is no course of time: a trace without a clock, or of a single moment.
        if lines.iter().all(|line| line.points.len() < 2) {
            return Ok(None);
        }
        let chart = Chart {
            x: match kind {
                series::Axis::TimeUs => axis("time", Kind::Time, label::time_us),
                series::Axis::Accesses => axis("accesses", Kind::Linear, label::count),
            },
            y: axis("hit ratio", Kind::Linear, label::percent),
            lines,
            marks: Marks::Plain,
        };
        Ok(Some(Figure {
            title: format!("Hit ratio over time, {}", self.name_of(size)),
            caption: "Reads and writes; from the first request, warm-up included.".to_owned(),
            html: chart.html()?,
        }))
    }

    /// What each VM may hold and is expected to want, under the last method that divides the cache.
    fn shares(&self, size: u32) -> Result<Option<Figure>, fmt::Error> {
        let divides = |run: &&RunResult| run.size_blocks == size && !run.vms.is_empty();
        let Some(run) = self.runs.iter().rev().find(divides) else {
            return Ok(None);
        };
        let Some(series) = run
            .series
            .as_ref()
            .filter(|series| series.samples.len() > 1)
        else {
            return Ok(None);
        };
        let mut lines = Vec::new();
        for (at, vm) in run.vms.iter().enumerate() {
            let course = |value: fn(&VmSample) -> Option<u64>| -> Vec<(f64, f64)> {
                let samples = series.samples.iter();
                let points = samples.filter_map(|sample| {
                    let blocks = sample.vms.get(at).and_then(value)?;
                    Some((real(sample.start), real(blocks * run.block_bytes)))
                });
                points.collect()
            };
            let demand = course(|sample| sample.demand_blocks);
            lines.push(Line {
                name: vm.vm.clone(),
                colour: 2 * at,
                points: course(|sample| Some(sample.share_blocks)),
            });
            if !demand.is_empty() {
                lines.push(Line {
                    name: format!("{}: demand", vm.vm),
                    colour: 2 * at + 1,
                    points: demand,
                });
            }
        }
        lines.truncate(2 * VMS_SHOWN);
        let chart = Chart {
            x: match series.axis {
                series::Axis::TimeUs => axis("time", Kind::Time, label::time_us),
                series::Axis::Accesses => axis("accesses", Kind::Linear, label::count),
            },
            y: axis("share", Kind::Linear, label::bytes),
            lines,
            marks: Marks::Steps,
        };
        Ok(Some(Figure {
            title: format!("Shares over time, {}", self.name_of(size)),
            caption: format!("What each VM might hold under {}.", run.method()),
            html: chart.html()?,
        }))
    }

    fn latencies(&self, size: u32) -> Result<Option<Figure>, fmt::Error> {
        let lines = self.at_size(size, |run| {
            run.latency
                .as_ref()
                .map(|latency| latency.cumulative.clone())
        });
        if lines.iter().all(|line| line.points.is_empty()) {
            return Ok(None);
        }
        let chart = Chart {
            x: axis("latency", Kind::Log10, label::time_us),
            y: axis("requests answered within", Kind::Linear, label::percent),
            lines,
            marks: Marks::Steps,
        };
        Ok(Some(Figure {
            title: format!("Latency, {}", self.name_of(size)),
            caption: "Reads and writes on the modelled devices, cumulative.".to_owned(),
            html: chart.html()?,
        }))
    }
}

fn axis(label: &'static str, kind: Kind, tick: fn(f64) -> String) -> Axis {
    Axis {
        label,
        kind,
        tick,
        from_zero: true,
    }
}

/// VMs whose shares are drawn; more could not be told apart.
const VMS_SHOWN: usize = 6;

/// The points that no other is above and to the left of, from left to right.
fn front(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut sorted = points.to_vec();
    // Of equal writes the one with the most hits first.
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.total_cmp(&a.1)));
    let mut front: Vec<(f64, f64)> = Vec::new();
    for point in sorted {
        if front.last().is_none_or(|last| point.1 > last.1) {
            front.push(point);
        }
    }
    front
}

/// Points that a line over time has at most; more would hide one another.
const POINTS_SHOWN: usize = 160;

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

    #[test]
    fn the_front_holds_what_nothing_beats_in_both() {
        let points = [
            (0.5, 0.4),
            (0.1, 0.2),
            (0.3, 0.4),
            (0.2, 0.1),
            (0.1, 0.1),
            (0.9, 0.5),
        ];
        assert_eq!(front(&points), [(0.1, 0.2), (0.3, 0.4), (0.9, 0.5)]);
        assert!(front(&[]).is_empty());
    }
}
