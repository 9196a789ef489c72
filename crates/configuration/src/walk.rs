//! What can be said of a configuration's keys and how their values are written, before it is typed.

use super::fault::Fault;
use super::likeness::nearest;
use super::line_starts::LineStarts;
use super::link::PeerConfig;
use super::model::{CacheConfig, Config, DiskConfig};
use super::origins::{FileOrigin, OriginConfig};
use super::reference::reference_sections;
use super::vm::VmConfig;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The line of a key, or of the nearest table around it.
fn line_of_key(lines: &BTreeMap<String, usize>, key: &str) -> Option<usize> {
    let mut key = key;
    loop {
        if let Some(line) = lines.get(key) {
            return Some(*line);
        }
        key = key.rsplit_once('.').map(|(outer, _)| outer)?;
    }
}

/// Every key that may appear, as nested objects: the serialized form of a configuration with
/// one cache, one peer, one VM and one disk in it, whose origin is of every kind. Unset keys are there as nulls.
pub(super) fn schema() -> Value {
    let name = || "x".parse().expect("x is a name");
    let config = Config {
        caches: vec![CacheConfig::new(name(), PathBuf::new())],
        peers: vec![PeerConfig::new(String::new(), String::new())],
        vms: vec![VmConfig::new(name())],
        disks: vec![DiskConfig::new(
            name(),
            FileOrigin::new(PathBuf::new()).into(),
        )],
        ..Config::default()
    };
    let mut schema = serde_json::to_value(config).expect("a configuration is plain data");
    schema["disk"][0]["origin"] = OriginConfig::every_key();
    schema
}

/// How the value of each key is written, from the reference file.
pub(super) struct Examples(BTreeMap<String, String>);

impl Examples {
    pub(super) fn new() -> Self {
        let mut examples = BTreeMap::new();
        for section in reference_sections() {
            let header = section.header.trim_matches(['[', ']']);
            for entry in section.entries {
                examples.insert(format!("{header}.{}", entry.key), entry.value);
            }
        }
        Self(examples)
    }

    /// That of this key.
    pub(super) fn of(&self, key: &str) -> Option<&str> {
        self.0.get(&without_numbers(key)).map(String::as_str)
    }
}

/// What is to be done with a key or value of a wrong form, so that the rest can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Mend {
    /// It is taken for the key that was probably meant.
    Rename(String),
    /// It is left out.
    Remove,
    /// Something else stands for it.
    StandIn,
    /// It becomes the only one of a list.
    Several,
    /// The first of it is taken for the only one.
    Single,
}

/// Notes the line of every key, and reports keys that the schema does not have, sections with too
/// few or too many brackets, and values that are not written as they have to be.
pub(super) struct Walk<'a> {
    starts: LineStarts,
    examples: &'a Examples,
    lines: BTreeMap<String, usize>,
    /// Where in the text each key's value is, tables included.
    values: Vec<(Range<usize>, String)>,
    faults: Vec<(Fault, Mend)>,
}

impl<'a> Walk<'a> {
    /// Goes through all of a configuration.
    pub(super) fn of(text: &str, examples: &'a Examples, table: &DeTable<'_>) -> Self {
        let mut walk = Self {
            starts: LineStarts::of(text),
            examples,
            lines: BTreeMap::new(),
            values: Vec::new(),
            faults: Vec::new(),
        };
        walk.table(table, &schema(), "");
        walk
    }

    /// What is of a wrong form, and how it may be mended.
    pub(super) fn into_faults(self) -> Vec<(Fault, Mend)> {
        self.faults
    }

    /// The line of each key.
    pub(super) fn into_lines(self) -> BTreeMap<String, usize> {
        self.lines
    }

    /// The line of a key, or of the nearest table around it.
    pub(super) fn line_of(&self, key: &str) -> Option<usize> {
        line_of_key(&self.lines, key)
    }

    /// The key whose value, or whose table, has this place in the text.
    pub(super) fn key_at(&self, span: &Range<usize>) -> Option<&str> {
        let around = self
            .values
            .iter()
            .rev()
            .filter(|(value, _)| value.contains(&span.start));
        // The only item of a list has the list's place: it is noted later.
        let smallest = around.min_by_key(|(value, _)| value.len())?;
        Some(&smallest.1)
    }

    fn table(&mut self, table: &DeTable<'_>, schema: &Value, path: &str) {
        let Some(known) = schema.as_object() else {
            return;
        };
        for (key, value) in table {
            let name = key.get_ref().as_ref();
            let full = if path.is_empty() {
                name.to_owned()
            } else {
                format!("{path}.{name}")
            };
            let line = self.starts.line_at(&key.span());
            self.lines.insert(full.clone(), line);
            match known.get(name) {
                Some(inner) => self.value(value, inner, &full),
                None => self.unknown(name, table, known, full, line),
            }
        }
    }

    fn unknown(
        &mut self,
        name: &str,
        table: &DeTable<'_>,
        known: &Map<String, Value>,
        key: String,
        line: usize,
    ) {
        let known = known.keys().map(String::as_str);
        let (message, mend) = if let Some(meant) = nearest(name, known.clone()) {
            let mend = if table.contains_key(meant) {
                Mend::Remove
            } else {
                Mend::Rename(meant.to_owned())
            };
            (format!("unknown key; did you mean '{meant}'?"), mend)
        } else {
            let known: Vec<&str> = known.collect();
            let message = format!("unknown key; known here: {}", known.join(", "));
            (message, Mend::Remove)
        };
        let line = Some(line);
        self.faults.push((Fault { key, line, message }, mend));
    }

    fn value(&mut self, value: &Spanned<DeValue<'_>>, schema: &Value, path: &str) {
        self.values.push((value.span(), path.to_owned()));
        match value.get_ref() {
            DeValue::Table(table) => {
                if let Some(inner) = schema.get(0) {
                    let message = format!("there may be several: write [[{path}]]");
                    self.wrong(path, message, Mend::Several);
                    return self.table(table, inner, path);
                }
                self.table(table, schema, path);
            }
            DeValue::Array(items) => {
                if schema.is_object() {
                    let message = format!("there is only one: write [{path}]");
                    self.wrong(path, message, Mend::Single);
                }
                // A list of words is compared as a whole.
                let Some(inner) = schema.get(0).filter(|inner| inner.is_object()) else {
                    if !schema.is_object() {
                        self.scalar(schema, path, Written::List);
                    }
                    return;
                };
                for (at, item) in items.iter().enumerate() {
                    let full = format!("{path}[{at}]");
                    let line = self.starts.line_at(&item.span());
                    self.lines.insert(full.clone(), line);
                    self.value(item, inner, &full);
                }
            }
            DeValue::String(_) => self.scalar(schema, path, Written::Text),
            DeValue::Integer(_) | DeValue::Float(_) => {
                self.scalar(schema, path, Written::Number);
            }
            DeValue::Boolean(_) => self.scalar(schema, path, Written::Switch),
            DeValue::Datetime(_) => self.scalar(schema, path, Written::Date),
        }
    }

    fn scalar(&mut self, schema: &Value, path: &str, written: Written) {
        let name = path.rsplit('.').next().unwrap_or(path);
        if let Some(keys) = schema.as_object() {
            let keys: Vec<&str> = keys.keys().map(String::as_str).collect();
            let message = format!(
                "is {}, and has to be a table, such as {name} = {{ KEY = VALUE }}; known there: {}",
                written.words(),
                keys.join(", ")
            );
            return self.wrong(path, message, Mend::StandIn);
        }
        let Some(example) = self.examples.of(path) else {
            return;
        };
        let wanted = Written::of(example);
        if wanted != written {
            let message = format!(
                "is {}, and has to be {}, such as {name} = {example}",
                written.words(),
                wanted.words()
            );
            self.wrong(path, message, Mend::StandIn);
        }
    }

    fn wrong(&mut self, path: &str, message: String, mend: Mend) {
        let fault = Fault {
            key: path.to_owned(),
            line: line_of_key(&self.lines, path),
            message,
        };
        self.faults.push((fault, mend));
    }
}

/// How a value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Written {
    Text,
    Number,
    Switch,
    Date,
    List,
}

impl Written {
    /// How this text of a value is written.
    fn of(text: &str) -> Self {
        match text.as_bytes().first() {
            Some(b'"' | b'\'') => Self::Text,
            Some(b'[') => Self::List,
            Some(b't' | b'f') => Self::Switch,
            _ => Self::Number,
        }
    }

    const fn words(self) -> &'static str {
        match self {
            Self::Text => "a text in quotes",
            Self::Number => "a number",
            Self::Switch => "true or false",
            Self::Date => "a date",
            Self::List => "a list",
        }
    }
}

/// A key's name without the numbers of repeated sections: `disk[2].origin.nbd` is `disk.origin.nbd`.
fn without_numbers(key: &str) -> String {
    let mut name = String::with_capacity(key.len());
    for part in key.split('[') {
        name.push_str(part.split_once(']').map_or(part, |(_, rest)| rest));
    }
    name
}
