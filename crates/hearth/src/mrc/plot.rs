//! Curves as letters on a terminal: where people look first.

use std::fmt::{self, Write};

/// Characters from the left axis to the right end, and lines from top to bottom.
const COLUMNS: usize = 64;
const LINES: usize = 16;
/// What the curves are drawn with, in their order; more curves than letters share the last.
const LETTERS: [char; 8] = ['*', 'o', '+', 'x', '#', '@', '%', '='];

/// The letter of the curve at this place.
pub(super) fn letter(place: usize) -> char {
    LETTERS[place.min(LETTERS.len() - 1)]
}

/// Draws curves, each a function of the column's part of the width, 0 to 1, whose values are 0 to 1.
/// `right` is what stands below the right end.
pub(crate) fn draw(
    out: &mut String,
    curves: &[&dyn Fn(f64) -> f64],
    title: &str,
    right: &str,
) -> fmt::Result {
    let mut canvas = [[' '; COLUMNS]; LINES];
    // The first curve is drawn last, so that it is the one that is seen where several meet.
    for (place, curve) in curves.iter().enumerate().rev() {
        let mut above: Option<usize> = None;
        for column in 0..COLUMNS {
            let line = line_of(curve(part(column)));
            // A cliff is drawn as one.
            let from = above.map_or(line, |above| (above + 1).min(line));
            for row in canvas.iter_mut().take(line + 1).skip(from) {
                row[column] = letter(place);
            }
            above = Some(line);
        }
    }
    writeln!(out, "{title}")?;
    for (at, row) in canvas.iter().enumerate() {
        let axis = match at {
            0 => "100% ",
            8 => " 50% ",
            15 => "  0% ",
            _ => "     ",
        };
        let text: String = row.iter().collect();
        writeln!(out, "{axis}|{}", text.trim_end())?;
    }
    writeln!(out, "     +{}", "-".repeat(COLUMNS))?;
    writeln!(out, "      0{right:>width$}", width = COLUMNS - 1)
}

/// A line below the axis with letters at parts of the width, 0 to 1; later ones stand over earlier ones,
/// and what lies beyond the width is left out.
pub(crate) fn marks(out: &mut String, marks: &[(char, f64)]) -> fmt::Result {
    let mut line = [' '; COLUMNS];
    for (letter, at) in marks {
        let column = (0..COLUMNS).min_by(|a, b| {
            let distance = |column: usize| (part(column) - at).abs();
            distance(*a).total_cmp(&distance(*b))
        });
        if let Some(column) = column.filter(|_| (0.0..=1.0).contains(at)) {
            line[column] = *letter;
        }
    }
    let text: String = line.iter().collect();
    writeln!(out, "      {}", text.trim_end())
}

#[allow(clippy::cast_precision_loss, reason = "columns are few")]
fn part(column: usize) -> f64 {
    (column as f64 + 0.5) / COLUMNS as f64
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "between 0 and LINES"
)]
fn line_of(value: f64) -> usize {
    let from_top = (1.0 - value.clamp(0.0, 1.0)) * (LINES - 1) as f64;
    from_top.round() as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cliff_is_a_line_from_top_to_bottom() {
        let mut out = String::new();
        let cliff = |part: f64| if part < 0.5 { 1.0 } else { 0.0 };
        draw(&mut out, &[&cliff], "misses", "1.0GiB").unwrap();
        let lines: Vec<&str> = out.lines().collect();
        assert_eq!(lines[0], "misses");
        assert_eq!(lines[1], format!("100% |{}", "*".repeat(32)));
        assert_eq!(lines[9], format!(" 50% |{}*", " ".repeat(32)));
        assert_eq!(
            lines[16],
            format!("  0% |{}{}", " ".repeat(32), "*".repeat(32))
        );
        assert_eq!(lines.len(), 19);
        assert!(lines[18].ends_with("1.0GiB"));
    }

    #[test]
    fn marks_stand_below_their_part_of_the_width() {
        let mut out = String::new();
        marks(&mut out, &[('T', 0.5), ('P', 0.0), ('X', 1.5)]).unwrap();
        assert_eq!(out, format!("      P{}T\n", " ".repeat(30)));
    }

    #[test]
    fn the_first_curve_is_on_top() {
        let mut out = String::new();
        let level = |_: f64| 0.5;
        draw(&mut out, &[&level, &level], "", "").unwrap();
        assert!(!out.contains('o'));
    }
}
