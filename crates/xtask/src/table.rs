//! The files in `lints/`: what may not grow, as lines of a number and a name.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use anyhow::Context;

/// Reads the table `file`; `None` if there is none.
///
/// # Errors
///
/// When a line is not a number and a name.
pub(crate) fn read(root: &Path, file: &str) -> anyhow::Result<Option<BTreeMap<String, usize>>> {
    let Ok(text) = std::fs::read_to_string(root.join(file)) else {
        return Ok(None);
    };
    let mut numbers = BTreeMap::new();
    let lines = text.lines();
    for line in lines.filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let wrong = || format!("{file}: {line}");
        let (number, name) = line.split_once(' ').with_context(wrong)?;
        numbers.insert(name.to_owned(), number.parse().with_context(wrong)?);
    }
    Ok(Some(numbers))
}

/// Writes the table `file`: the lines of `header`, then the numbers in the order of their names.
///
/// # Errors
///
/// When the file cannot be written.
pub(crate) fn write(
    root: &Path,
    file: &str,
    header: &str,
    numbers: &BTreeMap<String, usize>,
) -> anyhow::Result<()> {
    let mut text = header.to_owned();
    for (name, number) in numbers {
        writeln!(text, "{number} {name}")?;
    }
    std::fs::write(root.join(file), text).context(file.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(read(root.path(), "table").unwrap(), None);
        let numbers = BTreeMap::from([("a name".to_owned(), 7), ("b".to_owned(), 40)]);

        write(root.path(), "table", "# Header.\n", &numbers).unwrap();

        let text = std::fs::read_to_string(root.path().join("table")).unwrap();
        assert_eq!(text, "# Header.\n7 a name\n40 b\n");
        assert_eq!(read(root.path(), "table").unwrap(), Some(numbers));
    }

    #[test]
    fn a_line_without_a_number_is_named() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("table"), "many a\n").unwrap();
        let error = read(root.path(), "table").unwrap_err();
        assert!(error.to_string().contains("table: many a"), "{error}");
    }
}
