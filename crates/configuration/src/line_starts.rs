//! On which line a place of a text is.

use std::ops::Range;

/// Where each line of a text begins.
pub(super) struct LineStarts(Vec<usize>);

impl LineStarts {
    pub(super) fn of(text: &str) -> Self {
        let behind_breaks = text.match_indices('\n').map(|(at, _)| at + 1);
        Self(std::iter::once(0).chain(behind_breaks).collect())
    }

    /// The line on which a place begins, counted from 1.
    pub(super) fn line_at(&self, span: &Range<usize>) -> usize {
        self.0.partition_point(|start| *start <= span.start)
    }
}

/// The line on which one place of a text begins, counted from 1.
pub(super) fn line_at(text: &str, span: &Range<usize>) -> usize {
    LineStarts::of(text).line_at(span)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_ends_with_its_break() {
        let lines = LineStarts::of("a\n\nbc\nd");
        let found: Vec<usize> = (0..7).map(|at| lines.line_at(&(at..at + 1))).collect();
        assert_eq!(found, [1, 1, 2, 3, 3, 3, 4]);
        assert_eq!(line_at("", &(0..0)), 1);
    }
}
