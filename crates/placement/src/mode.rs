//! How much a planner may do by itself.

use serde::{Deserialize, Serialize};

/// What becomes of plans.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Nothing is planned.
    Off,
    /// Plans are shown, and nobody can carry them out.
    #[default]
    Advise,
    /// An operator approves each move.
    Approve,
    /// Moves begin as they are planned.
    Auto,
}

impl Mode {
    /// Every mode, the least first.
    pub const ALL: [Self; 4] = [Self::Off, Self::Advise, Self::Approve, Self::Auto];

    /// Its word, in settings and on command lines.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Advise => "advise",
            Self::Approve => "approve",
            Self::Auto => "auto",
        }
    }

    /// Whether loads are planned with.
    pub const fn plans(self) -> bool {
        !matches!(self, Self::Off)
    }

    /// Whether a planned move becomes one in the store, which can be approved.
    pub const fn records_moves(self) -> bool {
        matches!(self, Self::Approve | Self::Auto)
    }

    /// Whether a planned move needs nobody's approval.
    pub const fn approves_by_itself(self) -> bool {
        matches!(self, Self::Auto)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mode_permits_more_than_the_one_before() {
        let permits = |mode: Mode| {
            let all = [
                mode.plans(),
                mode.records_moves(),
                mode.approves_by_itself(),
            ];
            all.into_iter().filter(|permitted| *permitted).count()
        };
        assert_eq!(Mode::ALL.map(permits), [0, 1, 2, 3]);
        assert_eq!(Mode::default(), Mode::Advise);
    }
}
