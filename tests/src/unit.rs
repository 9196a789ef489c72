//! A systemd unit as text: its settings in their order, drop-ins behind it.

use std::path::Path;

use anyhow::{Context, bail};

/// One `Key=value` of the unit's `[Service]` section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    /// Before the equals sign.
    pub(crate) key: String,
    /// Behind it.
    pub(crate) value: String,
}

/// The `[Service]` section of a unit.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unit {
    settings: Vec<Setting>,
}

impl Unit {
    /// Reads a unit, and the drop-ins of the folder `drop_ins` if there is one, by their names.
    ///
    /// # Errors
    ///
    /// When a file cannot be read, or a line is no setting.
    pub(crate) fn read(unit: &Path, drop_ins: &Path) -> anyhow::Result<Self> {
        let mut files = vec![unit.to_path_buf()];
        if let Ok(entries) = std::fs::read_dir(drop_ins) {
            let mut found: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
            found.sort();
            files.extend(found);
        }
        let mut whole = Self::default();
        for file in files {
            let text =
                std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
            let part = Self::parse(&text).with_context(|| file.display().to_string())?;
            whole.settings.extend(part.settings);
        }
        Ok(whole)
    }

    pub(crate) fn parse(text: &str) -> anyhow::Result<Self> {
        let mut section = "";
        let mut settings = Vec::new();
        for line in text.lines().map(str::trim) {
            if line.is_empty() || line.starts_with(['#', ';']) {
                continue;
            }
            if line.ends_with('\\') {
                bail!("a continued line: {line}");
            }
            if line.starts_with('[') {
                section = line;
            } else if section == "[Service]" {
                let (key, value) = line.split_once('=').with_context(|| line.to_owned())?;
                let (key, value) = (key.to_owned(), value.to_owned());
                settings.push(Setting { key, value });
            }
        }
        Ok(Self { settings })
    }

    /// All settings, in their order.
    pub(crate) fn settings(&self) -> &[Setting] {
        &self.settings
    }

    /// The words of the one command under this key.
    ///
    /// # Errors
    ///
    /// When there is none, or more than one.
    pub(crate) fn command(&self, key: &str) -> anyhow::Result<Vec<String>> {
        let found = self.settings.iter().filter(|setting| setting.key == key);
        let found: Vec<_> = found.map(|setting| setting.value.as_str()).collect();
        // An empty one takes those before it back.
        match found.split(|value| value.is_empty()).next_back() {
            Some([one]) => words(one),
            _ => bail!("the unit has not one {key}"),
        }
    }
}

/// The words of a command line: single quotes keep blanks together.
fn words(line: &str) -> anyhow::Result<Vec<String>> {
    let mut words = Vec::new();
    for (at, part) in line.split('\'').enumerate() {
        if at % 2 == 1 {
            words.push(part.to_owned());
        } else {
            words.extend(part.split_whitespace().map(str::to_owned));
        }
    }
    if line.matches('\'').count() % 2 == 1 {
        bail!("a quote that is not closed: {line}");
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_the_service_are_read_in_their_order() {
        let text = "[Unit]\nAfter=a\n# note\n[Service]\nUser=x\nExecStart=/bin/sh -c 'a b' c\n";
        let unit = Unit::parse(text).unwrap();
        assert_eq!(unit.settings().len(), 2);
        assert_eq!(unit.settings()[0].key, "User");
        let words = unit.command("ExecStart").unwrap();
        assert_eq!(words, ["/bin/sh", "-c", "a b", "c"]);
        assert!(unit.command("ExecReload").is_err());
        let other = Unit::parse("[Service]\nExecStart=/bin/a\nExecStart=\nExecStart=/bin/b\n");
        assert_eq!(other.unwrap().command("ExecStart").unwrap(), ["/bin/b"]);
        assert!(Unit::parse("[Service]\nno setting\n").is_err());
        assert!(Unit::parse("[Service]\nUser=a \\\n").is_err());
    }
}
