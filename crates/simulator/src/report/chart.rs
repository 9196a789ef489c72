//! A chart of lines or points as SVG: axes, grid, lines, a legend. Colours come from the page's style.

use super::label::escape;
use super::scale::{Kind, Scale};
use std::fmt::{self, Write};

/// One axis.
pub(super) struct Axis {
    /// What it shows, with its unit.
    pub(super) label: &'static str,
    /// How it maps values.
    pub(super) kind: Kind,
    /// How its ticks are written.
    pub(super) tick: fn(f64) -> String,
    /// Whether a linear one begins at zero.
    pub(super) from_zero: bool,
}

/// One line with its points.
pub(super) struct Line {
    /// Its name in the legend.
    pub(super) name: String,
    /// Which of the page's colours.
    pub(super) colour: usize,
    /// From left to right.
    pub(super) points: Vec<(f64, f64)>,
}

/// How the points of a line are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Marks {
    /// A line with a dot at each point.
    Dotted,
    /// A line alone.
    Plain,
    /// A line that stays level until the next point.
    Steps,
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
}

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 48.0;

/// Colours that the page's style names `c0`, `c1` and so on.
pub(super) const COLOURS: usize = 12;

impl Chart {
    /// The chart as an SVG element, and its legend below it.
    pub(super) fn html(&self) -> Result<String, fmt::Error> {
        let values = |pick: fn(&(f64, f64)) -> f64| {
            self.lines.iter().flat_map(|line| &line.points).map(pick)
        };
        let x = Scale::over(self.x.kind, values(|point| point.0), self.x.from_zero);
        let y = Scale::over(self.y.kind, values(|point| point.1), self.y.from_zero);
        let mut out = String::new();
        write!(
            out,
            "<svg class=\"chart\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{} against {}\">",
            self.y.label, self.x.label
        )?;
        self.axes(&mut out, &x, &y)?;
        for line in &self.lines {
            self.line(&mut out, line, &x, &y)?;
        }
        out.push_str("</svg>");
        self.legend(&mut out)?;
        Ok(out)
    }

    fn axes(&self, out: &mut String, x: &Scale, y: &Scale) -> fmt::Result {
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        for tick in y.ticks() {
            let at = up(y, tick);
            write!(
                out,
                "<path class=\"grid\" d=\"M{LEFT} {at:.1}H{right}\"/>\
                 <text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 8.0,
                at + 4.0,
                (self.y.tick)(tick)
            )?;
        }
        for tick in x.ticks() {
            let at = along(x, tick);
            write!(
                out,
                "<path class=\"grid\" d=\"M{at:.1} {TOP}V{bottom}\"/>\
                 <text class=\"tick\" x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                bottom + 18.0,
                (self.x.tick)(tick)
            )?;
        }
        write!(
            out,
            "<path class=\"axis\" d=\"M{LEFT} {TOP}V{bottom}H{right}\"/>\
             <text class=\"name\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\
             <text class=\"name\" transform=\"translate(16 {:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            f64::midpoint(LEFT, right),
            HEIGHT - 8.0,
            escape(self.x.label),
            f64::midpoint(TOP, bottom),
            escape(self.y.label)
        )
    }

    fn line(&self, out: &mut String, line: &Line, x: &Scale, y: &Scale) -> fmt::Result {
        let mut path = String::new();
        for (place, point) in line.points.iter().enumerate() {
            let (across, above) = (along(x, point.0), up(y, point.1));
            match (place, self.marks) {
                (0, _) => write!(path, "M{across:.1} {above:.1}")?,
                (_, Marks::Steps) => write!(path, "H{across:.1}V{above:.1}")?,
                _ => write!(path, "L{across:.1} {above:.1}")?,
            }
        }
        let colour = line.colour % COLOURS;
        // The same colour again means another dash.
        let dash = line.colour / COLOURS % 4;
        write!(
            out,
            "<g class=\"c{colour} d{dash}\"><path class=\"line\" d=\"{path}\"/>"
        )?;
        for point in &line.points {
            let radius = if self.marks == Marks::Dotted {
                3.2
            } else {
                5.0
            };
            let class = if self.marks == Marks::Dotted {
                "dot"
            } else {
                "spot"
            };
            write!(
                out,
                "<circle class=\"{class}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"{radius}\"><title>{}\n{}: {}\n{}: {}</title></circle>",
                along(x, point.0),
                up(y, point.1),
                escape(&line.name),
                escape(self.x.label),
                (self.x.tick)(point.0),
                escape(self.y.label),
                (self.y.tick)(point.1)
            )?;
        }
        out.push_str("</g>");
        Ok(())
    }

    fn legend(&self, out: &mut String) -> fmt::Result {
        out.push_str("<ul class=\"legend\">");
        for line in &self.lines {
            write!(
                out,
                "<li class=\"c{} d{}\"><svg viewBox=\"0 0 22 10\"><path class=\"line\" d=\"M1 5H21\"/></svg>{}</li>",
                line.colour % COLOURS,
                line.colour / COLOURS % 4,
                escape(&line.name)
            )?;
        }
        out.push_str("</ul>");
        Ok(())
    }
}

fn along(scale: &Scale, value: f64) -> f64 {
    LEFT + scale.place(value) * (WIDTH - LEFT - RIGHT)
}

fn up(scale: &Scale, value: f64) -> f64 {
    HEIGHT - BOTTOM - scale.place(value) * (HEIGHT - TOP - BOTTOM)
}

#[cfg(test)]
mod tests {
    use super::super::label;
    use super::*;

    #[test]
    fn a_chart_holds_its_lines_ticks_and_names() {
        let axis = |label, tick| Axis {
            label,
            kind: Kind::Linear,
            tick,
            from_zero: true,
        };
        let chart = Chart {
            x: axis("size", label::count),
            y: axis("miss ratio", label::percent),
            lines: vec![Line {
                name: "a<b".to_owned(),
                colour: 13,
                points: vec![(0.0, 1.0), (10.0, 0.5)],
            }],
            marks: Marks::Dotted,
        };
        let html = chart.html().unwrap();
        assert!(html.contains("M64.0 12.0L616.0 162.0"), "{html}");
        assert!(html.contains("a&lt;b") && !html.contains("a<b"));
        assert!(html.contains(">100%<") && html.contains("class=\"c1 d1\""));
    }
}
