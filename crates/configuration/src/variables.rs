//! Variables of the environment that stand for keys: `HEARTH_WEB__ADDRESS` is `web.address`.
//!
//! A name is `HEARTH_`, the sections, and the key, in capitals, with two underscores between them. Keys of sections
//! that may be repeated have no variable, and neither have lists. A name of `HEARTH_` without two underscores in a row is another
//! program's (service managers of containers make such names), unless it is a key's with one underscore too few.

use super::likeness::nearest;
use super::reference::reference_sections;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use toml::Spanned;
use toml::de::DeValue;

const PREFIX: &str = "HEARTH_";
const BETWEEN: &str = "__";

/// A variable that is meant for the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Variable {
    name: String,
    /// The key and its value as TOML writes it, or why there is none.
    set: Result<(String, Written), String>,
}

/// How a variable's value is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// As it stands.
    Text(String),
    /// As TOML writes a number, true or false.
    Toml(String),
}

impl Written {
    /// The value as a parser of TOML would give it.
    pub(super) fn value(&self) -> DeValue<'_> {
        let text = |text| DeValue::String(Cow::Borrowed(text));
        match self {
            Self::Text(plain) => text(plain),
            // What is no value of TOML is a text, and told to be of a wrong form.
            Self::Toml(toml) => {
                let value = DeValue::parse(toml);
                value.map_or_else(|_| text(toml), Spanned::into_inner)
            }
        }
    }
}

impl Variable {
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The key and its value.
    ///
    /// # Errors
    /// What is wrong with the variable.
    pub(super) fn set(&self) -> Result<&(String, Written), &String> {
        self.set.as_ref()
    }
}

/// The keys that have variables, by the variables' names, and those that have none.
struct Names {
    keys: BTreeMap<String, Key>,
    /// Sections that may be repeated.
    repeated: BTreeSet<String>,
}

struct Key {
    path: String,
    example: String,
}

impl Names {
    fn new() -> Self {
        let sections = reference_sections();
        let repeated = sections.iter().filter_map(|section| {
            let name = section.header.strip_prefix("[[")?.strip_suffix("]]")?;
            Some(name.to_owned())
        });
        let repeated: BTreeSet<String> = repeated.collect();
        let mut keys = BTreeMap::new();
        for section in sections {
            let header = section.header.trim_matches(['[', ']']);
            for entry in section.entries {
                let path = format!("{header}.{}", entry.key);
                let example = entry.value;
                keys.insert(name_of(&path), Key { path, example });
            }
        }
        Self { keys, repeated }
    }

    fn is_repeated(&self, path: &str) -> bool {
        let root = path.split('.').next().unwrap_or(path);
        self.repeated.contains(root)
    }

    /// The key of a name and the value that a text is; or what is wrong.
    fn set(&self, name: &str, value: OsString) -> Result<(String, Written), String> {
        let Some(key) = self.keys.get(name) else {
            return Err(self.unknown(name));
        };
        if self.is_repeated(&key.path) {
            let root = key.path.split('.').next().unwrap_or_default();
            return Err(format!(
                "{} belongs to a section that may be repeated: write it in a file, under [[{root}]]",
                key.path
            ));
        }
        let value = value
            .into_string()
            .map_err(|_| "is not UTF-8: set it to text".to_owned())?;
        let written = match key.example.as_bytes().first() {
            Some(b'[') => {
                return Err(format!(
                    "{} is a list: write it in a file, such as {0} = {}",
                    key.path, key.example
                ));
            }
            Some(b'"' | b'\'') => Written::Text(value),
            _ => Written::Toml(value),
        };
        Ok((key.path.clone(), written))
    }

    fn unknown(&self, name: &str) -> String {
        let settable = self.keys.iter();
        let settable = settable.filter(|(_, key)| !self.is_repeated(&key.path));
        // Without what all have in common, which would make them alike.
        let rest = |name: &'_ str| name.get(PREFIX.len()..).unwrap_or_default().to_owned();
        let known: Vec<String> = settable.map(|(name, _)| rest(name)).collect();
        match nearest(&rest(name), known.iter().map(String::as_str)) {
            Some(meant) => format!("unknown variable; did you mean {PREFIX}{meant}?"),
            None => "unknown variable; names are HEARTH_SECTION__KEY, such as HEARTH_DAEMON__LOG: \
                     `hearth config show` lists the keys"
                .to_owned(),
        }
    }

    /// Whether a name is meant for the configuration.
    fn is_meant(&self, name: &str) -> bool {
        let Some(rest) = name.strip_prefix(PREFIX) else {
            return false;
        };
        let single = |name: &str| name.replace(BETWEEN, "_");
        rest.contains(BETWEEN) || self.keys.keys().any(|known| single(known) == name)
    }
}

fn name_of(path: &str) -> String {
    format!("{PREFIX}{}", path.replace('.', BETWEEN).to_uppercase())
}

/// The variables of an environment that are meant for the configuration, by name.
pub(super) fn of(environment: impl Iterator<Item = (OsString, OsString)>) -> Vec<Variable> {
    let names = Names::new();
    let named = environment.filter_map(|(name, value)| {
        let name = name.into_string().ok()?;
        names.is_meant(&name).then(|| Variable {
            set: names.set(&name, value),
            name,
        })
    });
    let mut variables: Vec<Variable> = named.collect();
    variables.sort_by(|one, other| one.name.cmp(&other.name));
    variables
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(name: &str, value: &str) -> Result<(String, Written), String> {
        let environment = [(name.into(), value.into())];
        let mut variables = of(environment.into_iter());
        variables.remove(0).set
    }

    #[test]
    fn two_underscores_part_sections_and_key() {
        let text = |text: &str| Written::Text(text.to_owned());
        assert_eq!(
            set("HEARTH_WEB__ADDRESS", "127.0.0.1:80"),
            Ok(("web.address".to_owned(), text("127.0.0.1:80")))
        );
        assert_eq!(
            set("HEARTH_NBD__TLS__MODE", "allow"),
            Ok(("nbd.tls.mode".to_owned(), text("allow")))
        );
        let (key, number) = set("HEARTH_NBD__CONNECTIONS_MAX", "7").unwrap();
        assert_eq!(key, "nbd.connections_max");
        assert!(matches!(number.value(), DeValue::Integer(_)));
    }

    #[test]
    fn a_name_that_no_key_has_is_refused_with_the_nearest() {
        for name in ["HEARTH_WEB__ADRESS", "HEARTH_WEB_ADDRESS"] {
            let said = set(name, "off").unwrap_err();
            assert!(
                said.ends_with("did you mean HEARTH_WEB__ADDRESS?"),
                "{said}"
            );
        }
        let said = set("HEARTH_ZZZ__Q", "").unwrap_err();
        assert!(said.contains("HEARTH_SECTION__KEY"), "{said}");
    }

    #[test]
    fn repeated_sections_and_lists_belong_into_files() {
        let said = set("HEARTH_DISK__NAME", "d").unwrap_err();
        assert!(said.contains("under [[disk]]"), "{said}");
        let said = set("HEARTH_NBD__CLIENTS", "a").unwrap_err();
        assert!(said.contains("nbd.clients = ["), "{said}");
    }

    #[test]
    fn names_of_other_programs_are_left_alone() {
        let others = [
            "HEARTH_SOCKET",
            "HEARTH_LOG",
            "HEARTH_PORT_9809_TCP",
            "X__Y",
        ];
        let environment = others.into_iter().map(|name| (name.into(), "x".into()));
        assert_eq!(of(environment), []);
    }
}
