//! From files and variables to a configuration, or to everything that is wrong with it.

use super::fault::Fault;
use super::merge::merged;
use super::model::Config;
use super::read;
use super::sources::{Place, Sources, Unreadable};
use super::walk::{Examples, Walk};
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

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
    #[error("{}", FaultList { sources, faults })]
    Faulty {
        /// What was read.
        sources: Box<Sources>,
        /// All that is wrong with it, by line.
        faults: Vec<Fault>,
    },
}

struct FaultList<'a> {
    sources: &'a Sources,
    faults: &'a [Fault],
}

impl fmt::Display for FaultList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, fault) in self.faults.iter().enumerate() {
            let newline = if at == 0 { "" } else { "\n" };
            match fault.line {
                Some(line) => write!(f, "{newline}{}", self.sources.place_of(line))?,
                None => write!(f, "{newline}{}", self.sources.main().display())?,
            }
            if !fault.key.is_empty() {
                write!(f, ": {}", fault.key)?;
            }
            write!(f, ": {}", fault.message)?;
        }
        Ok(())
    }
}

/// A configuration that makes sense, and where each of its keys is written.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    sources: Sources,
    /// The line of each key that is written, in the text of all sources.
    lines: BTreeMap<String, usize>,
}

impl Loaded {
    /// Where a key such as `disk[2].name` is written; none if its default holds.
    pub fn place_of(&self, key: &str) -> Option<Place> {
        let line = self.lines.get(key)?;
        Some(self.sources.place_of(*line))
    }
}

/// Reads a configuration file, what the folder `conf.d` beside it adds and what this process's environment sets, and
/// checks all that can be checked without touching anything else.
///
/// # Errors
/// If a file cannot be read, or anything is wrong: then all of it is reported.
pub fn load(path: &Path) -> Result<Config, ConfigError> {
    let sources = all_sources(path)?;
    read::read(&sources).map_err(|faults| faulty(sources, faults))
}

/// The same as [`load()`], with the places of keys.
///
/// # Errors
/// As [`load()`].
pub fn load_with_places(path: &Path) -> Result<Loaded, ConfigError> {
    let sources = all_sources(path)?;
    match read::read(&sources) {
        Ok(config) => Ok(Loaded {
            config,
            lines: lines_of(&sources),
            sources,
        }),
        Err(faults) => Err(faulty(sources, faults)),
    }
}

fn all_sources(path: &Path) -> Result<Sources, ConfigError> {
    let sources =
        Sources::read(path).map_err(|Unreadable { path, error }| ConfigError::Unreadable {
            path,
            source: error,
        })?;
    Ok(sources.with_variables(std::env::vars_os()))
}

fn faulty(sources: Sources, mut faults: Vec<Fault>) -> ConfigError {
    faults.sort_by_key(|fault| fault.line);
    let sources = Box::new(sources);
    ConfigError::Faulty { sources, faults }
}

/// The lines of all keys that are written; none if the sources cannot be merged.
fn lines_of(sources: &Sources) -> BTreeMap<String, usize> {
    let Ok(table) = merged(sources) else {
        return BTreeMap::new();
    };
    let examples = Examples::new();
    Walk::of(sources.text(), &examples, table.get_ref()).into_lines()
}

/// Gives faults that were found later the places of their keys.
pub fn located(path: &Path, mut faults: Vec<Fault>) -> ConfigError {
    let sources = all_sources(path).unwrap_or_else(|_| Sources::of_text(path, ""));
    if let Ok(table) = merged(&sources) {
        let examples = Examples::new();
        let walk = Walk::of(sources.text(), &examples, table.get_ref());
        for fault in &mut faults {
            fault.line = walk.line_of(&fault.key);
        }
    }
    faulty(sources, faults)
}

/// Reads a configuration text, see [`load()`].
///
/// # Errors
/// All faults, by line.
pub fn parse(text: &str) -> Result<Config, Vec<Fault>> {
    read::read(&Sources::of_text(Path::new(""), text)).map_err(|mut faults| {
        faults.sort_by_key(|fault| fault.line);
        faults
    })
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
        let text = "[deamon]\n[[cache]]\nname = 'a'\npaht = '/x'\n[[disk]]\nname = 'd'\norigin = { fil = '/y' }\n";
        let faults = parse(text).unwrap_err();
        let found: Vec<_> = faults.iter().map(|f| (f.line, f.key.as_str())).collect();
        assert_eq!(
            found,
            [
                (Some(1), "deamon"),
                (Some(4), "cache[0].paht"),
                (Some(7), "disk[0].origin.fil")
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
    fn a_missing_key_has_the_line_of_its_table() {
        let fault = only_fault("\n[[cache]]\nname = 'a'\n");
        assert_eq!((fault.line, fault.key.as_str()), (Some(2), "cache[0].path"));
        assert!(
            fault
                .message
                .starts_with("is missing; write it, such as path = "),
            "{fault:?}"
        );
    }

    #[test]
    fn a_broken_file_names_the_line_that_breaks_it() {
        assert_eq!(only_fault("[daemon]\nlog = \n").line, Some(2));
    }

    #[test]
    fn faults_print_with_file_line_and_key() {
        let text = "[nbd]\ntcp = 'off'\nx = 1\n";
        let sources = Sources::of_text(Path::new("/etc/hearth/hearth.toml"), text);
        let text = faulty(sources, parse(text).unwrap_err()).to_string();
        assert!(
            text.starts_with("/etc/hearth/hearth.toml:2: nbd.tcp: unknown key; did you mean 'tcp_address'?\n/etc/hearth/hearth.toml:3: nbd.x: unknown key; known here: "),
            "{text}"
        );
    }
}
