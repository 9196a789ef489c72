//! The ratchet on structure: what is too large may shrink, not grow, and nothing new becomes too large.
//!
//! `lints/structure.txt` has what exceeds the limits: the methods and the files of a type, the modules of a
//! crate that lie in circles, and the open fields of its types that change themselves. (Open fields of
//! types without such methods are records, whose fields are their interface.) A number that fell is
//! lowered in the table by `cargo xtask tidy --record`; none is ever raised by it.

use std::collections::BTreeMap;
use std::path::Path;

use super::{Crate, measure};
use crate::findings::Findings;
use crate::table;

const TABLE: &str = "lints/structure.txt";
const TABLE_HEADER: &str = "\
# What of the structure of the crates exceeds its limit, each with the number that it may not exceed.
# Lowered by `cargo xtask tidy --record`; `cargo xtask structure` shows all numbers.
";

/// Something that is limited.
struct Limit {
    /// What is counted, with the word that leads to the name: `methods of`.
    counted: &'static str,
    /// How many there may be without a line in the table.
    most: usize,
    /// What to do about more.
    remedy: &'static str,
}

const METHODS: Limit = Limit {
    counted: "methods of",
    most: 40,
    remedy: "give a part of them a type of its own",
};
const FILES: Limit = Limit {
    counted: "files with methods of",
    most: 4,
    remedy: "give a part of its methods a type of its own",
};
const CIRCLES: Limit = Limit {
    counted: "modules in circles of",
    most: 0,
    remedy: "let one of the two modules do without the other (`cargo xtask structure --json` lists arrows)",
};
const OPEN_STATE: Limit = Limit {
    counted: "open fields of types that change themselves in",
    most: 0,
    remedy: "make fields private, and ask the type for what is needed",
};
const LIMITS: [Limit; 4] = [METHODS, FILES, CIRCLES, OPEN_STATE];

/// Compares the workspace with the limits and the table.
///
/// # Errors
///
/// When a source file or the table cannot be read.
pub(crate) fn check(root: &Path, findings: &mut Findings) -> anyhow::Result<()> {
    let accepted = table::read(root, TABLE)?.unwrap_or_default();
    compare(&numbers(&measure(root)?), &accepted, findings);
    Ok(())
}

/// Lowers the numbers of the table to what is there now. Without a table it is made.
///
/// # Errors
///
/// When a source file or the table cannot be read, or the table cannot be written.
pub(crate) fn record(root: &Path) -> anyhow::Result<()> {
    let numbers = numbers(&measure(root)?);
    let lowered = match table::read(root, TABLE)? {
        Some(accepted) => lower(&numbers, accepted),
        None => numbers
            .into_iter()
            .filter(|(name, number)| *number > limit(name).most)
            .collect(),
    };
    table::write(root, TABLE, TABLE_HEADER, &lowered)
}

/// Everything that is limited, with its number.
fn numbers(crates: &[Crate]) -> BTreeMap<String, usize> {
    let mut numbers = BTreeMap::new();
    for measured in crates {
        let mut note = |limit: &Limit, name: &str, number: usize| {
            numbers.insert(format!("{} {name}", limit.counted), number);
        };
        note(&CIRCLES, &measured.name, measured.in_circles());
        note(&OPEN_STATE, &measured.name, measured.open_state());
        for each in &measured.types {
            let name = format!("{}::{}", measured.name, each.name);
            note(&METHODS, &name, each.methods);
            note(&FILES, &name, each.files);
        }
    }
    numbers
}

/// The limit on what `name` counts.
fn limit(name: &str) -> &'static Limit {
    let limit = LIMITS.iter().find(|limit| name.starts_with(limit.counted));
    limit.unwrap_or(&METHODS)
}

fn compare(
    numbers: &BTreeMap<String, usize>,
    accepted: &BTreeMap<String, usize>,
    findings: &mut Findings,
) {
    for (name, &number) in numbers {
        let Limit { most, remedy, .. } = *limit(name);
        let allowed = accepted.get(name).copied().unwrap_or(most);
        if number > allowed {
            findings.add(
                "structure",
                format!("{number} {name}, {allowed} allowed: {remedy}"),
            );
        }
    }
    let lowered = lower(numbers, accepted.clone());
    for (name, allowed) in accepted {
        let what = match lowered.get(name) {
            Some(number) if number == allowed => continue,
            Some(number) => format!("{number} {name} now"),
            None => format!("no need of a line for the {name} any more"),
        };
        findings.add(
            TABLE,
            format!("{allowed} {name}: {what}; `cargo xtask tidy --record` keeps that"),
        );
    }
}

/// The table with what fell, and without what came within its limit.
fn lower(
    numbers: &BTreeMap<String, usize>,
    mut accepted: BTreeMap<String, usize>,
) -> BTreeMap<String, usize> {
    accepted.retain(|name, allowed| {
        let number = numbers.get(name).copied().unwrap_or(0);
        *allowed = number.min(*allowed);
        number > limit(name).most
    });
    accepted
}

#[cfg(test)]
mod tests {
    use super::*;

    const CACHE: &str = "methods of cache::Cache";

    fn table(lines: &[(&str, usize)]) -> BTreeMap<String, usize> {
        let owned = lines
            .iter()
            .map(|(name, number)| ((*name).to_owned(), *number));
        owned.collect()
    }

    fn found(number: usize, accepted: &[(&str, usize)]) -> Vec<String> {
        let mut findings = Findings::default();
        compare(&table(&[(CACHE, number)]), &table(accepted), &mut findings);
        findings.lines().to_vec()
    }

    #[test]
    fn a_new_type_may_have_forty_methods() {
        assert!(found(40, &[]).is_empty());
        assert_eq!(
            found(41, &[]),
            [
                "structure: 41 methods of cache::Cache, 40 allowed: give a part of them a type of its own"
            ]
        );
    }

    #[test]
    fn a_large_type_may_not_grow() {
        assert!(found(255, &[(CACHE, 255)]).is_empty());
        assert_eq!(found(256, &[(CACHE, 255)]).len(), 1);
    }

    #[test]
    fn what_fell_is_to_be_recorded() {
        assert_eq!(
            found(250, &[(CACHE, 255)]),
            [
                "lints/structure.txt: 255 methods of cache::Cache: 250 methods of cache::Cache now; \
              `cargo xtask tidy --record` keeps that"
            ]
        );
        assert_eq!(found(40, &[(CACHE, 255)]).len(), 1, "the line can go");
        assert_eq!(found(0, &[("methods of cache::Gone", 50)]).len(), 1);
    }

    #[test]
    fn recording_lowers_and_never_raises() {
        let circles = "modules in circles of cache";
        let fields = "open fields of types that change themselves in cache";
        let now = table(&[(CACHE, 250), (circles, 12), (fields, 0)]);
        let accepted = table(&[
            (CACHE, 255),
            (circles, 10),
            (fields, 3),
            ("methods of cache::Gone", 50),
        ]);
        assert_eq!(lower(&now, accepted), table(&[(CACHE, 250), (circles, 10)]));
    }

    #[test]
    fn each_number_has_its_limit() {
        assert_eq!(limit("files with methods of cache::Cache").most, 4);
        assert_eq!(limit("modules in circles of cache").most, 0);
        assert_eq!(limit(CACHE).most, 40);
    }
}
