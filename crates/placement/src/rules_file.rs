//! Rules of planning as operators write them: what is not there is the base's.

use crate::rules::{Objective, Rules, RulesError};
use serde::{Deserialize, Serialize};
use units::{Duration, ParseDurationError};

/// What rules begin with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Base {
    /// `CloudCache`'s rule as printed, section 6.
    Paper,
    /// The paper's with a margin, a rest and limits on moves; with the objective gain, moves that pay.
    #[default]
    Hearth,
}

/// Rules as a file or a cluster's settings have them. Times are written with their units: `2h`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RulesFile {
    /// What they begin with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base: Option<Base>,
    /// [`Rules::objective`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub objective: Option<Objective>,
    /// [`Rules::windows`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub windows: Option<usize>,
    /// [`Rules::margin`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub margin: Option<f64>,
    /// [`Rules::window`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<String>,
    /// [`Rules::rest_windows`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rest_windows: Option<u64>,
    /// [`Rules::arrivals`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arrivals: Option<usize>,
    /// [`Rules::outbound`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outbound: Option<usize>,
    /// [`Rules::cluster`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<usize>,
    /// [`Rules::worth`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worth: Option<f64>,
    /// [`Rules::horizon`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub horizon: Option<String>,
}

/// Why rules are none.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum RulesFileError {
    /// A time is none.
    #[error(transparent)]
    Time(#[from] ParseDurationError),
    /// A rule is out of its range.
    #[error(transparent)]
    Rules(#[from] RulesError),
}

impl RulesFile {
    /// The rules, checked.
    ///
    /// # Errors
    /// If a time is none, or a rule is out of its range.
    pub fn rules(&self) -> Result<Rules, RulesFileError> {
        let base = match self.base.unwrap_or_default() {
            Base::Paper => Rules::paper(),
            // Who weighs gains asks moves to pay.
            Base::Hearth if self.objective == Some(Objective::Gain) => Rules::gain(),
            Base::Hearth => Rules::hearth(),
        };
        let rules = Rules {
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
        };
        rules.check()?;
        Ok(rules)
    }
}

fn time(text: Option<&str>, otherwise: Duration) -> Result<Duration, ParseDurationError> {
    text.map_or(Ok(otherwise), str::parse)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_changes_what_it_names_and_no_more() {
        let file = RulesFile {
            objective: Some(Objective::Gain),
            window: Some("1h".to_owned()),
            cluster: Some(2),
            ..RulesFile::default()
        };
        let expected = Rules {
            window: Duration::from_secs(3600),
            cluster: 2,
            ..Rules::gain()
        };
        assert_eq!(file.rules().unwrap(), expected);
        let text = serde_json::to_string(&file).unwrap();
        assert_eq!(text, r#"{"objective":"gain","window":"1h","cluster":2}"#);
        assert_eq!(serde_json::from_str::<RulesFile>(&text).unwrap(), file);
        let paper = RulesFile {
            base: Some(Base::Paper),
            ..RulesFile::default()
        };
        assert_eq!(paper.rules().unwrap(), Rules::paper());
        let none = RulesFile {
            cluster: Some(0),
            ..RulesFile::default()
        };
        assert!(matches!(none.rules(), Err(RulesFileError::Rules(_))));
    }
}
