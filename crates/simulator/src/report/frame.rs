//! What lines are drawn in: two axes with their ticks, and the way from values to places.

use super::label::{Unit, escape};
use super::scale::{Kind, Scale};
use std::fmt::{self, Write};

/// One axis.
#[derive(Clone, Copy)]
pub(super) struct Axis {
    /// What it shows.
    pub(super) label: &'static str,
    /// How it maps values.
    pub(super) kind: Kind,
    /// What its values count.
    pub(super) unit: Unit,
}

impl Axis {
    /// An axis of equal steps.
    pub(super) const fn linear(label: &'static str, unit: Unit) -> Self {
        Self {
            label,
            kind: Kind::Linear,
            unit,
        }
    }

    /// Its name, and where it begins if a reader could take that for zero.
    pub(super) fn name(&self, scale: &Scale) -> String {
        match scale.cut_at() {
            Some(low) => format!("{} (axis from {})", self.label, self.unit.text(low)),
            None => self.label.to_owned(),
        }
    }
}

/// A picture's size, its margins, and how much it says: units of the picture's own.
pub(super) struct Shape {
    pub(super) width: f64,
    pub(super) height: f64,
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    /// Ticks along and up, about.
    ticks: (usize, usize),
    /// Whether axes have their names beside them.
    names_axes: bool,
}

/// A picture by itself.
pub(super) const WIDE: Shape = Shape {
    width: 640.0,
    height: 380.0,
    left: 70.0,
    right: 24.0,
    top: 12.0,
    bottom: 48.0,
    ticks: (6, 5),
    names_axes: true,
};

/// One of many beside each other.
pub(super) const PANEL: Shape = Shape {
    width: 300.0,
    height: 150.0,
    left: 60.0,
    right: 14.0,
    top: 6.0,
    bottom: 22.0,
    ticks: (3, 3),
    names_axes: false,
};

/// A shape with its axes.
pub(super) struct Frame<'a> {
    pub(super) shape: &'static Shape,
    x: (&'a Axis, Scale),
    y: (&'a Axis, Scale),
}

impl<'a> Frame<'a> {
    /// The frame that shows all `points`, with `margins` free along and up, as parts of their spans.
    pub(super) fn around<'p>(
        shape: &'static Shape,
        (x, y): (&'a Axis, &'a Axis),
        points: impl Iterator<Item = &'p (f64, f64)> + Clone,
        margins: (f64, f64),
    ) -> Self {
        let across = points.clone().map(|point| point.0);
        Self {
            shape,
            x: (x, Scale::fit(x.kind, across, margins.0)),
            y: (
                y,
                Scale::fit(y.kind, points.map(|point| point.1), margins.1),
            ),
        }
    }

    pub(super) fn along(&self, value: f64) -> f64 {
        let shape = self.shape;
        shape.left + self.x.1.place(value) * (shape.width - shape.left - shape.right)
    }

    pub(super) fn up(&self, value: f64) -> f64 {
        let shape = self.shape;
        shape.height
            - shape.bottom
            - self.y.1.place(value) * (shape.height - shape.top - shape.bottom)
    }

    /// What both axes show, as their names say.
    pub(super) fn names(&self) -> (String, String) {
        (self.x.0.name(&self.x.1), self.y.0.name(&self.y.1))
    }

    /// What a point is, in words.
    pub(super) fn words(&self, name: &str, (x, y): (f64, f64)) -> String {
        let (across, above) = (self.x.0, self.y.0);
        escape(&format!(
            "{name}\n{}: {}\n{}: {}",
            across.label,
            across.unit.text(x),
            above.label,
            above.unit.text(y)
        ))
    }

    /// The way through `points`, as a path's data; level up to the next point if `steps`.
    pub(super) fn path(&self, points: &[(f64, f64)], steps: bool) -> Result<String, fmt::Error> {
        let mut path = String::new();
        for (place, (x, y)) in points.iter().enumerate() {
            let (across, above) = (self.along(*x), self.up(*y));
            match place {
                0 => write!(path, "M{across:.1} {above:.1}")?,
                _ if steps => write!(path, "H{across:.1}V{above:.1}")?,
                _ => write!(path, "L{across:.1} {above:.1}")?,
            }
        }
        Ok(path)
    }

    /// Begins the picture: its element, grid, ticks, axes and their names.
    pub(super) fn begin(&self, out: &mut String, name: &str) -> fmt::Result {
        let shape = self.shape;
        write!(
            out,
            "<svg class=\"chart\" viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">",
            shape.width,
            shape.height,
            escape(name)
        )?;
        self.grid(out)?;
        let (right, bottom) = (shape.width - shape.right, shape.height - shape.bottom);
        let left = shape.left;
        write!(
            out,
            "<path class=\"axis\" d=\"M{left} {}V{bottom}H{right}\"/>",
            shape.top
        )?;
        // A broken axis is one that does not begin at zero.
        if self.y.1.cut_at().is_some() {
            let (x, y) = (left, bottom - 10.0);
            write!(
                out,
                "<path class=\"cut\" d=\"M{:.1} {:.1}l10 -4M{:.1} {:.1}l10 -4\"/>",
                x - 5.0,
                y + 5.0,
                x - 5.0,
                y
            )?;
        }
        if self.x.1.cut_at().is_some() {
            let (x, y) = (left + 10.0, bottom);
            write!(
                out,
                "<path class=\"cut\" d=\"M{:.1} {:.1}l4 -10M{:.1} {:.1}l4 -10\"/>",
                x - 5.0,
                y + 5.0,
                x,
                y + 5.0
            )?;
        }
        if !shape.names_axes {
            return Ok(());
        }
        let (across, above) = self.names();
        write!(
            out,
            "<text class=\"name\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\
             <text class=\"name\" transform=\"translate(16 {:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            f64::midpoint(left, right),
            shape.height - 8.0,
            escape(&across),
            f64::midpoint(shape.top, bottom),
            escape(&above)
        )
    }

    fn grid(&self, out: &mut String) -> fmt::Result {
        let shape = self.shape;
        let (right, bottom) = (shape.width - shape.right, shape.height - shape.bottom);
        let (ticks, step) = self.y.1.ticks(shape.ticks.1);
        for tick in ticks {
            let at = self.up(tick);
            write!(
                out,
                "<path class=\"grid\" d=\"M{} {at:.1}H{right}\"/>\
                 <text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                shape.left,
                shape.left - 7.0,
                at + 4.0,
                self.y.0.unit.tick(tick, step)
            )?;
        }
        let (ticks, step) = self.x.1.ticks(shape.ticks.0);
        for tick in ticks {
            let at = self.along(tick);
            write!(
                out,
                "<path class=\"grid\" d=\"M{at:.1} {}V{bottom}\"/>\
                 <text class=\"tick\" x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                shape.top,
                bottom + 16.0,
                self.x.0.unit.tick(tick, step)
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(y: &[(f64, f64)]) -> String {
        let across = Axis::linear("time", Unit::Time);
        let above = Axis::linear("hit ratio", Unit::Part);
        let frame = Frame::around(&WIDE, (&across, &above), y.iter(), (0.0, 0.05));
        let mut out = String::new();
        frame.begin(&mut out, "a picture").unwrap();
        out
    }

    #[test]
    fn an_axis_that_does_not_begin_at_zero_says_so() {
        let cut = frame(&[(0.0, 0.62), (10.0, 0.68)]);
        assert!(cut.contains("hit ratio (axis from 61.70%)"), "{cut}");
        assert_eq!(cut.matches("class=\"cut\"").count(), 1);
        let whole = frame(&[(0.0, 0.1), (10.0, 0.68)]);
        assert!(!whole.contains("axis from") && !whole.contains("class=\"cut\""));
        assert!(whole.contains(">0%<"), "{whole}");
    }
}
