//! Tables for people: columns that line up, no lines between them.

use std::fmt::{self, Write};

/// Which side a column's cells stand on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// A table with a heading.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    columns: Vec<(&'static str, Side)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table of these columns.
    pub(crate) fn new(columns: &[(&'static str, Side)]) -> Self {
        Self {
            columns: columns.to_vec(),
            rows: Vec::new(),
        }
    }

    /// Adds a row.
    ///
    /// # Panics
    /// If it has not one cell to a column.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        assert_eq!(cells.len(), self.columns.len(), "a cell to a column");
        self.rows.push(cells);
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let heading: Vec<String> = self
            .columns
            .iter()
            .map(|(name, _)| name.to_uppercase())
            .collect();
        let widths: Vec<usize> = (0..self.columns.len())
            .map(|at| {
                let cells = self.rows.iter().map(|row| row[at].chars().count());
                cells
                    .chain([heading[at].chars().count()])
                    .max()
                    .unwrap_or(0)
            })
            .collect();
        for row in std::iter::once(&heading).chain(&self.rows) {
            let mut line = String::new();
            for ((cell, width), (_, side)) in row.iter().zip(&widths).zip(&self.columns) {
                match side {
                    Side::Left => write!(line, "{cell:<width$}  ")?,
                    Side::Right => write!(line, "{cell:>width$}  ")?,
                }
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// Facts with names, a line each, values in one column.
pub(crate) fn facts(f: &mut impl Write, facts: &[(&str, String)]) -> fmt::Result {
    let width = facts.iter().map(|(name, _)| name.chars().count()).max();
    let width = width.unwrap_or(0);
    for (name, value) in facts {
        writeln!(f, "{name:<width$}  {value}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_on_their_side() {
        let mut table = Table::new(&[("disk", Side::Left), ("iops", Side::Right)]);
        table.row(vec!["a".into(), "12".into()]);
        table.row(vec!["longer".into(), "12345".into()]);
        assert_eq!(
            table.to_string(),
            "DISK     IOPS\na          12\nlonger  12345\n"
        );
    }
}
