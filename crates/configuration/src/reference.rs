//! `packaging/reference.toml` as data: what the book's page of the configuration is made of.
//!
//! The file's form is kept by tests: a section is a comment and its header, a key is a
//! comment and its assignment, and a key without default is commented out.

use super::REFERENCE;

/// A section of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// Its header as written, such as `[[cache]]`.
    pub header: String,
    /// What it is about.
    pub meaning: String,
    /// Its keys in the order of the file.
    pub entries: Vec<Entry>,
}

/// A key of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// The value as written in the file.
    pub value: String,
    /// Whether the value is only an example, because there is no default.
    pub unset: bool,
    /// What it means, with its unit.
    pub meaning: String,
}

/// The sections of the reference file.
pub fn reference_sections() -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    let mut comment: Vec<&str> = Vec::new();
    for line in REFERENCE.lines() {
        let (unset, code) = match line.strip_prefix('#') {
            Some(rest) if rest.is_empty() || rest.starts_with(' ') => {
                comment.push(rest.trim());
                continue;
            }
            Some(rest) => (true, rest),
            None => (false, line),
        };
        if code.is_empty() {
            comment.clear();
        } else if code.starts_with('[') {
            sections.push(Section {
                header: code.to_owned(),
                meaning: comment.join(" "),
                entries: Vec::new(),
            });
            comment.clear();
        } else if let (Some((key, value)), Some(section)) =
            (code.split_once(" = "), sections.last_mut())
        {
            section.entries.push(Entry {
                key: key.to_owned(),
                value: value.to_owned(),
                unset,
                meaning: comment.join(" "),
            });
            comment.clear();
        }
    }
    sections
}

#[cfg(test)]
mod tests {
    use super::super::walk::schema;
    use super::super::{
        CacheConfig, Config, DiskConfig, FileOrigin, NbdOrigin, PeerConfig, VmConfig, parse,
    };
    use super::*;
    use serde_json::Value;
    use std::collections::BTreeSet;

    #[test]
    fn the_reference_file_holds_the_defaults_of_the_code() {
        let mut expected = Config {
            caches: vec![CacheConfig::new(
                "main".parse().unwrap(),
                "/var/cache/hearth/main.flash".into(),
            )],
            peers: vec![PeerConfig::new(
                "node-b.example".to_owned(),
                "10.0.0.3:9810".to_owned(),
            )],
            vms: vec![VmConfig::new("web".parse().unwrap())],
            disks: vec![DiskConfig::new(
                "web-1".parse().unwrap(),
                FileOrigin::new("/srv/images/web-1.raw".into()).into(),
            )],
            ..Config::default()
        };
        assert_eq!(parse(REFERENCE).unwrap(), expected);
        let nbd = REFERENCE.replace("file = \"/srv/images/web-1.raw\"", "nbd = 'nbd://h/e'");
        expected.disks[0].origin = NbdOrigin::new("nbd://h/e".parse().unwrap()).into();
        assert_eq!(parse(&nbd).unwrap(), expected);
    }

    fn keys_of(schema: &Value, path: &str, keys: &mut BTreeSet<String>) {
        match schema {
            Value::Object(map) => {
                for (key, value) in map {
                    let full = if path.is_empty() {
                        key.clone()
                    } else {
                        format!("{path}.{key}")
                    };
                    keys_of(value, &full, keys);
                }
            }
            Value::Array(items) if !items.is_empty() => keys_of(&items[0], path, keys),
            Value::Array(_)
            | Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_) => {
                keys.insert(path.to_owned());
            }
        }
    }

    #[test]
    fn the_reference_file_holds_every_key_of_the_code_once() {
        let mut known = BTreeSet::new();
        keys_of(&schema(), "", &mut known);
        let mut written = BTreeSet::new();
        for section in reference_sections() {
            let header = section.header.trim_matches(['[', ']']);
            for entry in section.entries {
                assert!(written.insert(format!("{header}.{}", entry.key)));
            }
        }
        assert_eq!(written, known);
    }

    #[test]
    fn every_key_and_section_says_what_it_means() {
        for section in reference_sections() {
            assert!(section.meaning.ends_with('.'), "{}", section.header);
            for entry in section.entries {
                assert!(entry.meaning.ends_with('.'), "{}", entry.key);
            }
        }
    }

    #[test]
    fn the_examples_of_unset_keys_are_valid_one_by_one() {
        for section in reference_sections() {
            for entry in section.entries.iter().filter(|entry| entry.unset) {
                let commented = format!("#{} = {}", entry.key, entry.value);
                assert_eq!(REFERENCE.matches(&commented).count(), 1, "{commented}");
                let text = REFERENCE.replace(&commented, &commented[1..]);
                // Keys that exclude or need each other are fine as long as they are known.
                if let Err(faults) = parse(&text) {
                    for fault in faults {
                        assert!(
                            fault.message.contains("not both")
                                || fault.message.contains("together")
                                || fault.message.contains("needs a certificate"),
                            "{commented}: {fault:?}"
                        );
                    }
                }
            }
        }
    }
}
