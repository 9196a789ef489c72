//! Traffic and loads as text: a line a pair, or a line a VM.
//!
//! ```text
//!   vm,vm,bytes_per_second          vm,bytes,dirty_bytes_per_second
//!   web,db,125MiB/s                 web,4GiB,10MiB/s
//!   db,log,3.5e6                    db,68719476736,1.2e8
//! ```
//! Sizes and rates are numbers, or have units. Empty lines and lines that begin with `#` are skipped; so is a first line
//! whose last field is no quantity: a heading. A pair that comes again is added, as the other direction is.

use crate::error::TrafficError;
use crate::latency::Load;
use crate::limits::LINES_MAX;
use crate::rate::Rate;
use crate::traffic::TrafficMatrix;
use units::Bytes;

/// Why a text is refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CsvError {
    /// A line that is not as it should be.
    #[error("line {line}: {problem}")]
    Line {
        /// Which, from 1.
        line: usize,
        /// What is wrong, and what to write.
        problem: String,
    },
    /// Too many lines.
    #[error("it has more than {LINES_MAX} lines: write each pair once")]
    TooLong,
    /// The VMs or rates of a line.
    #[error("line {line}")]
    Traffic {
        /// Which, from 1.
        line: usize,
        /// What is wrong.
        source: TrafficError,
    },
}

/// The traffic of a text of pairs.
///
/// # Errors
/// If a line is no pair with a rate.
pub fn traffic(text: &str) -> Result<TrafficMatrix, CsvError> {
    let mut pairs = Vec::new();
    for (line, [first, second, rate]) in records(text, "a VM, a VM, and bytes a second")? {
        match rate.parse::<Rate>() {
            Ok(rate) => pairs.push((line, first, second, rate.bytes_per_second())),
            Err(_) if is_heading(&pairs) => {}
            Err(error) => return Err(wrong(line, &error)),
        }
    }
    let mut last = 0;
    let named = pairs.iter().map(|(line, first, second, rate)| {
        last = *line;
        (*first, *second, *rate)
    });
    let matrix = TrafficMatrix::from_pairs(named);
    matrix.map_err(|source| CsvError::Traffic { line: last, source })
}

/// The VMs of a text, each with its load, in its order.
///
/// # Errors
/// If a line is no VM with its load, or a VM is there twice.
pub fn loads(text: &str) -> Result<Vec<(String, Load)>, CsvError> {
    let mut found = Vec::new();
    let mut names: Vec<&str> = Vec::new();
    let mut last = 0;
    for (line, [name, size, dirty]) in records(
        text,
        "a VM, its bytes to move, and the bytes a second that it makes dirty",
    )? {
        let dirty = match dirty.parse::<Rate>() {
            Ok(dirty) => dirty,
            Err(_) if is_heading(&found) => continue,
            Err(error) => return Err(wrong(line, &error)),
        };
        let size: Bytes = size.parse().map_err(|error| wrong(line, &error))?;
        found.push((name.to_owned(), Load { size, dirty }));
        names.push(name);
        last = line;
    }
    match TrafficMatrix::of_vms(names) {
        Ok(_) => Ok(found),
        Err(source) => Err(CsvError::Traffic { line: last, source }),
    }
}

/// Only what nothing comes before can be one.
fn is_heading<T>(before: &[T]) -> bool {
    before.is_empty()
}

/// The lines that say something, with their numbers.
fn records<'a>(text: &'a str, wanted: &str) -> Result<Vec<(usize, [&'a str; 3])>, CsvError> {
    let mut records = Vec::new();
    for (at, content) in text.lines().enumerate() {
        if at == LINES_MAX {
            return Err(CsvError::TooLong);
        }
        let content = content.trim();
        if content.is_empty() || content.starts_with('#') {
            continue;
        }
        let mut fields = content.split(',').map(str::trim);
        let record = [fields.next(), fields.next(), fields.next(), fields.next()];
        let [Some(first), Some(second), Some(third), None] = record else {
            let problem = format!("write three fields with commas between: {wanted}");
            return Err(CsvError::Line {
                line: at + 1,
                problem,
            });
        };
        records.push((at + 1, [first, second, third]));
    }
    Ok(records)
}

fn wrong(line: usize, error: &dyn std::error::Error) -> CsvError {
    let problem = error.to_string();
    CsvError::Line { line, problem }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn pairs_are_read_with_and_without_units() {
        let text =
            "vm,vm,bytes_per_second\n# measured\n\nweb , db, 1MiB/s\r\ndb,web,24\nweb,log,8kbit\n";
        let matrix = traffic(text).unwrap();
        assert_eq!(matrix.names(), ["web", "db", "log"]);
        assert_eq!(matrix.row(0), [0.0, 1_048_600.0, 1_000.0]);
    }

    #[test]
    fn loads_are_read_in_their_order() {
        let found = loads("name,bytes,dirty\nweb,4GiB,10MiB/s\ndb,1024,0\n").unwrap();
        assert_eq!(found[0].0, "web");
        assert_eq!(found[0].1.size, Bytes::gib(4));
        assert_eq!(
            found[1].1,
            Load {
                size: Bytes::new(1024),
                dirty: Rate::ZERO
            }
        );
    }

    #[test]
    fn errors_name_the_line_and_what_to_write() {
        for (text, said) in [
            ("a,b,1\na,b\n", "line 2: write three fields"),
            ("a,b,1\na,b,fast\n", "line 2: 'fast' is not a rate"),
            ("a,b,1\na,b,-1\n", "line 2: '-1' is not a rate"),
            ("a,b,1,2\n", "line 1: write three fields"),
        ] {
            let error = traffic(text).unwrap_err().to_string();
            assert!(error.starts_with(said), "{error}");
        }
        let error = loads("a,1,1\na,2,2\n").unwrap_err();
        assert!(
            matches!(error, CsvError::Traffic { line: 2, .. }),
            "{error}"
        );
        assert!(
            loads("a,much,1\n")
                .unwrap_err()
                .to_string()
                .contains("'much' is not a size")
        );
    }

    #[test]
    fn a_text_has_a_longest_length() {
        let long = "a,b,1\n".repeat(LINES_MAX + 1);
        assert_eq!(traffic(&long).unwrap_err(), CsvError::TooLong);
    }

    proptest! {
        #[test]
        fn no_text_is_fatal(text in "([a-c,\"#\\-\\.\u{0}é0-9eENan]{0,12}\n){0,12}") {
            if let Ok(matrix) = traffic(&text) {
                prop_assert!(matrix.total().is_finite());
            }
            let _ = loads(&text);
        }
    }
}
