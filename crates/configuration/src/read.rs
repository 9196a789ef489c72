//! From text to typed values, as far as that goes: what is of a wrong form is reported, and the rest is
//! read and checked all the same.
//!
//! ```text
//!   text ──walk──► unknown keys, wrong types ──mend──► typed values ──mend──► faults of values
//!          └─────────────◄────────┘          └──────◄──────┘
//! ```
//!
//! A key that is probably mistyped is taken for the one that was meant. For another value that cannot
//! be read something stands in. What is then found may be the stand-in's fault, so the rest is checked
//! twice, with different ones: a fault that is found both times is one whatever is written there.

use super::fault::Fault;
use super::line_starts::line_at;
use super::merge::merged;
use super::model::Config;
use super::origins;
use super::sources::Sources;
use super::walk::{Examples, Mend, Walk};
use serde::Deserialize;
use std::borrow::Cow;
use std::collections::BTreeSet;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue, Deserializer};

/// What stands for a value that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StandIn {
    /// The reference file's.
    Example,
    /// Its default, or if it has none, something that differs from [`StandIn::Example`].
    Default,
}

/// Reads the texts of a configuration.
///
/// # Errors
/// All faults, in no order.
pub(super) fn read(sources: &Sources) -> Result<Config, Vec<Fault>> {
    let table = merged(sources)?;
    let text = sources.text();
    let examples = Examples::new();
    let of = |stand_in| Reading::new(text, &examples, table.clone(), stand_in).run();
    let (config, mut faults, values) = of(StandIn::Example);
    if let (Some(config), true) = (config, faults.is_empty() && values.is_empty()) {
        return Ok(config);
    }
    if faults.is_empty() {
        return Err(values);
    }
    let (_, _, others) = of(StandIn::Default);
    faults.extend(values.into_iter().filter(|fault| others.contains(fault)));
    Err(faults)
}

fn fault_of(error: &toml::de::Error, text: &str) -> Fault {
    Fault {
        key: String::new(),
        line: error.span().map(|span| line_at(text, &span)),
        message: error.message().replace('\n', "; "),
    }
}

/// A configuration that is being read.
struct Reading<'a> {
    text: &'a str,
    examples: &'a Examples,
    stand_in: StandIn,
    /// As it was written, with all that was mended.
    table: Spanned<DeTable<'a>>,
    /// Keys for whose values something stands in.
    stood_in: BTreeSet<String>,
    faults: Vec<Fault>,
}

impl<'a> Reading<'a> {
    fn new(
        text: &'a str,
        examples: &'a Examples,
        table: Spanned<DeTable<'a>>,
        stand_in: StandIn,
    ) -> Self {
        Self {
            text,
            examples,
            stand_in,
            table,
            stood_in: BTreeSet::new(),
            faults: Vec::new(),
        }
    }

    /// The configuration, if it could be typed; its faults of form; and those of its values.
    fn run(mut self) -> (Option<Config>, Vec<Fault>, Vec<Fault>) {
        let Some(config) = self.form().and_then(|()| self.typed()) else {
            return (None, self.faults, Vec::new());
        };
        let walk = Walk::of(self.text, self.examples, self.table.get_ref());
        let mut values = super::check::faults(&config);
        values.retain(|fault| !self.is_stood_in(&fault.key));
        for fault in &mut values {
            fault.line = fault.line.or_else(|| walk.line_of(&fault.key));
        }
        (Some(config), self.faults, values)
    }

    /// Reports and mends keys and ways of writing until there is nothing more; none if something cannot
    /// be mended.
    fn form(&mut self) -> Option<()> {
        loop {
            let walk = Walk::of(self.text, self.examples, self.table.get_ref());
            let found = walk.into_faults();
            if found.is_empty() {
                return Some(());
            }
            let mut is_mended = true;
            for (fault, mend) in found {
                is_mended &= self.mend(&fault.key, mend).is_some();
                self.faults.push(fault);
            }
            if !is_mended {
                return None;
            }
        }
    }

    /// Types all values; those that cannot be are reported and mended.
    fn typed(&mut self) -> Option<Config> {
        loop {
            let error = match Config::deserialize(Deserializer::from(self.table.clone())) {
                Ok(config) => return Some(config),
                Err(error) => error,
            };
            let mut fault = fault_of(&error, self.text);
            let walk = Walk::of(self.text, self.examples, self.table.get_ref());
            let key = error.span().and_then(|span| walk.key_at(&span));
            let mut key = key.unwrap_or_default().to_owned();
            let is_missing = if let Some(name) = missing(error.message()) {
                if !key.is_empty() {
                    key.push('.');
                }
                key.push_str(name);
                (fault.key, fault.message) = self.of_missing(&key);
                fault.line = walk.line_of(&fault.key);
                true
            } else {
                fault.key.clone_from(&key);
                false
            };
            // What stands in is left out by one of the two readings, where that can be.
            if !self.is_stood_in(&key) {
                self.faults.push(fault);
            } else if !is_missing {
                return None;
            }
            if is_missing {
                self.insert(&key)?;
            } else {
                self.mend(&key, Mend::StandIn)?;
            }
        }
    }

    /// The key to name for one that is missing, and what to say.
    fn of_missing(&self, key: &str) -> (String, String) {
        let outer = key.rsplit_once('.').map_or("", |(outer, _)| outer);
        if outer.ends_with(".origin") {
            return (outer.to_owned(), origins::choose());
        }
        let name = key.rsplit('.').next().unwrap_or(key);
        let message = match self.examples.of(key) {
            Some(example) => format!("is missing; write it, such as {name} = {example}"),
            None => "is missing".to_owned(),
        };
        (key.to_owned(), message)
    }

    /// Mends what is at a key; none if there is nothing.
    fn mend(&mut self, key: &str, mend: Mend) -> Option<()> {
        match mend {
            Mend::Rename(meant) => {
                let (table, name) = self.around(key)?;
                let (written, value) = table.remove_entry(name)?;
                let meant = Spanned::new(written.span(), Cow::Owned(meant));
                table.insert(meant, value);
            }
            Mend::Remove => {
                let (table, name) = self.around(key)?;
                table.remove(name)?;
            }
            Mend::StandIn => {
                self.stood_in.insert(key.to_owned());
                let example = self.example(key);
                let stand_in = self.stand_in;
                let (table, name) = self.around(key)?;
                match (stand_in, example) {
                    (StandIn::Example, Some(example)) => *table.get_mut(name)? = example,
                    (StandIn::Example, None) | (StandIn::Default, _) => {
                        table.remove(name)?;
                    }
                }
            }
            Mend::Several => {
                let (table, name) = self.around(key)?;
                let value = table.get_mut(name)?;
                let mut only = DeArray::new();
                only.push(value.clone());
                *value.get_mut() = DeValue::Array(only);
            }
            Mend::Single => {
                let (table, name) = self.around(key)?;
                let value = table.get_mut(name)?;
                let first = value.get_ref().get(0)?.clone();
                *value = first;
            }
        }
        Some(())
    }

    /// Writes something for a key that is missing and has no default.
    fn insert(&mut self, key: &str) -> Option<()> {
        let count = self.stood_in.len();
        self.stood_in.insert(key.to_owned());
        let value = match self.example(key) {
            Some(example) => {
                let text = example.get_ref().as_str()?;
                let which = match self.stand_in {
                    StandIn::Example => "one",
                    StandIn::Default => "other",
                };
                DeValue::String(Cow::Owned(format!("{text}-{which}-{count}")))
            }
            None => DeValue::Table(self.table_for(key)),
        };
        let (table, name) = self.around(key)?;
        let name = spanned(Cow::Owned(name.to_owned()));
        table.insert(name, spanned(value)).is_none().then_some(())
    }

    /// A table for a key that has to be one: it has what an origin has to have.
    fn table_for(&self, key: &str) -> DeTable<'a> {
        let name = origins::first_name();
        let mut table = DeTable::new();
        if let Some(example) = self.example(&format!("{key}.{name}")) {
            table.insert(spanned(Cow::Borrowed(name)), example);
        }
        table
    }

    fn example(&self, key: &str) -> Option<Spanned<DeValue<'a>>> {
        DeValue::parse(self.examples.of(key)?).ok()
    }

    /// The table that has a key, and the key's name in it.
    fn around<'k>(&mut self, key: &'k str) -> Option<(&mut DeTable<'a>, &'k str)> {
        let (path, name) = key.rsplit_once('.').unwrap_or(("", key));
        let mut table = self.table.get_mut();
        for part in path.split('.').filter(|part| !part.is_empty()) {
            let (name, at) = part.split_once('[').unwrap_or((part, ""));
            let mut value = table.get_mut(name)?.get_mut();
            if let Some(at) = at.strip_suffix(']') {
                let DeValue::Array(items) = value else {
                    return None;
                };
                value = items.get_mut(at.parse::<usize>().ok()?)?.get_mut();
            }
            let DeValue::Table(inner) = value else {
                return None;
            };
            table = inner;
        }
        Some((table, name))
    }

    fn is_stood_in(&self, key: &str) -> bool {
        let is_in = |outer: &String| {
            let rest = key.strip_prefix(outer.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        self.stood_in.iter().any(is_in)
    }
}

fn spanned<T>(value: T) -> Spanned<T> {
    Spanned::new(0..0, value)
}

/// The field that an error says is missing.
fn missing(message: &str) -> Option<&str> {
    if message == origins::choose() {
        return Some(origins::first_name());
    }
    message.strip_prefix("missing field `")?.strip_suffix('`')
}

#[cfg(test)]
mod tests {
    use super::super::parse;

    fn found(text: &str) -> Vec<(Option<usize>, String)> {
        let faults = parse(text).unwrap_err();
        faults.into_iter().map(|f| (f.line, f.key)).collect()
    }

    fn expect(text: &str, expected: &[(usize, &str)]) {
        let expected = expected
            .iter()
            .map(|(line, key)| (Some(*line), (*key).to_owned()));
        let expected: Vec<_> = expected.collect();
        assert_eq!(found(text), expected, "{:#?}", parse(text));
    }

    #[test]
    fn faults_of_form_do_not_hide_faults_of_values() {
        expect(
            "[daemon]\nlog = 'inof'\nstate_dri = 'relative'\nstop_timeout = 30\n\
             [nbd]\nhandshake_timeout = '0s'\nbytes_in_flight_max = '64MB'\nzzz = 1\n\
             [[cache]]\nname = 'a'\npath = 'relative'\nwrite_delay = '5'\nwrite_buffer = '0B'\n\
             [[disk]]\nname = 'd'\norigin = { fil = 'relative', connections = 99 }\ncache = 'b'\n",
            &[
                (2, "daemon.log"),
                (3, "daemon.state_dri"),
                (3, "daemon.state_dir"),
                (4, "daemon.stop_timeout"),
                (6, "nbd.handshake_timeout"),
                (7, "nbd.bytes_in_flight_max"),
                (8, "nbd.zzz"),
                (11, "cache[0].path"),
                (12, "cache[0].write_delay"),
                (13, "cache[0].write_buffer"),
                (16, "disk[0].origin.fil"),
                (16, "disk[0].origin.connections"),
                (16, "disk[0].origin.file"),
                (17, "disk[0].cache"),
            ],
        );
    }

    #[test]
    fn every_value_that_makes_no_sense_is_reported_at_once() {
        expect(
            "[nbd]\nunix_socket_mode = '999'\nbytes_in_flight_max = '64MB'\n[nbd.tls]\nmode = 'on'\n",
            &[
                (2, "nbd.unix_socket_mode"),
                (3, "nbd.bytes_in_flight_max"),
                (5, "nbd.tls.mode"),
            ],
        );
    }

    #[test]
    fn a_mistyped_key_is_taken_for_the_one_that_was_meant() {
        // Nothing is said of a certificate or a path that is missing.
        expect(
            "[nbd.tls]\nmode = 'require'\ncertifcate = '/c'\nkey = '/k'\n[[cache]]\nname = 'a'\npaht = '/a'\n\
             [deamon]\nstop_timeout = '0s'\n",
            &[
                (3, "nbd.tls.certifcate"),
                (7, "cache[0].paht"),
                (8, "deamon"),
                (9, "daemon.stop_timeout"),
            ],
        );
    }

    #[test]
    fn what_may_be_right_once_a_value_is_mended_is_not_reported() {
        expect(
            "[nbd.tls]\ncertificate = 5\nkey = '/k'\n\
             [[cache]]\nname = 5\npath = '/a'\n[[cache]]\nname = 'b'\npath = 6\n\
             [[disk]]\nname = 'd'\ncache = 'main'\norigin = 7\n\
             [[disk]]\nname = 'e'\ncache = 'b'\norigin = { connections = 0 }\n",
            &[
                (2, "nbd.tls.certificate"),
                (5, "cache[0].name"),
                (9, "cache[1].path"),
                (13, "disk[0].origin"),
                (17, "disk[1].origin.connections"),
                (17, "disk[1].origin"),
            ],
        );
    }

    #[test]
    fn every_missing_key_is_named_with_an_example() {
        let text = "[[cache]]\n[[disk]]\n[[disk]]\nname = 'd'\norigin = { file = '/o' }\n";
        expect(
            text,
            &[
                (1, "cache[0].name"),
                (1, "cache[0].path"),
                (2, "disk[0].name"),
                (2, "disk[0].origin"),
            ],
        );
        let faults = parse(text).unwrap_err();
        assert_eq!(
            faults[0].message,
            "is missing; write it, such as name = \"main\""
        );
    }
}
