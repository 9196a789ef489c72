//! Many lines as many small pictures: one for each, with all the others in grey behind it, on the same axes.
//!
//! The grey lines are written once for the page and referred to by each picture, so that a page of fifteen methods
//! has each of its lines twice and not fifteen times.

use super::chart::Line;
use super::frame::{Axis, Frame, PANEL};
use super::label::escape;
use std::fmt::{self, Write};

/// One picture.
pub(super) struct Panel {
    /// What it is of.
    pub(super) name: String,
    /// A number that sums it up, at the side of the name.
    pub(super) note: String,
    /// What is in colour; only the first is grey in the other pictures.
    pub(super) lines: Vec<Line>,
}

/// The pictures.
pub(super) struct Multiples<'a> {
    /// A name that nothing else of the page has.
    pub(super) id: String,
    /// Along the bottom of each.
    pub(super) x: &'a Axis,
    /// Up the left side of each.
    pub(super) y: &'a Axis,
    /// In their order.
    pub(super) panels: Vec<Panel>,
    /// Whether lines stay level until the next point.
    pub(super) steps: bool,
}

impl Multiples<'_> {
    /// The pictures beside each other, and what their axes show.
    pub(super) fn html(&self) -> Result<String, fmt::Error> {
        let lines = self.panels.iter().flat_map(|panel| &panel.lines);
        let points = lines.flat_map(|line| &line.points);
        let frame = Frame::around(&PANEL, (self.x, self.y), points, (0.0, 0.05));
        let mut out = String::new();
        let mut grey = String::new();
        for line in self.panels.iter().filter_map(|panel| panel.lines.first()) {
            grey.push_str(&frame.path(&line.points, self.steps)?);
        }
        write!(
            out,
            "<svg class=\"defs\" aria-hidden=\"true\"><defs><path id=\"{}\" d=\"{grey}\"/></defs></svg>",
            self.id
        )?;
        let (across, above) = frame.names();
        write!(
            out,
            "<p class=\"axes\">Up: {}. Along: {}.</p><div class=\"panels\">",
            escape(&above),
            escape(&across)
        )?;
        for panel in &self.panels {
            self.panel(&mut out, &frame, panel)?;
        }
        out.push_str("</div>");
        Ok(out)
    }

    fn panel(&self, out: &mut String, frame: &Frame<'_>, panel: &Panel) -> fmt::Result {
        write!(
            out,
            "<div class=\"panel\"><p><b>{}</b><span>{}</span></p>",
            escape(&panel.name),
            escape(&panel.note)
        )?;
        frame.begin(out, &panel.name)?;
        write!(out, "<use class=\"others\" href=\"#{}\"/>", self.id)?;
        for line in &panel.lines {
            let path = frame.path(&line.points, self.steps)?;
            write!(
                out,
                "<g class=\"series {}\"><path class=\"line\" d=\"{path}\"><title>{}</title></path></g>",
                line.look.class(),
                escape(&line.name)
            )?;
        }
        out.push_str("</svg></div>");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::label::Unit;
    use super::super::look::Look;
    use super::*;

    #[test]
    fn each_picture_has_its_line_and_all_lines_in_grey() {
        let panel = |place: usize| Panel {
            name: format!("<{place}>"),
            note: "50.00%".to_owned(),
            lines: vec![Line {
                name: place.to_string(),
                look: Look::of(place),
                notes: Vec::new(),
                points: vec![(0.0, 0.5), (9.0, 0.6)],
            }],
        };
        let multiples = Multiples {
            id: "time-0".to_owned(),
            x: &Axis::linear("time", Unit::Time),
            y: &Axis::linear("hit ratio", Unit::Part),
            panels: (0..15).map(panel).collect(),
            steps: false,
        };
        let html = multiples.html().unwrap();
        assert_eq!(html.matches("<path id=\"time-0\"").count(), 1);
        assert_eq!(html.matches("href=\"#time-0\"").count(), 15);
        assert_eq!(html.matches("class=\"series ").count(), 15);
        assert!(
            html.contains("Up: hit ratio (axis from 49.50%). Along: time."),
            "{html}"
        );
        assert!(html.contains("&lt;3&gt;") && !html.contains("<3>"));
    }
}
