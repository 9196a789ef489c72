//! Keys of an origin on the command line: `--origin-key chap_user=web` is `chap_user = "web"` in the configuration.

use configuration::OriginConfig;
use serde_json::Value;
use std::str::FromStr;

/// A key of an origin and its value.
#[derive(Clone, Debug, PartialEq)]
pub struct OriginKey {
    name: String,
    value: Value,
}

impl FromStr for OriginKey {
    type Err = String;

    /// Numbers and `true` and `false` are such, and everything else is text.
    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = text
            .split_once('=')
            .filter(|(name, _)| !name.is_empty())
            .ok_or_else(|| "write a key and its value, such as chap_user=web".to_owned())?;
        let value = match serde_json::from_str(value) {
            Ok(value @ (Value::Bool(_) | Value::Number(_))) => value,
            _ => Value::from(value),
        };
        Ok(Self {
            name: name.to_owned(),
            value,
        })
    }
}

/// The origin with these keys besides what it has.
///
/// # Errors
/// What is wrong with a key, in words: origins of this kind have none of that name, or the value is not one of its values.
pub(super) fn with_keys(origin: &OriginConfig, keys: &[OriginKey]) -> Result<OriginConfig, String> {
    let mut origin = origin.clone();
    for key in keys {
        let wrong = |why: String| format!("--origin-key {}: {why}", key.name);
        let mut table = written(&origin).map_err(wrong)?;
        let kind = origin.kind();
        if key.name == kind {
            return Err(wrong("--origin has it".to_owned()));
        }
        table.insert(key.name.clone(), key.value.clone());
        origin = serde_json::from_value(Value::Object(table))
            .map_err(|error| wrong(error.to_string()))?;
        // Keys of other kinds are read, and mean nothing.
        let is_known = written(&origin).map_err(wrong)?.contains_key(&key.name);
        if !is_known {
            return Err(wrong(format!(
                "an origin of the kind '{kind}' has no such key; hearth.toml(5) has those of each kind"
            )));
        }
    }
    Ok(origin)
}

/// The keys that an origin has.
fn written(origin: &OriginConfig) -> Result<serde_json::Map<String, Value>, String> {
    match serde_json::to_value(origin) {
        Ok(Value::Object(table)) => Ok(table),
        Ok(_) => Err("an origin is a table".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use configuration::{FileOrigin, IscsiOrigin};

    fn iscsi() -> OriginConfig {
        let unit = "iscsi://store/iqn.2026-01.org.example:vms/1";
        IscsiOrigin::new(unit.parse().unwrap()).into()
    }

    fn with(origin: &OriginConfig, keys: &[&str]) -> Result<OriginConfig, String> {
        let keys: Result<Vec<OriginKey>, _> = keys.iter().map(|key| key.parse()).collect();
        with_keys(origin, &keys?)
    }

    #[test]
    fn a_key_is_what_the_configuration_has_under_that_name() {
        let found = with(
            &iscsi(),
            &[
                "chap_user=web=1",
                "chap_secret_file=/etc/hearth/chap",
                "request_timeout=3s",
            ],
        );
        let Ok(OriginConfig::Iscsi(found)) = found else {
            panic!("{found:?}");
        };
        assert_eq!(found.chap_user.as_deref(), Some("web=1"));
        assert_eq!(found.request_timeout.0, units::Duration::from_secs(3));
        let file = FileOrigin::new("/o".into()).into();
        let Ok(OriginConfig::File(file)) = with(&file, &["direct=false"]) else {
            panic!("a file");
        };
        assert!(!file.direct);
    }

    #[test]
    fn a_key_that_would_mean_nothing_is_refused_with_its_name() {
        let file: OriginConfig = FileOrigin::new("/o".into()).into();
        for (origin, key, why) in [
            (iscsi(), "chap_user", "write a key and its value"),
            (iscsi(), "=web", "write a key and its value"),
            (iscsi(), "iscsi=iscsi://other/t/1", "--origin has it"),
            (iscsi(), "chapuser=web", "unknown field `chapuser`"),
            (
                iscsi(),
                "tls_psk_name=web",
                "of the kind 'iscsi' has no such key",
            ),
            (
                file.clone(),
                "chap_user=web",
                "of the kind 'file' has no such key",
            ),
            (file, "direct=maybe", "--origin-key direct"),
            (iscsi(), "rbd=rbd:a/b", "not both"),
        ] {
            let error = with(&origin, &[key]).unwrap_err();
            assert!(error.contains(why), "{key}: {error}");
        }
    }
}
