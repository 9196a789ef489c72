//! What is simulated.

use super::traced::TraceDemands;
use placement::{Rules, WINDOW};
use units::Bytes;

/// A fleet and how long it runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Hosts, all alike.
    pub hosts: usize,
    /// VMs of each host at the beginning.
    pub vms: usize,
    /// Windows of two hours.
    pub windows: usize,
    /// What decides demand and faults.
    pub seed: u64,
    /// Where demand is from.
    pub demand: Demanded,
    /// Who plans.
    pub rule: Rule,
    /// What fails.
    pub faults: Faults,
}

/// Where the demand of VMs is from.
#[derive(Clone, Debug, PartialEq)]
pub enum Demanded {
    /// Days, nights and noise, drawn by the seed.
    Generated,
    /// Traces, dealt by the seed.
    Traces(TraceDemands),
}

/// A rule of planning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// VMs stay where they are.
    None,
    /// `CloudCache`'s, as printed: each overloaded host sends one VM a window.
    Paper,
    /// Ours, by the variance of the loads.
    Hearth,
    /// Ours, by the latency that a move saves.
    Gain,
}

/// What fails, one in so many; zero is never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Faults {
    /// A host is lost for two windows: one in so many hosts and windows.
    pub host_lost: u64,
    /// A migration aborts: one in so many.
    pub aborts: u64,
    /// A host publishes a fraction of its demand: one in so many hosts.
    pub liars: u64,
    /// The planner goes away in a window: one in so many.
    pub planner_away: u64,
    /// A call of the store goes wrong: of a thousand, for each way in which one can.
    pub store_per_thousand: u16,
}

impl Faults {
    /// Nothing fails.
    pub const NONE: Self = Self {
        host_lost: 0,
        aborts: 0,
        liars: 0,
        planner_away: 0,
        store_per_thousand: 0,
    };

    /// More than a well-run fleet sees: in a week of 500 hosts some 20 lost ones, five that lie, every thirtieth
    /// migration aborted, the planner gone in every fourth window, one in a hundred calls of the store lost or refused.
    pub const USUAL: Self = Self {
        host_lost: 2_000,
        aborts: 30,
        liars: 100,
        planner_away: 4,
        store_per_thousand: 10,
    };
}

/// Settings that make no fleet.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{what} are {value}: write a number from {least} to {most}")]
pub struct SettingsError {
    what: &'static str,
    value: usize,
    least: usize,
    most: usize,
}

impl Rule {
    /// Every rule, in the order of tables.
    pub const ALL: [Self; 4] = [Self::None, Self::Paper, Self::Hearth, Self::Gain];

    /// Its word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Paper => "paper",
            Self::Hearth => "hearth",
            Self::Gain => "gain",
        }
    }

    /// The planner's rules; `None` where nobody plans.
    pub const fn rules(self) -> Option<Rules> {
        match self {
            Self::None => None,
            Self::Paper => Some(Rules::paper()),
            Self::Hearth => Some(Rules::hearth()),
            Self::Gain => Some(Rules::gain()),
        }
    }

    /// Whether a round of planning follows as soon as a move of the one before has ended. The paper's hosts plan once a
    /// window.
    pub(super) const fn plans_again(self) -> bool {
        matches!(self, Self::Hearth | Self::Gain)
    }
}

impl Settings {
    /// The fleet of the design: 500 hosts with 20 VMs, a week.
    pub const fn new(rule: Rule, seed: u64) -> Self {
        Self {
            hosts: 500,
            vms: 20,
            windows: 84,
            seed,
            demand: Demanded::Generated,
            rule,
            faults: Faults::USUAL,
        }
    }

    /// Whether this can be simulated.
    ///
    /// # Errors
    /// Says which number is out of range.
    pub fn check(&self) -> Result<(), SettingsError> {
        let bounds = [
            ("hosts", self.hosts, 2, 5_000),
            ("VMs of a host", self.vms, 1, 200),
            ("windows", self.windows, 1, 2_000),
        ];
        let wrong = bounds
            .into_iter()
            .find(|(_, value, least, most)| !(least..=most).contains(&value));
        match wrong {
            None => Ok(()),
            Some((what, value, least, most)) => Err(SettingsError {
                what,
                value,
                least,
                most,
            }),
        }
    }
}

/// Flash of a host.
pub(super) const CAPACITY: Bytes = Bytes::gib(400);

/// The part of the flash that the VMs of a host need on average. With the spread of [`super::demand`] it makes the
/// probe's fleet: one host-window of six above 90 %.
pub(super) const LOAD_MEAN: f64 = 0.72;

/// Bytes a second that a move's transfer gets.
pub(super) const BANDWIDTH: Bytes = Bytes::mib(400);

/// Memory of a VM, which its migration copies.
pub(super) const MEMORY: Bytes = Bytes::gib(8);

/// How long a window is.
pub(super) const WINDOW_S: u64 = WINDOW.as_nanos() / 1_000_000_000;

/// How often drivers and planner look, in seconds. The store's leases are 15 s.
pub(super) const TICK_S: u64 = 30;

/// How long a host is lost.
pub(super) const LOST_S: u64 = 2 * WINDOW_S;

/// What fails in a window does so within this time of its beginning, while moves are under way.
pub(super) const FAILS_WITHIN_S: u64 = 5 * 60;

/// What a host that lies multiplies its demand by.
pub(super) const LIE: f64 = 0.4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_make_no_fleet_are_refused() {
        let mut settings = Settings::new(Rule::Hearth, 1);
        assert_eq!(settings.check(), Ok(()));
        settings.hosts = 1;
        let error = settings.check().unwrap_err().to_string();
        assert_eq!(error, "hosts are 1: write a number from 2 to 5000");
    }
}
