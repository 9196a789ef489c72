//! The measurements as text and as JSON.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::Crate;

/// Types of a crate that the table lists.
const TYPES_LISTED: usize = 5;

/// Types with fewer methods are not worth a line.
const METHODS_LISTED: usize = 10;

/// A line for each crate, and below it one for each of its largest types.
pub(super) fn table(crates: &[Crate]) -> String {
    let mut text = format!(
        "{:<28} {:>7} {:>6} {:>14} {:>11} {:>10}\n",
        "crate, type", "modules", "arrows", "in circles", "open fields", "of states"
    );
    for measured in crates {
        let largest = measured.circles.first().map_or(0, Vec::len);
        let circles = match measured.circles.len() {
            0 => "-".to_owned(),
            1 => largest.to_string(),
            count => format!("{} ({count}: {largest}..)", measured.in_circles()),
        };
        let _ = writeln!(
            text,
            "{:<28} {:>7} {:>6} {:>14} {:>11} {:>10}",
            measured.name,
            measured.modules,
            measured.arrows.len(),
            circles,
            measured.open_fields(),
            measured.open_state(),
        );
        let listed = measured.types.iter().take(TYPES_LISTED);
        for each in listed.filter(|each| each.methods >= METHODS_LISTED) {
            let _ = writeln!(
                text,
                "  {:<26} {:>3} methods in {:>2} files, {:>2} open fields",
                each.name, each.methods, each.files, each.open_fields,
            );
        }
    }
    text
}

/// Everything that was measured.
pub(super) fn json(crates: &[Crate]) -> Value {
    crates
        .iter()
        .map(|measured| {
            let types: Vec<Value> = measured
                .types
                .iter()
                .map(|each| {
                    json!({
                        "name": each.name,
                        "methods": each.methods,
                        "files": each.files,
                        "open_fields": each.open_fields,
                        "changes": each.changes,
                    })
                })
                .collect();
            json!({
                "crate": measured.name,
                "modules": measured.modules,
                "open_fields": measured.open_fields(),
                "open_state": measured.open_state(),
                "arrows": measured.arrows,
                "circles": measured.circles,
                "types": types,
            })
        })
        .collect()
}
