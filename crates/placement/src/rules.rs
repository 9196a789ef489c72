//! The rules that a plan follows: the paper's, as printed, or ours around it.

use serde::{Deserialize, Serialize};
use units::Duration;

/// What makes one possible move better than another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Objective {
    /// The least variance of load across hosts (`CloudCache`, section 6).
    #[default]
    Variance,
    /// The most latency saved, less what the move costs.
    Gain,
}

/// What a plan may do. Limits of `usize::MAX` do not limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rules {
    /// A host is planned for once it has been above its bound for so many windows in a row, the present one included.
    pub windows: usize,
    /// By how much a target's load stays below its bound with what comes.
    pub margin: f64,
    /// How long a window is.
    pub window: Duration,
    /// For how many windows a VM stays after a move.
    pub rest_windows: u64,
    /// VMs that one host takes at a time, those on their way included.
    pub arrivals: usize,
    /// VMs that one host sends at a time, those on their way included.
    pub outbound: usize,
    /// Moves of the cluster at a time, those under way included.
    pub cluster: usize,
    /// By what factor a move's gain exceeds its cost.
    pub worth: f64,
    /// Over which time a move gains.
    pub horizon: Duration,
    /// For how long after a misfit a host's reports are not believed.
    pub distrust: Duration,
    /// Which of the possible moves is taken.
    pub objective: Objective,
}

/// The length of a window, where nothing else is said: two hours.
pub const WINDOW: Duration = Duration::from_secs(2 * 3600);

impl Rules {
    /// The rule of the paper as printed (`CloudCache`, section 6): above the bound for three windows; of all moves of one
    /// own VM to a host that stays below the bound with it, the least variance. A host sends one VM at a time, and
    /// nothing else is limited.
    pub const fn paper() -> Self {
        Self {
            windows: 3,
            margin: 0.0,
            window: WINDOW,
            rest_windows: 0,
            arrivals: usize::MAX,
            outbound: 1,
            cluster: usize::MAX,
            worth: 0.0,
            horizon: Duration::from_secs(3600),
            distrust: Duration::ZERO,
            objective: Objective::Variance,
        }
    }

    /// Ours: the paper's with a margin of 5 points at targets, a rest of 12 windows, one arrival and one departure a
    /// host and five moves of the cluster at a time, and no belief for a week in a host whose reports were false.
    ///
    /// What a move gains and costs is shown and forbids nothing: a host between its bound and its capacity lacks its
    /// reserve, and the curves of the next hour say nothing of a reserve.
    pub const fn hearth() -> Self {
        Self {
            margin: 0.05,
            rest_windows: 12,
            arrivals: 1,
            cluster: 5,
            distrust: Duration::from_secs(7 * 24 * 3600),
            ..Self::paper()
        }
    }

    /// Ours, by what moves gain: the move that saves most, if it saves twice what it costs over the next hour.
    pub const fn gain() -> Self {
        Self {
            worth: 2.0,
            objective: Objective::Gain,
            ..Self::hearth()
        }
    }

    /// For how long a VM stays after a move.
    pub const fn rest(&self) -> Duration {
        Duration::from_nanos(self.window.as_nanos().saturating_mul(self.rest_windows))
    }

    /// Whether these rules make sense.
    ///
    /// # Errors
    /// Says which one does not, and what to write instead.
    pub fn check(&self) -> Result<(), RulesError> {
        let bad = |rule, range| Err(RulesError { rule, range });
        if !(1..=crate::limits::WINDOWS_MAX).contains(&self.windows) {
            return bad("windows", "a number from 1 to 64");
        }
        if !(0.0..=0.5).contains(&self.margin) {
            return bad("margin", "a part from 0 to 0.5");
        }
        if !(0.0..=1e6).contains(&self.worth) {
            return bad("worth", "a factor from 0 to 1000000");
        }
        if self.arrivals == 0 || self.outbound == 0 || self.cluster == 0 {
            return bad("limit on moves", "at least 1, or use the mode off");
        }
        if self.window == Duration::ZERO {
            return bad("window", "a time above zero");
        }
        Ok(())
    }
}

/// A rule that makes no sense.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("the rule '{rule}' is out of range: write {range}")]
pub struct RulesError {
    rule: &'static str,
    range: &'static str,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_that_make_no_sense_are_refused() {
        assert_eq!(Rules::paper().check(), Ok(()));
        assert_eq!(Rules::hearth().check(), Ok(()));
        assert_eq!(Rules::gain().check(), Ok(()));
        let bad = |change: fn(&mut Rules)| {
            let mut rules = Rules::hearth();
            change(&mut rules);
            rules.check().unwrap_err().rule
        };
        assert_eq!(bad(|rules| rules.windows = 0), "windows");
        assert_eq!(bad(|rules| rules.margin = f64::NAN), "margin");
        assert_eq!(bad(|rules| rules.worth = -1.0), "worth");
        assert_eq!(bad(|rules| rules.cluster = 0), "limit on moves");
        assert_eq!(bad(|rules| rules.window = Duration::ZERO), "window");
    }
}
