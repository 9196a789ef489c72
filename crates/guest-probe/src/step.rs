//! One step of the script: a name and its settings.

use std::path::PathBuf;

use crate::outcome::ProbeError;

/// A parsed step, `name,key=value,...`.
pub(crate) struct Step {
    name: String,
    settings: Vec<(String, String)>,
}

impl Step {
    /// Parses one step.
    ///
    /// # Errors
    ///
    /// [`ProbeError::Usage`] if a setting has no value.
    pub(crate) fn parse(text: &str) -> Result<Self, ProbeError> {
        let mut words = text.split(',');
        let name = words.next().unwrap_or_default().to_owned();
        let settings = words
            .map(|word| match word.split_once('=') {
                Some((key, value)) => Ok((key.to_owned(), value.to_owned())),
                None => Err(ProbeError::Usage(format!("{word} has no value"))),
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { name, settings })
    }

    /// What to do.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// A number, or what stands in for it.
    pub(crate) fn number_or(&self, key: &str, absent: u64) -> Result<u64, ProbeError> {
        let Some((_, value)) = self.settings.iter().find(|(name, _)| name == key) else {
            return Ok(absent);
        };
        value
            .parse()
            .map_err(|_| ProbeError::Usage(format!("{key}={value} is not a number")))
    }

    /// A path that the step cannot do without.
    pub(crate) fn path(&self, key: &str) -> Result<PathBuf, ProbeError> {
        let found = self.settings.iter().find(|(name, _)| name == key);
        found
            .map(|(_, value)| PathBuf::from(value))
            .ok_or_else(|| ProbeError::Usage(format!("{} needs {key}=", self.name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_found_by_name() {
        let step = Step::parse("write,dir=/var/probe,files=3").unwrap();
        assert_eq!(step.name(), "write");
        assert_eq!(step.path("dir").unwrap(), PathBuf::from("/var/probe"));
        assert_eq!(step.number_or("files", 1).unwrap(), 3);
        assert_eq!(step.number_or("kib", 64).unwrap(), 64);
    }

    #[test]
    fn a_setting_without_a_value_is_refused() {
        assert!(Step::parse("read,dir").is_err());
        assert!(
            Step::parse("read,files=many")
                .unwrap()
                .number_or("files", 1)
                .is_err()
        );
    }
}
