//! Bars beside each other as SVG, each of pieces; a legend. Colours come from the page's style.

use super::label::escape;
use super::scale::{Scale, TICKS};
use std::fmt::{self, Write};

/// One bar.
pub(super) struct Bar {
    /// Its name, on its left side.
    pub(super) name: String,
    /// How long its pieces are, from left to right; as many as the picture has kinds.
    pub(super) pieces: Vec<f64>,
}

/// A picture of bars.
pub(super) struct Bars {
    /// What their length shows.
    pub(super) label: &'static str,
    /// How lengths are written.
    pub(super) tick: fn(f64) -> String,
    /// The name of each piece, with its place among the page's colours.
    pub(super) kinds: &'static [(&'static str, usize)],
    /// From top to bottom.
    pub(super) rows: Vec<Bar>,
}

const WIDTH: f64 = 640.0;
const LEFT: f64 = 250.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 8.0;
const BOTTOM: f64 = 44.0;
/// From the top of a bar to that of the next.
const ROW: f64 = 26.0;
const THICK: f64 = 16.0;
/// Letters that fit on the left side of a bar.
const LETTERS: usize = 38;

impl Bars {
    /// The picture as an SVG element, and its legend below it.
    pub(super) fn html(&self) -> Result<String, fmt::Error> {
        let lengths = self.rows.iter().map(|bar| bar.pieces.iter().sum());
        let scale = Scale::of_lengths(lengths);
        let height = self.rows.iter().fold(0.0, |height, _| height + ROW);
        let bottom = TOP + height;
        let mut out = String::new();
        write!(
            out,
            "<svg class=\"chart\" viewBox=\"0 0 {WIDTH} {}\" role=\"img\" aria-label=\"{}\">",
            bottom + BOTTOM,
            self.label
        )?;
        self.axis(&mut out, &scale, bottom)?;
        let mut top = TOP + (ROW - THICK) / 2.0;
        for bar in &self.rows {
            self.bar(&mut out, bar, &scale, top)?;
            top += ROW;
        }
        out.push_str("</svg>");
        // One kind has its name at the axis.
        if self.kinds.len() < 2 {
            return Ok(out);
        }
        out.push_str("<ul class=\"legend\">");
        for (kind, colour) in self.kinds {
            write!(
                out,
                "<li><svg class=\"c{colour}\" viewBox=\"0 0 22 10\"><rect class=\"bar\" width=\"22\" height=\"10\"/></svg>{kind}</li>"
            )?;
        }
        out.push_str("</ul>");
        Ok(out)
    }

    fn axis(&self, out: &mut String, scale: &Scale, bottom: f64) -> fmt::Result {
        for tick in scale.ticks(TICKS).0 {
            let at = along(scale, tick);
            write!(
                out,
                "<path class=\"grid\" d=\"M{at:.1} {TOP}V{bottom}\"/>\
                 <text class=\"tick\" x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                bottom + 18.0,
                (self.tick)(tick)
            )?;
        }
        write!(
            out,
            "<text class=\"name\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            f64::midpoint(LEFT, WIDTH - RIGHT),
            bottom + BOTTOM - 8.0,
            escape(self.label)
        )
    }

    fn bar(&self, out: &mut String, bar: &Bar, scale: &Scale, top: f64) -> fmt::Result {
        assert_eq!(bar.pieces.len(), self.kinds.len(), "a piece of each kind");
        write!(
            out,
            "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 8.0,
            top + 12.0,
            escape(&shortened(&bar.name))
        )?;
        let mut begin = 0.0;
        for ((kind, colour), piece) in self.kinds.iter().zip(&bar.pieces) {
            let (from, to) = (along(scale, begin), along(scale, begin + piece));
            begin += piece;
            write!(
                out,
                "<g class=\"c{colour}\"><rect class=\"bar\" x=\"{from:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{THICK}\">\
                 <title>{}\n{kind}: {}</title></rect></g>",
                to - from,
                escape(&bar.name),
                (self.tick)(*piece)
            )?;
        }
        Ok(())
    }
}

fn along(scale: &Scale, value: f64) -> f64 {
    LEFT + scale.place(value) * (WIDTH - LEFT - RIGHT)
}

/// The end of a name that is too long tells more than its beginning: names differ there.
fn shortened(name: &str) -> String {
    let letters = name.chars().count();
    if letters <= LETTERS {
        return name.to_owned();
    }
    let end: String = name.chars().skip(letters - LETTERS + 1).collect();
    format!("…{end}")
}

#[cfg(test)]
mod tests {
    use super::super::label;
    use super::*;

    #[test]
    fn pieces_follow_one_another_and_names_are_no_markup() {
        let bars = Bars {
            label: "part",
            tick: label::percent,
            kinds: &[("staged", 0), ("hot", 2)],
            rows: vec![Bar {
                name: "a<b".to_owned(),
                pieces: vec![0.25, 0.75],
            }],
        };
        let html = bars.html().unwrap();
        // 366 wide from 250 on.
        assert!(
            html.contains("x=\"250.0\" y=\"13.0\" width=\"91.5\""),
            "{html}"
        );
        assert!(
            html.contains("x=\"341.5\" y=\"13.0\" width=\"274.5\""),
            "{html}"
        );
        assert!(html.contains("a&lt;b") && !html.contains("a<b"));
        assert!(html.contains("staged: 25%") && html.contains(">100%<"));
    }

    #[test]
    fn a_long_name_keeps_its_end() {
        let name = format!("{}end", "x".repeat(60));
        let short = shortened(&name);
        assert_eq!(short.chars().count(), LETTERS);
        assert!(short.starts_with('…') && short.ends_with("end"), "{short}");
        assert_eq!(shortened("lru"), "lru");
    }
}
