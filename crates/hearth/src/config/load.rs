//! From text to typed values: unknown keys, wrong types and wrong units are found here.

use super::model::{CacheConfig, Config, DiskConfig, OriginConfig};
use super::reference::reference_sections;
use super::vm::VmConfig;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// One thing that is wrong with a configuration, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The key it is about, such as `disk[2].origin.nbd`; empty for the whole file.
    pub key: String,
    /// Its line in the file, from 1, where known.
    pub line: Option<usize>,
    /// What is wrong and what to write instead.
    pub message: String,
}

impl Fault {
    /// The same, of the key whose value the error is about.
    fn named(mut self, values: &[(Range<usize>, String)], error: &toml::de::Error) -> Self {
        if let Some(span) = error.span() {
            let is_it = |value: &&(Range<usize>, String)| value.0.contains(&span.start);
            if let Some((_, key)) = values.iter().find(is_it) {
                self.key.clone_from(key);
            }
        }
        self
    }

    /// A fault of this key.
    pub fn new(key: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            key: key.into(),
            line: None,
            message: message.into(),
        }
    }
}

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration {}", path.display())]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It was read and is wrong.
    #[error("{}", FaultList { path, faults })]
    Faulty {
        /// Which file.
        path: PathBuf,
        /// All that is wrong with it, by line.
        faults: Vec<Fault>,
    },
}

struct FaultList<'a> {
    path: &'a Path,
    faults: &'a [Fault],
}

impl fmt::Display for FaultList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, fault) in self.faults.iter().enumerate() {
            let newline = if at == 0 { "" } else { "\n" };
            write!(f, "{newline}{}", self.path.display())?;
            if let Some(line) = fault.line {
                write!(f, ":{line}")?;
            }
            if !fault.key.is_empty() {
                write!(f, ": {}", fault.key)?;
            }
            write!(f, ": {}", fault.message)?;
        }
        Ok(())
    }
}

/// Reads a configuration file and checks all that can be checked without touching anything
/// else.
///
/// # Errors
/// If the file cannot be read, or anything in it is wrong: then all of it is reported.
pub fn load(path: &Path) -> Result<Config, ConfigError> {
    let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Unreadable {
        path: path.to_owned(),
        source,
    })?;
    parse(&text).map_err(|faults| ConfigError::Faulty {
        path: path.to_owned(),
        faults,
    })
}

/// Gives faults that were found later the lines of their keys in the file.
pub fn locate(path: &Path, mut faults: Vec<Fault>) -> Vec<Fault> {
    let Ok(text) = std::fs::read_to_string(path) else {
        return faults;
    };
    if let Ok(table) = DeTable::parse(&text) {
        let mut walk = Walk::new(&text);
        walk.table(table.get_ref(), &schema(), "");
        for fault in &mut faults {
            fault.line = line_of_key(&walk.lines, &fault.key);
        }
    }
    faults.sort_by_key(|fault| fault.line);
    faults
}

/// Reads a configuration text, see [`load()`].
///
/// # Errors
/// All faults, by line.
pub fn parse(text: &str) -> Result<Config, Vec<Fault>> {
    let table = DeTable::parse(text).map_err(|error| vec![fault_of(&error, text)])?;
    let mut walk = Walk::new(text);
    walk.table(table.get_ref(), &schema(), "");
    let Walk {
        lines,
        values,
        mut faults,
        ..
    } = walk;
    if faults.is_empty() {
        match toml::from_str::<Config>(text) {
            Ok(config) => {
                faults = super::faults(&config);
                if faults.is_empty() {
                    return Ok(config);
                }
            }
            Err(error) => faults.push(fault_of(&error, text).named(&values, &error)),
        }
    }
    for fault in &mut faults {
        if fault.line.is_none() {
            fault.line = line_of_key(&lines, &fault.key);
        }
    }
    faults.sort_by_key(|fault| fault.line);
    Err(faults)
}

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

fn fault_of(error: &toml::de::Error, text: &str) -> Fault {
    Fault {
        key: String::new(),
        line: error.span().map(|span| line_at(text, &span)),
        message: error.message().replace('\n', "; "),
    }
}

fn line_at(text: &str, span: &Range<usize>) -> usize {
    text.get(..span.start)
        .map_or(1, |before| before.split('\n').count())
}

/// Every key that may appear, as nested objects: the serialized form of a configuration with
/// one cache, one VM and one disk in it. Unset keys are there as nulls.
pub(super) fn schema() -> Value {
    let name = || "x".parse().expect("x is a name");
    let config = Config {
        caches: vec![CacheConfig::new(name(), PathBuf::new())],
        vms: vec![VmConfig::new(name())],
        disks: vec![DiskConfig::new(name(), OriginConfig::default())],
        ..Config::default()
    };
    serde_json::to_value(config).expect("a configuration is plain data")
}

/// Notes the line of every key, and reports keys that the schema does not have, sections with too
/// few or too many brackets, and values that are not written as they have to be.
struct Walk<'a> {
    text: &'a str,
    lines: BTreeMap<String, usize>,
    /// Where in the text the value of a key is.
    values: Vec<(Range<usize>, String)>,
    /// How the value of each key is written, without the numbers of repeated sections.
    examples: BTreeMap<String, String>,
    faults: Vec<Fault>,
}

impl<'a> Walk<'a> {
    fn new(text: &'a str) -> Self {
        let mut examples = BTreeMap::new();
        for section in reference_sections() {
            let header = section.header.trim_matches(['[', ']']);
            for entry in section.entries {
                examples.insert(format!("{header}.{}", entry.key), entry.value);
            }
        }
        Self {
            text,
            lines: BTreeMap::new(),
            values: Vec::new(),
            examples,
            faults: Vec::new(),
        }
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
            let line = line_at(self.text, &key.span());
            self.lines.insert(full.clone(), line);
            match known.get(name) {
                Some(inner) => self.value(value, inner, &full),
                None => self.faults.push(Fault {
                    line: Some(line),
                    message: unknown(name, known.keys().map(String::as_str)),
                    key: full,
                }),
            }
        }
    }

    fn value(&mut self, value: &Spanned<DeValue<'_>>, schema: &Value, path: &str) {
        match value.get_ref() {
            DeValue::Table(table) => {
                if let Some(inner) = schema.get(0) {
                    self.wrong(path, format!("there may be several: write [[{path}]]"));
                    return self.table(table, inner, path);
                }
                self.table(table, schema, path);
            }
            DeValue::Array(items) => {
                if schema.is_object() {
                    self.wrong(path, format!("there is only one: write [{path}]"));
                }
                let Some(inner) = schema.get(0) else { return };
                for (at, item) in items.iter().enumerate() {
                    let full = format!("{path}[{at}]");
                    let line = line_at(self.text, &item.span());
                    self.lines.insert(full.clone(), line);
                    self.value(item, inner, &full);
                }
            }
            DeValue::String(_) => self.scalar(value.span(), path, Written::Text),
            DeValue::Integer(_) | DeValue::Float(_) => {
                self.scalar(value.span(), path, Written::Number);
            }
            DeValue::Boolean(_) => self.scalar(value.span(), path, Written::Switch),
            DeValue::Datetime(_) => self.scalar(value.span(), path, Written::Date),
        }
    }

    fn scalar(&mut self, span: Range<usize>, path: &str, written: Written) {
        self.values.push((span, path.to_owned()));
        let Some(example) = self.examples.get(&without_numbers(path)) else {
            return;
        };
        let wanted = Written::of(example);
        if wanted != written {
            let name = path.rsplit('.').next().unwrap_or(path);
            let message = format!(
                "is {}, and has to be {}, such as {name} = {example}",
                written.words(),
                wanted.words()
            );
            self.wrong(path, message);
        }
    }

    fn wrong(&mut self, path: &str, message: String) {
        self.faults.push(Fault {
            key: path.to_owned(),
            line: line_of_key(&self.lines, path),
            message,
        });
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

/// A guess is offered when it is at least this like what was written (Jaro-Winkler, 0 to 1).
const LIKENESS_MIN: f64 = 0.75;

fn unknown<'a>(name: &str, known: impl Iterator<Item = &'a str> + Clone) -> String {
    match nearest(name, known.clone()) {
        Some(candidate) => format!("unknown key; did you mean '{candidate}'?"),
        None => format!(
            "unknown key; known here: {}",
            known.collect::<Vec<_>>().join(", ")
        ),
    }
}

/// The one of the known words that was probably meant.
pub(crate) fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    known
        .map(|candidate| (strsim::jaro_winkler(word, candidate), candidate))
        .filter(|(likeness, _)| *likeness >= LIKENESS_MIN)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only_fault(text: &str) -> Fault {
        let mut faults = parse(text).unwrap_err();
        assert_eq!(faults.len(), 1, "{faults:?}");
        faults.remove(0)
    }

    #[test]
    fn an_empty_file_is_the_defaults() {
        assert_eq!(parse("").unwrap(), Config::default());
    }

    #[test]
    fn an_unknown_key_names_its_line_and_the_nearest_known_key() {
        let fault = only_fault("[daemon]\nlog = 'info'\nstate_dri = '/x'\n");
        assert_eq!(fault.line, Some(3));
        assert_eq!(fault.key, "daemon.state_dri");
        assert_eq!(fault.message, "unknown key; did you mean 'state_dir'?");
    }

    #[test]
    fn an_unknown_key_unlike_any_other_lists_what_is_known() {
        let fault = only_fault("[nbd.tls]\nzzz = 1\n");
        assert_eq!(
            fault.message,
            "unknown key; known here: certificate, client_authority, key, mode, psk_file, unix_socket"
        );
    }

    #[test]
    fn every_unknown_key_is_reported_at_once() {
        let text =
            "[deamon]\n[[cache]]\nname = 'a'\npaht = '/x'\n[[disk]]\norigin = { fil = '/y' }\n";
        let faults = parse(text).unwrap_err();
        let found: Vec<_> = faults.iter().map(|f| (f.line, f.key.as_str())).collect();
        assert_eq!(
            found,
            [
                (Some(1), "deamon"),
                (Some(4), "cache[0].paht"),
                (Some(6), "disk[0].origin.fil")
            ]
        );
    }

    #[test]
    fn a_size_without_a_known_unit_names_its_line() {
        let fault = only_fault("[nbd]\n\nbytes_in_flight_max = '64MB'\n");
        assert_eq!(fault.line, Some(3));
        assert!(fault.message.contains("'64MB' is not a size"), "{fault:?}");
        let fault = only_fault("[daemon]\nstop_timeout = '30'\n");
        assert!(fault.message.contains("'30' is not a time"), "{fault:?}");
    }

    #[test]
    fn a_number_where_a_unit_belongs_is_refused() {
        let fault = only_fault("[daemon]\nstop_timeout = 30\n");
        assert_eq!(fault.line, Some(2));
        assert_eq!(fault.key, "daemon.stop_timeout");
        assert_eq!(
            fault.message,
            "is a number, and has to be a text in quotes, such as stop_timeout = \"30s\""
        );
    }

    #[test]
    fn every_value_of_a_wrong_form_is_reported_at_once() {
        let text = "[nbd]\nconnections_max = '9'\n[[cache]]\nname = 'a'\npath = '/a'\nwrite_buffer = 67108864\nallocate_writes = 'yes'\n";
        let faults = parse(text).unwrap_err();
        let found: Vec<_> = faults.iter().map(|f| (f.line, f.key.as_str())).collect();
        assert_eq!(
            found,
            [
                (Some(2), "nbd.connections_max"),
                (Some(6), "cache[0].write_buffer"),
                (Some(7), "cache[0].allocate_writes")
            ]
        );
        assert!(faults[1].message.contains("\"64MiB\""), "{faults:?}");
    }

    #[test]
    fn a_section_with_too_few_or_too_many_brackets_is_told_how_many() {
        let fault = only_fault("[cache]\nname = 'a'\npath = '/a'\n");
        assert_eq!((fault.line, fault.key.as_str()), (Some(1), "cache"));
        assert_eq!(fault.message, "there may be several: write [[cache]]");
        let fault = only_fault("[[daemon]]\nlog = 'info'\n");
        assert_eq!((fault.line, fault.key.as_str()), (Some(1), "daemon"));
        assert_eq!(fault.message, "there is only one: write [daemon]");
    }

    #[test]
    fn a_value_that_makes_no_sense_names_its_key() {
        for (text, key, said) in [
            (
                "[daemon]\nlog = 'inof'\n",
                "daemon.log",
                "did you mean 'info'?",
            ),
            (
                "[daemon]\nmetrics_address = 'localhost:9809'\n",
                "daemon.metrics_address",
                "127.0.0.1:PORT",
            ),
            (
                "[nbd]\nbytes_in_flight_max = '50G'\n",
                "nbd.bytes_in_flight_max",
                "write 50GiB",
            ),
            ("[nbd.tls]\nmode = 'on'\n", "nbd.tls.mode", "`require`"),
        ] {
            let fault = only_fault(text);
            assert_eq!((fault.line, fault.key.as_str()), (Some(2), key));
            assert!(fault.message.contains(said), "{fault:?}");
        }
    }

    #[test]
    fn a_missing_key_names_its_table() {
        let fault = only_fault("\n[[cache]]\nname = 'a'\n");
        assert_eq!(fault.line, Some(2));
        assert!(fault.message.contains("missing field `path`"), "{fault:?}");
    }

    #[test]
    fn a_broken_file_names_the_line_that_breaks_it() {
        assert_eq!(only_fault("[daemon]\nlog = \n").line, Some(2));
    }

    #[test]
    fn faults_print_with_file_line_and_key() {
        let error = ConfigError::Faulty {
            path: "/etc/hearth/hearth.toml".into(),
            faults: parse("[nbd]\ntcp = 'off'\nx = 1\n").unwrap_err(),
        };
        let text = error.to_string();
        assert!(
            text.starts_with("/etc/hearth/hearth.toml:2: nbd.tcp: unknown key; did you mean 'tcp_address'?\n/etc/hearth/hearth.toml:3: nbd.x: unknown key; known here: "),
            "{text}"
        );
    }
}
