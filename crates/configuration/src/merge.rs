//! From several sources to one table whose places are those of the text of all.
//!
//! Tables are merged key by key, lists of tables are put one behind the other, and anything else may be given
//! twice only if it is the same both times. Who adds a file cannot know what another file says, so a value never replaces
//! another one silently; a variable of the environment is set for one process, and does.

use super::fault::Fault;
use super::line_starts::line_at;
use super::sources::Sources;
use super::variables::Written;
use std::borrow::Cow;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

/// The table of all sources.
///
/// # Errors
/// Each file that is no TOML, or else each key that two files give differently and each variable that is
/// no key's.
pub(super) fn merged(sources: &Sources) -> Result<Spanned<DeTable<'_>>, Vec<Fault>> {
    let text = sources.text();
    let mut faults = Vec::new();
    let mut tables = Vec::new();
    for (part, start) in sources.files() {
        match DeTable::parse(part) {
            Ok(table) => tables.push(moved_table(table.into_inner(), start)),
            Err(error) => {
                let span = error.span().map(|span| moved(&span, start));
                faults.push(Fault {
                    key: String::new(),
                    line: span.map(|span| line_at(text, &span)),
                    message: error.message().replace('\n', "; "),
                });
            }
        }
    }
    let mut tables = tables.into_iter();
    let first = tables.next().unwrap_or_else(DeTable::new);
    let mut merging = Merging { sources, faults };
    let mut all = Spanned::new(0..text.len(), first);
    for table in tables {
        merging.merge(all.get_mut(), table, "");
    }
    for (variable, span) in sources.variables() {
        match variable.set() {
            Ok((key, written)) => set(all.get_mut(), key, written, span),
            Err(message) => merging.faults.push(Fault {
                key: String::new(),
                line: Some(line_at(text, span)),
                message: message.clone(),
            }),
        }
    }
    if merging.faults.is_empty() {
        return Ok(all);
    }
    Err(merging.faults)
}

struct Merging<'a> {
    sources: &'a Sources,
    faults: Vec<Fault>,
}

impl Merging<'_> {
    fn merge<'t>(&mut self, into: &mut DeTable<'t>, from: DeTable<'t>, path: &str) {
        for (key, mut value) in from {
            let full = match path {
                "" => key.get_ref().to_string(),
                path => format!("{path}.{}", key.get_ref()),
            };
            let Some(present) = into.get_mut(key.get_ref().as_ref()) else {
                into.insert(key, value);
                continue;
            };
            let first = present.span();
            match (present.get_mut(), value.get_mut()) {
                (DeValue::Table(present), DeValue::Table(added)) => {
                    self.merge(present, std::mem::replace(added, DeTable::new()), &full);
                }
                (DeValue::Array(present), DeValue::Array(added))
                    if has_tables(present) && has_tables(added) =>
                {
                    for item in std::mem::replace(added, DeArray::new()) {
                        present.push(item);
                    }
                }
                (present, added) if is_same(present, added) => {}
                _ => self.contradicted(full, &first, &key.span()),
            }
        }
    }

    fn contradicted(&mut self, key: String, first: &Range<usize>, second: &Range<usize>) {
        let line = |span| line_at(self.sources.text(), span);
        let other = self.sources.place_of(line(first));
        self.faults.push(Fault {
            key,
            line: Some(line(second)),
            message: format!("differs from what {other} gives: keep one of the two"),
        });
    }
}

/// Has a variable's value stand at a key, whatever is there.
fn set<'t>(table: &mut DeTable<'t>, key: &str, written: &'t Written, span: &Range<usize>) {
    let (path, name) = key.rsplit_once('.').unwrap_or(("", key));
    let mut table = table;
    for part in path.split('.').filter(|part| !part.is_empty()) {
        let part = Spanned::new(span.clone(), Cow::Owned(part.to_owned()));
        let inner = table
            .entry(part)
            .or_insert_with(|| Spanned::new(span.clone(), DeValue::Table(DeTable::new())));
        let DeValue::Table(inner) = inner.get_mut() else {
            // The walk over the keys tells what is wrong with that section.
            return;
        };
        table = inner;
    }
    table.remove(name);
    let name = Spanned::new(span.clone(), Cow::Owned(name.to_owned()));
    table.insert(name, Spanned::new(span.clone(), written.value()));
}

fn has_tables(items: &DeArray<'_>) -> bool {
    let mut items = items.iter();
    items.len() > 0 && items.all(|item| matches!(item.get_ref(), DeValue::Table(_)))
}

/// Whether two values are written alike, but for quotes.
fn is_same(one: &DeValue<'_>, other: &DeValue<'_>) -> bool {
    match (one, other) {
        (DeValue::String(one), DeValue::String(other)) => one == other,
        (DeValue::Boolean(one), DeValue::Boolean(other)) => one == other,
        (DeValue::Integer(one), DeValue::Integer(other)) => {
            one.as_str() == other.as_str() && one.radix() == other.radix()
        }
        (DeValue::Float(one), DeValue::Float(other)) => one.as_str() == other.as_str(),
        (DeValue::Array(one), DeValue::Array(other)) => {
            let mut both = one.iter().zip(other.iter());
            one.len() == other.len()
                && both.all(|(one, other)| is_same(one.get_ref(), other.get_ref()))
        }
        _ => false,
    }
}

fn moved(span: &Range<usize>, by: usize) -> Range<usize> {
    span.start + by..span.end + by
}

fn moved_table(table: DeTable<'_>, by: usize) -> DeTable<'_> {
    let mut all = DeTable::new();
    for (key, value) in table {
        let span = moved(&key.span(), by);
        all.insert(Spanned::new(span, key.into_inner()), moved_value(value, by));
    }
    all
}

fn moved_value(value: Spanned<DeValue<'_>>, by: usize) -> Spanned<DeValue<'_>> {
    let span = moved(&value.span(), by);
    let value = match value.into_inner() {
        DeValue::Table(table) => DeValue::Table(moved_table(table, by)),
        DeValue::Array(items) => {
            let items = items.into_iter().map(|item| moved_value(item, by));
            DeValue::Array(items.collect())
        }
        plain => plain,
    };
    Spanned::new(span, value)
}

#[cfg(test)]
mod tests {
    use super::super::load::{ConfigError, load_with_places};
    use super::super::{Config, read};
    use super::*;
    use std::path::{Path, PathBuf};

    /// A folder with these files in it, the first of which is the main one.
    fn written(files: &[(&str, &str)]) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("conf.d")).unwrap();
        for (name, text) in files {
            std::fs::write(dir.path().join(name), text).unwrap();
        }
        let main = dir.path().join(files[0].0);
        (dir, main)
    }

    fn said(files: &[(&str, &str)]) -> String {
        let (dir, main) = written(files);
        let error = load_with_places(&main).unwrap_err();
        let folder = format!("{}/", dir.path().display());
        error.to_string().replace(&folder, "")
    }

    fn with_variables(text: &str, variables: &[(&str, &str)]) -> Result<Config, String> {
        let environment = variables.iter();
        let environment = environment.map(|(name, value)| (name.into(), value.into()));
        let sources = Sources::of_text(Path::new("h.toml"), text).with_variables(environment);
        read::read(&sources).map_err(|faults| {
            let sources = Box::new(sources);
            ConfigError::Faulty { sources, faults }.to_string()
        })
    }

    #[test]
    fn a_later_file_adds_sections_and_keys() {
        let disk = |name: &str| format!("[[disk]]\nname = '{name}'\norigin.file = '/{name}'\n");
        let (_dir, main) = written(&[
            (
                "h.toml",
                &format!(
                    "[daemon]\nlog = 'info'\n[[cache]]\nname = 'c'\npath = '/c'\n{}",
                    disk("a")
                ),
            ),
            ("conf.d/20.toml", &disk("c")),
            (
                "conf.d/10.toml",
                &format!(
                    "[daemon]\nstop_timeout = '1s'\nlog = \"info\"\n{}",
                    disk("b")
                ),
            ),
        ]);
        let loaded = load_with_places(&main).unwrap();
        let names: Vec<_> = loaded
            .config
            .disks
            .iter()
            .map(|disk| disk.name.as_str())
            .collect();
        assert_eq!(names, ["a", "b", "c"]);
        let place = |key| loaded.place_of(key).unwrap().to_string();
        assert!(
            place("disk[1].origin.file").ends_with("conf.d/10.toml:6"),
            "{}",
            place("disk[1].origin.file")
        );
        assert!(place("daemon.stop_timeout").ends_with("conf.d/10.toml:2"));
        assert_eq!(loaded.place_of("web.address"), None);
    }

    #[test]
    fn a_key_that_two_files_give_differently_names_both_places() {
        let said = said(&[
            ("h.toml", "\n[daemon]\nlog = 'info'\n"),
            ("conf.d/1.toml", "[daemon]\nlog = 'warn'\n"),
        ]);
        assert!(
            said.starts_with("conf.d/1.toml:2: daemon.log: differs from what "),
            "{said}"
        );
        assert!(
            said.ends_with("h.toml:3 gives: keep one of the two"),
            "{said}"
        );
    }

    #[test]
    fn each_fault_names_the_file_it_is_in() {
        let said = said(&[
            ("h.toml", "[daemon]\nlog = 'inof'\n"),
            ("conf.d/1.toml", "[web]\nadress = 'off'\n"),
            ("conf.d/2.toml", "\n[[cache]]\nname = 'c'\n"),
        ]);
        let places: Vec<_> = said
            .lines()
            .map(|line| line.split(": ").next().unwrap())
            .collect();
        assert_eq!(
            places,
            ["h.toml:2", "conf.d/1.toml:2", "conf.d/2.toml:2"],
            "{said}"
        );
    }

    #[test]
    fn every_file_that_is_no_toml_is_named() {
        let said = said(&[("h.toml", "[daemon\n"), ("conf.d/1.toml", "\na =\n")]);
        let places: Vec<_> = said
            .lines()
            .map(|line| line.split(": ").next().unwrap())
            .collect();
        assert_eq!(places, ["h.toml:1", "conf.d/1.toml:2"], "{said}");
    }

    #[test]
    fn a_variable_stands_over_the_files() {
        let config = with_variables(
            "[daemon]\nlog = 'info'\n",
            &[
                ("HEARTH_DAEMON__LOG", "warn"),
                ("HEARTH_NBD__TLS__UNIX_SOCKET", "true"),
            ],
        );
        let config = config.unwrap();
        assert_eq!(config.daemon.log, "warn");
        assert!(config.nbd.tls.unix_socket);
    }

    #[test]
    fn faults_of_variables_name_them() {
        let said = with_variables("", &[("HEARTH_DAEMON__STOP_TIMEOUT", "30")]).unwrap_err();
        assert!(
            said.starts_with(
                "HEARTH_DAEMON__STOP_TIMEOUT: daemon.stop_timeout: '30' is not a time"
            ),
            "{said}"
        );
        let said = with_variables("", &[("HEARTH_NBD__CONNECTIONS_MAX", "many")]).unwrap_err();
        assert!(said.contains("has to be a number"), "{said}");
        let said = with_variables("", &[("HEARTH_WEB__ADRESS", "off")]).unwrap_err();
        assert_eq!(
            said,
            "HEARTH_WEB__ADRESS: unknown variable; did you mean HEARTH_WEB__ADDRESS?"
        );
    }
}
