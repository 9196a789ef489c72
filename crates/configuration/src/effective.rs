//! Every key of a configuration with the value that holds and the place that it comes from.

use super::load::Loaded;
use super::sources::Place;
use serde_json::Value;

/// A key, and what holds for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// The key, such as `disk[2].origin.nbd`.
    pub key: String,
    /// Its value as a text of the configuration has it.
    pub value: Value,
    /// Where it is written; none if it is the default.
    pub place: Option<Place>,
}

impl Loaded {
    /// All keys that have a value, section by section.
    ///
    /// # Panics
    /// Never: a configuration is plain data.
    pub fn settings(&self) -> Vec<Setting> {
        let values = serde_json::to_value(&self.config).expect("a configuration is plain data");
        let mut settings = Vec::new();
        self.collect("", values, &mut settings);
        settings
    }

    fn collect(&self, path: &str, value: Value, settings: &mut Vec<Setting>) {
        match value {
            Value::Null => {}
            Value::Object(table) => {
                for (name, value) in table {
                    let key = match path {
                        "" => name,
                        path => format!("{path}.{name}"),
                    };
                    self.collect(&key, value, settings);
                }
            }
            Value::Array(items) if items.iter().any(Value::is_object) => {
                for (at, item) in items.into_iter().enumerate() {
                    self.collect(&format!("{path}[{at}]"), item, settings);
                }
            }
            // No section of the kind is written.
            Value::Array(items) if items.is_empty() && !path.contains('.') => {}
            value @ (Value::Array(_) | Value::Bool(_) | Value::Number(_) | Value::String(_)) => {
                settings.push(Setting {
                    key: path.to_owned(),
                    place: self.place_of(path),
                    value,
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::load::load_with_places;

    #[test]
    fn each_key_says_where_its_value_comes_from() {
        let dir = tempfile::tempdir().unwrap();
        let main = dir.path().join("h.toml");
        std::fs::write(&main, "[nbd]\nclients = []\n[[vm]]\nname = 'v'\n").unwrap();
        let settings = load_with_places(&main).unwrap().settings();
        let said = |key: &str| {
            let setting = settings.iter().find(|setting| setting.key == key).unwrap();
            let place = setting.place.as_ref().map(|place| place.line);
            (setting.value.to_string(), place)
        };
        assert_eq!(said("nbd.clients"), ("[]".to_owned(), Some(2)));
        assert_eq!(said("vm[0].name"), ("\"v\"".to_owned(), Some(4)));
        assert_eq!(said("vm[0].weight"), ("100".to_owned(), None));
        assert_eq!(said("web.address"), ("\"off\"".to_owned(), None));
        assert!(settings.iter().all(|setting| setting.key != "disk"));
    }
}
