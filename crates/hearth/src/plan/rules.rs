//! Rules of planning as a TOML file has them.

use crate::terminal::exit::{CliError, Exit, chain};
use clap::ValueEnum;
use placement::{Objective, Rules};
use serde::Deserialize;
use std::path::Path;
use units::Duration;

/// What rules begin with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Base {
    /// `CloudCache`'s rule as printed, section 6
    Paper,
    /// The paper's with a margin, a rest and limits on moves; with the objective gain, moves that pay
    #[default]
    Hearth,
}

/// A file of rules. What is not there is the base's.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RulesFile {
    pub(super) base: Option<Base>,
    pub(super) objective: Option<Objective>,
    pub(super) windows: Option<usize>,
    pub(super) margin: Option<f64>,
    pub(super) window: Option<String>,
    pub(super) rest_windows: Option<u64>,
    pub(super) arrivals: Option<usize>,
    pub(super) outbound: Option<usize>,
    pub(super) cluster: Option<usize>,
    pub(super) worth: Option<f64>,
    pub(super) horizon: Option<String>,
}

impl RulesFile {
    /// Reads a file.
    pub(super) fn read(path: &Path) -> Result<Self, CliError> {
        let named =
            |exit, problem: String| CliError::new(exit, format!("{}: {problem}", path.display()));
        let text = std::fs::read_to_string(path);
        let text = text.map_err(|error| named(Exit::Failed, chain(&error)))?;
        toml::from_str(&text).map_err(|error| {
            named(Exit::Usage, error.message().to_owned())
                .with_remedy("keys are called as the options of hearth plan --help are")
        })
    }

    /// The rules.
    pub(super) fn rules(&self) -> Result<Rules, CliError> {
        let base = match self.base.unwrap_or_default() {
            Base::Paper => Rules::paper(),
            // Who weighs gains asks moves to pay.
            Base::Hearth if self.objective == Some(Objective::Gain) => Rules::gain(),
            Base::Hearth => Rules::hearth(),
        };
        Ok(Rules {
            windows: self.windows.unwrap_or(base.windows),
            margin: self.margin.unwrap_or(base.margin),
            window: time(self.window.as_deref(), base.window)?,
            rest_windows: self.rest_windows.unwrap_or(base.rest_windows),
            arrivals: self.arrivals.unwrap_or(base.arrivals),
            outbound: self.outbound.unwrap_or(base.outbound),
            cluster: self.cluster.unwrap_or(base.cluster),
            worth: self.worth.unwrap_or(base.worth),
            horizon: time(self.horizon.as_deref(), base.horizon)?,
            distrust: base.distrust,
            objective: self.objective.unwrap_or(base.objective),
        })
    }
}

fn time(text: Option<&str>, otherwise: Duration) -> Result<Duration, CliError> {
    let Some(text) = text else {
        return Ok(otherwise);
    };
    text.parse()
        .map_err(|error| CliError::of(Exit::Usage, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_changes_what_it_names_and_no_more() {
        let file: RulesFile =
            toml::from_str("objective = \"gain\"\nwindow = \"1h\"\ncluster = 2").unwrap();
        let rules = file.rules().unwrap();
        let expected = Rules {
            window: Duration::from_secs(3600),
            cluster: 2,
            ..Rules::gain()
        };
        assert_eq!(rules, expected);
        let paper: RulesFile = toml::from_str("base = \"paper\"").unwrap();
        assert_eq!(paper.rules().unwrap(), Rules::paper());
        assert!(toml::from_str::<RulesFile>("clusters = 2").is_err());
    }
}
