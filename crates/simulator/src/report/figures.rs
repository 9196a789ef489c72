//! Which figures a report has, and which data each shows.

use super::bars::{Bar, Bars};
use super::chart::{Chart, Front, Line, Marks};
use super::frame::Axis;
use super::label::Unit;
use super::look::Look;
use super::scale::Kind;
use super::{courses, heat, label};
use crate::heat::Heat;
use crate::number::{ratio, real};
use crate::policy::Policy;
use crate::result::RunResult;
use std::fmt;
use trace::Volume;

/// A figure with its heading.
pub(super) struct Figure {
    pub(super) title: String,
    pub(super) caption: String,
    pub(super) html: String,
    /// Whether it takes the whole width of the page.
    pub(super) is_wide: bool,
}

/// Sizes that the figures with one size each are drawn for: the smallest, the largest and between.
const SIZES_SHOWN: usize = 3;
/// Volumes whose footprint is drawn: the busiest.
const FOOTPRINTS_SHOWN: usize = 4;

/// The figures of the runs over one trace, which is the page's trace number `place`.
pub(super) fn of_runs(runs: &[RunResult], place: usize) -> Result<Vec<Figure>, fmt::Error> {
    let study = Study::of(runs);
    let mut figures = vec![study.miss_ratios()?];
    figures.push(study.trade_off(
        "Hits against flash writes",
        "hit ratio",
        RunResult::hit_ratio,
    )?);
    figures.extend(study.read_hits_against_flash()?);
    figures.extend(study.flash_by_size()?);
    figures.extend(courses::of(&study, place)?);
    Ok(figures)
}

/// The footprints of the busiest volumes.
pub(super) fn of_heat(heat: &Heat, volumes: &[Volume]) -> Result<Vec<Figure>, fmt::Error> {
    let mut maps: Vec<_> = heat.maps.iter().enumerate().collect();
    maps.sort_by_key(|(_, map)| std::cmp::Reverse(map.accesses));
    let shown = maps.into_iter().take(FOOTPRINTS_SHOWN);
    let figure = |(place, map): (usize, &crate::heat::HeatMap)| {
        let volume = volumes.get(place).map(ToString::to_string);
        let volume = volume
            .filter(|name| name != "-")
            .map_or(String::new(), |name| format!(" of {name}"));
        Ok(Figure {
            title: format!("Footprint{volume}"),
            caption:
                "Block accesses by time and address; stronger is more, on a logarithmic scale."
                    .to_owned(),
            html: heat::html(map, heat.axis)?,
            is_wide: false,
        })
    };
    shown
        .filter(|(_, map)| map.accesses > 0)
        .map(figure)
        .collect()
}

/// The runs of a trace, with their methods and sizes in order.
pub(super) struct Study<'a> {
    pub(super) runs: &'a [RunResult],
    /// Each with the admission in front of it.
    pub(super) methods: Vec<String>,
    pub(super) sizes: Vec<u32>,
}

impl<'a> Study<'a> {
    pub(super) fn of(runs: &'a [RunResult]) -> Self {
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

    /// The sizes that figures of one size each are drawn for.
    pub(super) fn shown_sizes(&self) -> Vec<u32> {
        let last = self.sizes.len().saturating_sub(1);
        if self.sizes.len() <= SIZES_SHOWN {
            return self.sizes.clone();
        }
        [0, last / 2, last].map(|place| self.sizes[place]).to_vec()
    }

    /// How a size is written.
    pub(super) fn name_of(&self, size: u32) -> String {
        let run = self.runs.iter().find(|run| run.size_blocks == size);
        run.map_or(String::new(), |run| label::bytes(real(run.size_bytes())))
    }

    /// A line for each method through its runs, from the smallest size to the largest.
    fn by_method(&self, point: impl Fn(&RunResult) -> (f64, f64)) -> Vec<Line> {
        let line = |(place, method): (usize, &String)| {
            let mut runs: Vec<_> = self
                .runs
                .iter()
                .filter(|run| run.method() == *method)
                .collect();
            runs.sort_by_key(|run| run.size_blocks);
            Line {
                name: method.clone(),
                look: Look::of(place),
                notes: runs
                    .iter()
                    .map(|run| label::bytes(real(run.size_bytes())))
                    .collect(),
                points: runs.into_iter().map(&point).collect(),
            }
        };
        self.methods.iter().enumerate().map(line).collect()
    }

    fn miss_ratios(&self) -> Result<Figure, fmt::Error> {
        if self.sizes.len() == 1 && self.methods.len() > 1 {
            return self.miss_ratio_bars();
        }
        let chart = Chart {
            x: axis("cache size", Kind::Log2, Unit::Bytes),
            y: Axis::linear("miss ratio", Unit::Part),
            lines: self.by_method(|run| (real(run.size_bytes()), run.counters.miss_ratio())),
            marks: Marks::Dotted,
            front: None,
        };
        Ok(Figure {
            title: "Miss ratio against size".to_owned(),
            caption: "Reads and writes; each mark is a run. Lower is better.".to_owned(),
            html: chart.html()?,
            is_wide: false,
        })
    }

    /// With one size there is no curve: a bar for each method, the best on top.
    fn miss_ratio_bars(&self) -> Result<Figure, fmt::Error> {
        let mut runs: Vec<&RunResult> = self.runs.iter().collect();
        runs.sort_by(|a, b| a.counters.miss_ratio().total_cmp(&b.counters.miss_ratio()));
        let bar = |run: &&RunResult| Bar {
            name: run.method(),
            pieces: vec![run.counters.miss_ratio()],
        };
        let bars = Bars {
            label: "miss ratio",
            tick: label::percent,
            kinds: &[("missed", 0)],
            rows: runs.iter().map(bar).collect(),
        };
        Ok(Figure {
            title: format!("Miss ratio, {}", self.name_of(self.sizes[0])),
            caption: "Reads and writes; shorter is better.".to_owned(),
            html: bars.html()?,
            is_wide: false,
        })
    }

    /// What each size writes to flash: a curve only where there are sizes.
    fn flash_by_size(&self) -> Result<Option<Figure>, fmt::Error> {
        if self.sizes.len() < 2 {
            return Ok(None);
        }
        let chart = Chart {
            x: axis("cache size", Kind::Log2, Unit::Bytes),
            y: Axis::linear("flash blocks written an access", Unit::Number),
            lines: self.by_method(|run| (real(run.size_bytes()), run.flash_writes_per_access())),
            marks: Marks::Dotted,
            front: None,
        };
        Ok(Some(Figure {
            title: "Flash writes against size".to_owned(),
            caption: "Fills, rewrites, reclaim and descriptors. Lower is less wear.".to_owned(),
            html: chart.html()?,
            is_wide: false,
        }))
    }

    /// The trade-off for reads alone, if there is anything to be traded: several methods, and writes that do
    /// not count as hits.
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
        let can_be = self.runs.iter().filter(|run| !knows_the_future(run));
        let all: Vec<(f64, f64)> = can_be.map(point).collect();
        let points = front(&all);
        let chart = Chart {
            x: Axis::linear("flash blocks written an access", Unit::Number),
            y: Axis::linear(label, Unit::Part),
            lines: self.by_method(point),
            marks: Marks::Dotted,
            front: (points.len() > 1).then_some(Front {
                name: "front: nothing that can be built is better in both",
                points,
            }),
        };
        Ok(Figure {
            title: title.to_owned(),
            caption: "Up is more hits, left is less wear. A line joins a method's sizes; the broad grey one joins \
                      the runs that no other beats in both, but for a policy that knows the future."
                .to_owned(),
            html: chart.html()?,
            is_wide: false,
        })
    }
}

/// Whether no cache could do it: it shows how much is to be had, and is compared with nothing.
pub(super) fn knows_the_future(run: &RunResult) -> bool {
    run.policy
        .parse::<Policy>()
        .is_ok_and(|policy| policy.knows_the_future())
}

fn axis(label: &'static str, kind: Kind, unit: Unit) -> Axis {
    Axis { label, kind, unit }
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::tests::some_run;

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

    #[test]
    fn a_policy_that_knows_the_future_is_on_no_front() {
        let mut runs = vec![some_run("lru", 100), some_run("fifo", 100)];
        runs[1].counters.read_hits = 20;
        runs[1].counters.flash_fill_blocks = 20;
        runs.push(some_run("belady", 100));
        runs[2].counters.read_hits = 70;
        runs[2].counters.flash_fill_blocks = 10;
        let figures = of_runs(&runs, 0).unwrap();
        assert!(
            figures[1].html.contains("class=\"front\""),
            "belady hides the others"
        );
    }

    #[test]
    fn one_size_has_bars_and_several_have_curves() {
        let titles = |runs: &[RunResult]| -> Vec<String> {
            let figures = of_runs(runs, 0).unwrap();
            figures.into_iter().map(|figure| figure.title).collect()
        };
        let one = titles(&[some_run("lru", 100), some_run("fifo", 100)]);
        assert!(one[0].starts_with("Miss ratio, "), "{one:?}");
        assert!(!one.iter().any(|title| title == "Flash writes against size"));
        let two = titles(&[some_run("lru", 100), some_run("lru", 200)]);
        assert_eq!(two[0], "Miss ratio against size");
        assert!(two.iter().any(|title| title == "Flash writes against size"));
    }
}
