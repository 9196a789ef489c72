//! Rules of planning as a TOML file has them.

use crate::terminal::exit::{CliError, Exit, chain};
use clap::ValueEnum;
use placement::RulesFile;
use std::path::Path;

/// What rules begin with, on a command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Base {
    /// `CloudCache`'s rule as printed, section 6
    Paper,
    /// The paper's with a margin, a rest and limits on moves; with the objective gain, moves that pay
    Hearth,
}

impl From<Base> for placement::Base {
    fn from(word: Base) -> Self {
        match word {
            Base::Paper => Self::Paper,
            Base::Hearth => Self::Hearth,
        }
    }
}

/// Reads a file of rules.
pub(crate) fn read(path: &Path) -> Result<RulesFile, CliError> {
    let named =
        |exit, problem: String| CliError::new(exit, format!("{}: {problem}", path.display()));
    let text = std::fs::read_to_string(path);
    let text = text.map_err(|error| named(Exit::Failed, chain(&error)))?;
    toml::from_str(&text).map_err(|error| {
        named(Exit::Usage, error.message().to_owned())
            .with_remedy("keys are called as the options of hearth plan --help are")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_is_no_rule_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rules.toml");
        std::fs::write(&path, "base = \"paper\"\ncluster = 2").unwrap();
        assert_eq!(read(&path).unwrap().cluster, Some(2));
        std::fs::write(&path, "clusters = 2").unwrap();
        assert!(read(&path).is_err());
    }
}
