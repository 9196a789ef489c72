//! The configuration as a JSON schema, by which editors complete keys, show what they mean and mark what is wrong.
//!
//! Keys, meanings and defaults are the reference file's. Which values a key takes is asked of the parser itself:
//! each key is given a text that nothing takes, and the refusal tells what it takes. So a schema that differs
//! from the parser cannot be written down. What only the whole configuration can tell (names that
//! are there, keys that exclude each other) is left to `--check-config`.
//!
//! The schema is of draft 7, which every editor reads: <https://json-schema.org/draft-07>.

use super::REFERENCE;
use super::model::Config;
use super::reference::{Entry, reference_sections};
use serde::Deserialize;
use serde_json::{Value, json};

/// A text that no key takes which does not take any text.
const TAKEN_BY_NONE: &str = "?";

/// What the patterns of texts with a form begin and end with.
const SIZE: &str = r"\s*[0-9]+(\.[0-9]{1,9})?\s*([Bb]|[KkMmGgTt][Ii][Bb])?\s*";
const TIME: &str = r"\s*[0-9]+\s*(ns|us|ms|s|min|h)\s*";
const MODE: &str = "[0-7]{3,4}";
const NAME: &str = "[A-Za-z0-9_][A-Za-z0-9._-]{0,62}";
const ID: &str = "[0-9A-Fa-f-]{32,36}";
const ADDRESS: &str = r"\S+:[0-9]{1,5}";
const COLLECTOR: &str = r"https?://[^\s@]+";

/// The schema.
///
/// # Panics
/// If the reference file is none; a test reads it.
pub fn json_schema() -> Value {
    let probe = Probe::new();
    let mut root = table();
    for section in reference_sections() {
        let is_repeated = section.header.starts_with("[[");
        let path = section.header.trim_matches(['[', ']']);
        let mut inner = table();
        for entry in &section.entries {
            let key = format!("{path}.{}", entry.key);
            inner["properties"][&entry.key] = key_schema(&probe, &key, entry);
        }
        inner["description"] = json!(section.meaning);
        let required = probe.required(path, &section.entries);
        if !required.is_empty() {
            inner["required"] = json!(required);
        }
        let kinds = probe.kinds(path, &section.entries);
        if !kinds.is_empty() {
            let kinds = kinds.iter().map(|kind| json!({ "required": [kind] }));
            inner["oneOf"] = kinds.collect();
        }
        if is_repeated {
            inner = json!({ "type": "array", "description": section.meaning, "items": inner });
        }
        place(&mut root, path, inner);
    }
    root["$schema"] = json!("http://json-schema.org/draft-07/schema#");
    root["title"] = json!("Configuration of Hearth");
    root
}

/// The schema of a table that has no keys yet.
fn table() -> Value {
    json!({ "type": "object", "additionalProperties": false, "properties": {} })
}

/// Puts the schema of a section where its header says.
fn place(root: &mut Value, path: &str, section: Value) {
    let (outer, name) = path.rsplit_once('.').unwrap_or(("", path));
    let mut around = root;
    for part in outer.split('.').filter(|part| !part.is_empty()) {
        around = &mut around["properties"][part];
        if around["type"] == "array" {
            around = &mut around["items"];
        }
    }
    around["properties"][name] = section;
}

fn key_schema(probe: &Probe, key: &str, entry: &Entry) -> Value {
    let mut schema = values(probe, key);
    let meaning = entry.meaning.trim_end_matches(" No default.");
    schema["description"] = json!(meaning);
    if let Some(value) = json_of(&entry.value) {
        if entry.unset || meaning != entry.meaning {
            schema["examples"] = json!([value]);
        } else {
            schema["default"] = value;
        }
    }
    schema
}

/// Which values a key takes.
fn values(probe: &Probe, key: &str) -> Value {
    let Some(refusal) = probe.refusal(key, TAKEN_BY_NONE) else {
        return json!({ "type": "string" });
    };
    if let Some((_, words)) = refusal.split_once("unknown variant ") {
        let words: Vec<&str> = words.split('`').skip(3).step_by(2).collect();
        return json!({ "type": "string", "enum": words });
    }
    if let Some((_, wanted)) = refusal.split_once(", expected ") {
        return match wanted {
            "a boolean" => json!({ "type": "boolean" }),
            "a sequence" => json!({ "type": "array", "items": { "type": "string" } }),
            "u8" => json!({ "type": "integer", "minimum": 0, "maximum": u8::MAX }),
            "u32" => json!({ "type": "integer", "minimum": 0, "maximum": u32::MAX }),
            _ => json!({ "type": "number" }),
        };
    }
    let forms = [
        ("is not a size", SIZE),
        ("is not a time", TIME),
        ("is not a mode", MODE),
        ("is not a name", NAME),
        ("is not a disk id", ID),
        ("is not an IP address", ADDRESS),
        ("is not the address of a collector", COLLECTOR),
    ];
    let form = forms.iter().find(|(said, _)| refusal.contains(said));
    let Some((_, pattern)) = form else {
        return json!({ "type": "string" });
    };
    let words = ["off", "auto"].into_iter();
    // Both are names already.
    let words = words.filter(|word| *pattern != NAME && probe.refusal(key, word).is_none());
    let mut taken: Vec<&str> = words.collect();
    taken.push(pattern);
    json!({ "type": "string", "pattern": format!("^({})$", taken.join("|")) })
}

/// A value as the reference file writes it, as JSON.
fn json_of(value: &str) -> Option<Value> {
    let line = format!("x = {value}");
    let table: toml::Table = line.parse().ok()?;
    serde_json::to_value(table.get("x")?).ok()
}

/// The reference file, in which single keys are replaced to see what the parser says.
struct Probe {
    reference: toml::Table,
}

impl Probe {
    fn new() -> Self {
        let reference = REFERENCE.parse().expect("the reference file is TOML");
        Self { reference }
    }

    /// Why the parser refuses the file with this text at a key; none if it does not.
    fn refusal(&self, key: &str, text: &str) -> Option<String> {
        let (path, name) = key.rsplit_once('.').unwrap_or(("", key));
        let mut file = self.reference.clone();
        table_at(&mut file, path)?.insert(name.to_owned(), toml::Value::String(text.to_owned()));
        Self::said(file)
    }

    /// What the parser says; none if nothing is wrong.
    fn said(file: toml::Table) -> Option<String> {
        let read = Config::deserialize(file);
        read.err().map(|error| error.message().to_owned())
    }

    /// The keys of a section without which the parser refuses it, tables in it included.
    fn required(&self, path: &str, entries: &[Entry]) -> Vec<String> {
        let mut file = self.reference.clone();
        let inner = table_at(&mut file, path).map(|table| table.keys().cloned().collect());
        let inner: Vec<String> = inner.unwrap_or_default();
        let is_kind =
            |name: &String| entries.iter().any(|one| &one.key == name) && self.is_kind(path, name);
        let needed = inner.into_iter().filter(|name| {
            let mut file = self.reference.clone();
            let removed = table_at(&mut file, path).and_then(|table| table.remove(name));
            removed.is_some() && Self::said(file).is_some()
        });
        needed.filter(|name| !is_kind(name)).collect()
    }

    /// The keys of which a section has to have one, and alone suffices: the kinds of an origin.
    fn kinds(&self, path: &str, entries: &[Entry]) -> Vec<String> {
        let names = entries.iter().map(|entry| entry.key.clone());
        names.filter(|name| self.is_kind(path, name)).collect()
    }

    /// Whether a key alone is enough for a section that cannot be empty.
    fn is_kind(&self, path: &str, name: &str) -> bool {
        let with = |table: toml::Table| {
            let mut file = self.reference.clone();
            let place = table_at(&mut file, path)?;
            *place = table;
            Self::said(file)
        };
        if with(toml::Table::new()).is_none() {
            return false;
        }
        let key = format!("{path}.{name}");
        let example = reference_sections().into_iter().find_map(|section| {
            let header = section.header.trim_matches(['[', ']']).to_owned();
            let mut entries = section.entries.into_iter();
            let entry = entries.find(|entry| format!("{header}.{}", entry.key) == key)?;
            format!("{name} = {}", entry.value).parse().ok()
        });
        example.is_some_and(|table: toml::Table| with(table).is_none())
    }
}

/// The table at a path, the first of those that are repeated; made where there is none.
fn table_at<'t>(file: &'t mut toml::Table, path: &str) -> Option<&'t mut toml::Table> {
    let mut table = file;
    for part in path.split('.').filter(|part| !part.is_empty()) {
        let inner = table
            .entry(part)
            .or_insert_with(|| toml::Value::Table(toml::Table::new()));
        table = match inner {
            toml::Value::Table(inner) => inner,
            toml::Value::Array(items) => items.first_mut()?.as_table_mut()?,
            _ => return None,
        };
    }
    Some(table)
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    /// Whether the schema takes a text, and what it says if not.
    fn judged(text: &str) -> Vec<String> {
        let file: toml::Table = text.parse().unwrap();
        let file = serde_json::to_value(file).unwrap();
        let validator = jsonschema::draft7::new(&json_schema()).unwrap();
        let errors = validator.iter_errors(&file);
        errors
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect()
    }

    fn nothing() -> Vec<String> {
        Vec::new()
    }

    const HOST: &str = include_str!("../../../packaging/hearth.toml");

    #[test]
    fn the_shipped_files_are_taken() {
        assert_eq!(judged(REFERENCE), nothing());
        assert_eq!(judged(HOST), nothing());
        let uncommented = |line: &str| match line.strip_prefix('#') {
            Some(rest) if !rest.starts_with([' ', ':']) => format!("{rest}\n"),
            _ => format!("{line}\n"),
        };
        let used: String = HOST.lines().map(uncommented).collect();
        assert!(used.contains("\n[[disk]]\n"));
        assert_eq!(judged(&used), nothing());
    }

    #[test]
    fn the_examples_of_unset_keys_are_taken() {
        for section in reference_sections() {
            for entry in section.entries.iter().filter(|entry| entry.unset) {
                let key = format!("#{} = {}", entry.key, entry.value);
                // Of an origin one kind may be written.
                if !crate::origins::NAMES.contains(&entry.key.as_str()) {
                    let text = REFERENCE.replace(&key, &key[1..]);
                    assert_eq!(judged(&text), nothing(), "{key}");
                }
            }
        }
    }

    /// Configurations of the book that the parser takes.
    #[test]
    fn configurations_of_the_book_are_taken() {
        let book = concat!(env!("CARGO_MANIFEST_DIR"), "/../../book/src");
        let mut taken = 0;
        for page in std::fs::read_dir(book).unwrap() {
            let page = page.unwrap().path();
            let Ok(text) = std::fs::read_to_string(&page) else {
                continue;
            };
            for block in text.split("```toml\n").skip(1) {
                let block = block.split("```").next().unwrap();
                if parse(block).is_ok() {
                    assert_eq!(judged(block), nothing(), "{}: {block}", page.display());
                    taken += 1;
                }
            }
        }
        assert!(taken > 0, "no page has a configuration");
    }

    #[test]
    fn what_the_parser_refuses_key_by_key_is_refused() {
        let disk = "[[disk]]\nname = 'd'\n";
        for (text, key) in [
            ("[deamon]\n", ""),
            ("[daemon]\nstate_dri = '/x'\n", "/daemon"),
            ("[daemon]\nstop_timeout = 30\n", "/daemon/stop_timeout"),
            ("[daemon]\nstop_timeout = '30'\n", "/daemon/stop_timeout"),
            (
                "[nbd]\nbytes_in_flight_max = '64MB'\n",
                "/nbd/bytes_in_flight_max",
            ),
            ("[nbd]\nconnections_max = '9'\n", "/nbd/connections_max"),
            ("[nbd]\nunix_socket_mode = '999'\n", "/nbd/unix_socket_mode"),
            ("[nbd.tls]\nmode = 'on'\n", "/nbd/tls/mode"),
            ("[nbd.tls]\nunix_socket = 'yes'\n", "/nbd/tls/unix_socket"),
            ("[web]\naddress = 'localhost'\n", "/web/address"),
            ("[telemetry]\notlp = 'c:4318'\n", "/telemetry/otlp"),
            ("[cache]\nname = 'a'\npath = '/a'\n", "/cache"),
            ("[[cache]]\nname = 'a'\n", "/cache/0"),
            ("[[cache]]\nname = 'a b'\npath = '/a'\n", "/cache/0/name"),
            (disk, "/disk/0"),
            (
                &format!("{disk}origin = {{ connections = 4 }}\n"),
                "/disk/0/origin",
            ),
            (
                &format!("{disk}origin = {{ fil = '/x' }}\n"),
                "/disk/0/origin",
            ),
        ] {
            assert!(parse(text).is_err(), "{text}");
            let said = judged(text);
            let here = format!("{key}: ");
            assert!(
                said.iter().any(|line| line.starts_with(&here)),
                "{text}: {said:?}"
            );
        }
    }

    #[test]
    fn values_are_those_that_the_parser_names() {
        let schema = json_schema();
        let of = |pointer: &str| schema.pointer(pointer).unwrap();
        assert_eq!(
            of("/properties/daemon/properties/log_target/enum"),
            &json!(["auto", "stderr", "journald"])
        );
        let address = of("/properties/web/properties/address/pattern");
        assert!(address.as_str().unwrap().starts_with("^(off|"), "{address}");
        assert_eq!(
            of("/properties/disk/items/required"),
            &json!(["name", "origin"])
        );
        let time = of("/properties/daemon/properties/stop_timeout/pattern");
        assert_eq!(time, &json!(format!("^({TIME})$")));
    }
}
