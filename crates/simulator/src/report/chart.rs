//! A chart of lines or points as SVG, and its legend, which shows and hides them. Colours come from the page's
//! style.

use super::closeup;
use super::frame::{Axis, Frame, WIDE};
use super::label::escape;
use super::look::Look;
use std::fmt::{self, Write};

/// One line with its points.
pub(super) struct Line {
    /// Its name in the legend.
    pub(super) name: String,
    /// How it looks.
    pub(super) look: Look,
    /// A word for each point, or none at all.
    pub(super) notes: Vec<String>,
    /// From left to right.
    pub(super) points: Vec<(f64, f64)>,
}

impl Line {
    /// The same with these of its points.
    fn only(&self, places: &[usize]) -> Self {
        Self {
            name: self.name.clone(),
            look: self.look,
            notes: places
                .iter()
                .filter_map(|place| self.notes.get(*place).cloned())
                .collect(),
            points: places.iter().map(|place| self.points[*place]).collect(),
        }
    }
}

/// How the points of a line are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Marks {
    /// A line with a mark at each point.
    Dotted,
    /// A line with a few marks.
    Plain,
    /// A line that stays level until the next point, with a few marks.
    Steps,
}

/// Points that belong to no line, drawn under all of them, with their name in the legend.
pub(super) struct Front {
    pub(super) name: &'static str,
    pub(super) points: Vec<(f64, f64)>,
}

/// A chart.
pub(super) struct Chart {
    /// Along the bottom.
    pub(super) x: Axis,
    /// Up the left side.
    pub(super) y: Axis,
    /// What is drawn.
    pub(super) lines: Vec<Line>,
    /// How.
    pub(super) marks: Marks,
    /// What is drawn under it.
    pub(super) front: Option<Front>,
}

/// Lines of a chart that its legend can hide, by the page's style.
pub(super) const CHOSEN_MAX: usize = 32;
/// Marks of a line that has many points: enough to follow it, few enough to see it.
const MARKS_FEW: usize = 6;
/// Points of a line that answer when somebody points at them.
const SPOTS_MAX: usize = 200;

impl Chart {
    /// The chart as an SVG element, a close-up of it where a few points stretch its axes, and the legend of both.
    pub(super) fn html(&self) -> Result<String, fmt::Error> {
        let mut out = String::new();
        let front = self.front.as_ref().map(|front| &front.points[..]);
        self.picture(&mut out, &self.lines, front)?;
        let closeup = (self.marks == Marks::Dotted).then(|| closeup::of(&self.lines));
        if let Some(closeup) = closeup.flatten() {
            write!(
                out,
                "<p class=\"axes\">Enlarged, without what lies far off: {}.</p>",
                escape(&closeup.far.join(", "))
            )?;
            let lines = self.lines.iter().zip(&closeup.points);
            let lines: Vec<Line> = lines.map(|(line, kept)| line.only(kept)).collect();
            let is_shown =
                |point: &(f64, f64)| lines.iter().any(|line| line.points.contains(point));
            let front: Option<Vec<_>> =
                front.map(|points| points.iter().copied().filter(is_shown).collect());
            self.picture(&mut out, &lines, front.as_deref())?;
        }
        self.legend(&mut out)?;
        Ok(out)
    }

    fn picture(
        &self,
        out: &mut String,
        lines: &[Line],
        front: Option<&[(f64, f64)]>,
    ) -> fmt::Result {
        let points = lines.iter().flat_map(|line| &line.points);
        // Marks at the very edge would be cut in half.
        let along = if self.marks == Marks::Dotted {
            0.04
        } else {
            0.0
        };
        let frame = Frame::around(&WIDE, (&self.x, &self.y), points, (along, 0.05));
        let name = format!("{} against {}", self.y.label, self.x.label);
        frame.begin(out, &name)?;
        if let Some(points) = front {
            let path = frame.path(points, false)?;
            write!(
                out,
                "<g class=\"front\"><path class=\"line\" d=\"{path}\"/></g>"
            )?;
        }
        for (place, line) in lines.iter().enumerate() {
            self.line(out, &frame, line, place)?;
        }
        out.push_str("</svg>");
        Ok(())
    }

    fn line(&self, out: &mut String, frame: &Frame<'_>, line: &Line, place: usize) -> fmt::Result {
        let path = frame.path(&line.points, self.marks == Marks::Steps)?;
        write!(
            out,
            "<g class=\"series {} k{place}\"><path class=\"line\" d=\"{path}\"/>",
            line.look.class()
        )?;
        let named = |at: usize| match line.notes.get(at) {
            Some(note) => format!("{}, {note}", line.name),
            None => line.name.clone(),
        };
        let is_marked = self.marked(line.points.len(), place);
        let spots_every = line.points.len().div_ceil(SPOTS_MAX).max(1);
        for (at, point) in line.points.iter().enumerate() {
            let (across, above) = (frame.along(point.0), frame.up(point.1));
            if is_marked(at) {
                line.look.begin_mark(out, across, above)?;
                write!(
                    out,
                    "<title>{}</title></path>",
                    frame.words(&named(at), *point)
                )?;
            } else if at % spots_every == 0 {
                write!(
                    out,
                    "<circle class=\"spot\" cx=\"{across:.1}\" cy=\"{above:.1}\" r=\"5\"><title>{}</title></circle>",
                    frame.words(&named(at), *point)
                )?;
            }
        }
        out.push_str("</g>");
        Ok(())
    }

    /// Which points of a line of so many have a mark: all, or a few that lie elsewhere than those of the
    /// next line.
    fn marked(&self, points: usize, place: usize) -> impl Fn(usize) -> bool {
        let every = match self.marks {
            Marks::Dotted => 1,
            Marks::Plain | Marks::Steps => points.div_ceil(MARKS_FEW).max(1),
        };
        let lines = self.lines.len().max(1);
        let first = place % lines * every / lines;
        move |at| at % every == first
    }

    fn legend(&self, out: &mut String) -> fmt::Result {
        let can_choose = self.lines.len() > 1 && self.lines.len() <= CHOSEN_MAX;
        out.push_str("<ul class=\"legend\">");
        for (place, line) in self.lines.iter().enumerate() {
            let (sample, name) = (line.look.sample()?, escape(&line.name));
            if can_choose {
                write!(
                    out,
                    "<li class=\"k{place}\"><label><input type=\"checkbox\" checked>{sample}<span>{name}</span></label></li>"
                )?;
            } else {
                write!(out, "<li>{sample}<span>{name}</span></li>")?;
            }
        }
        if let Some(front) = &self.front {
            write!(
                out,
                "<li><svg class=\"front\" viewBox=\"0 0 40 14\"><path class=\"line\" d=\"M5 7H35\"/></svg><span>{}</span></li>",
                front.name
            )?;
        }
        out.push_str("</ul>");
        Ok(())
    }
}

/// The rules by which a legend shows, hides and brings forward the lines of its picture: the page needs no
/// script.
pub(super) fn rules() -> String {
    let mut rules = String::new();
    for place in 0..CHOSEN_MAX {
        // Writing to a string does not fail.
        let _ = write!(
            rules,
            "figure:has(.legend .k{place} input:not(:checked)) g.k{place}{{display:none}}\
             figure:has(.legend .k{place}:hover) g.series:not(.k{place}){{opacity:.12}}"
        );
    }
    rules
}

#[cfg(test)]
mod tests {
    use super::super::label::Unit;
    use super::*;
    use crate::number::real;

    fn chart(marks: Marks, lines: usize, points: usize) -> Chart {
        let line = |place: usize| Line {
            name: format!("a<{place}"),
            look: Look::of(place),
            notes: vec!["10 MiB".to_owned()],
            points: (0..points)
                .map(|at| (real(at as u64), 1.0 / real(at as u64 + 1)))
                .collect(),
        };
        Chart {
            x: Axis::linear("size", Unit::Count),
            y: Axis::linear("miss ratio", Unit::Part),
            lines: (0..lines).map(line).collect(),
            marks,
            front: None,
        }
    }

    #[test]
    fn a_chart_holds_its_lines_ticks_and_names() {
        let html = chart(Marks::Plain, 14, 2).html().unwrap();
        assert!(html.contains("M70.0 26.5L616.0 317.5"), "{html}");
        assert!(html.contains("a&lt;1") && !html.contains("a<1"));
        assert!(html.contains("<title>a&lt;1, 10 MiB\nsize: 0\nmiss ratio: 100.00%</title>"));
        assert!(html.contains(">100%<") && html.contains("class=\"series c5 d1 k13\""));
    }

    #[test]
    fn a_legend_can_hide_each_line() {
        let html = chart(Marks::Dotted, 3, 4).html().unwrap();
        assert_eq!(html.matches("<input type=\"checkbox\" checked>").count(), 3);
        let rules = rules();
        for place in 0..3 {
            assert!(html.contains(&format!("<li class=\"k{place}\">")));
            assert!(rules.contains(&format!(
                "figure:has(.legend .k{place} input:not(:checked)) g.k{place}{{display:none}}"
            )));
        }
        let alone = chart(Marks::Dotted, 1, 4).html().unwrap();
        assert!(!alone.contains("checkbox"), "there is nothing to choose");
    }

    #[test]
    fn a_front_lies_under_the_lines_and_has_a_name_of_its_own() {
        let mut chart = chart(Marks::Dotted, 2, 3);
        chart.front = Some(Front {
            name: "the front",
            points: vec![(0.0, 1.0), (2.0, 0.3)],
        });
        let html = chart.html().unwrap();
        let at = |text: &str| html.find(text).unwrap();
        assert!(at("<g class=\"front\">") < at("<g class=\"series"));
        assert!(at("<span>the front</span>") > at("<span>a&lt;1</span>"));
        assert!(
            !html.contains("class=\"front c"),
            "it has no method's colour"
        );
    }

    #[test]
    fn lines_of_many_points_have_a_few_marks_where_others_have_none() {
        let html = chart(Marks::Plain, 3, 120).html().unwrap();
        let marks = html.matches("<title>").count() - html.matches("class=\"spot\"").count();
        assert_eq!(marks, 3 * MARKS_FEW);
        let chart = chart(Marks::Plain, 3, 120);
        let (one, other) = (chart.marked(120, 0), chart.marked(120, 1));
        assert!((0..120).all(|at| !(one(at) && other(at))));
    }
}
