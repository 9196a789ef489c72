//! Double exponential smoothing: a level and a trend, each smoothed; the next value is their sum.
//!
//! ```text
//!   level' = alpha x + (1 - alpha) (level + trend)
//!   trend' = beta (level' - level) + (1 - beta) trend
//! ```
//!
//! Paper: C. C. Holt, *Forecasting seasonals and trends by exponentially weighted moving averages*, 1957.

use super::Predictor;
use super::exp::{ALPHA, parse_weight};
use crate::replacement::{About, BadValue, Fraction, Parameter, Settings};

/// What is to be known of it.
pub const ABOUT: About = About {
    name: "dexp",
    other_names: &[],
    paper: "C. C. Holt, \"Forecasting seasonals and trends by exponentially weighted moving averages\", 1957",
    queues: &[],
    parameters: &[
        ALPHA,
        Parameter {
            name: "beta",
            meaning: "weight of the newest change of the level",
            takes: "a number from 0.01 to 1",
        },
    ],
    knows_future: false,
};

/// Its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Weight of the newest value.
    pub alpha: Fraction,
    /// Weight of the newest change of the level.
    pub beta: Fraction,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            alpha: Fraction::millionths(300_000),
            beta: Fraction::millionths(300_000),
        }
    }
}

impl Settings for Config {
    fn set(&mut self, name: &str, value: &str) -> Result<(), BadValue> {
        let weight = parse_weight(value)?;
        if name == "alpha" {
            self.alpha = weight;
        } else {
            self.beta = weight;
        }
        Ok(())
    }

    fn get(&self, name: &str) -> String {
        let weight = if name == "alpha" {
            self.alpha
        } else {
            self.beta
        };
        weight.to_string()
    }
}

/// Double exponential smoothing.
#[derive(Clone, Debug)]
pub struct Dexp {
    alpha: f64,
    beta: f64,
    level: Option<f64>,
    trend: f64,
}

impl Dexp {
    /// Nothing observed yet.
    pub fn new(config: &Config) -> Self {
        Self::with(config.alpha.to_f64(), config.beta.to_f64())
    }

    /// The same with weights from 0 to 1.
    pub(super) const fn with(alpha: f64, beta: f64) -> Self {
        Self {
            alpha,
            beta,
            level: None,
            trend: 0.0,
        }
    }
}

impl Predictor for Dexp {
    fn observe(&mut self, value: f64) {
        let Some(before) = self.level else {
            self.level = Some(value);
            return;
        };
        let expected = before + self.trend;
        let level = expected + self.alpha * (value - expected);
        self.trend += self.beta * (level - before - self.trend);
        self.level = Some(level);
    }

    fn predicted(&self) -> Option<f64> {
        self.level.map(|level| (level + self.trend).max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_and_a_trend_are_followed() {
        let mut dexp = Dexp::new(&Config::default());
        for value in [100.0, 200.0, 300.0] {
            dexp.observe(value);
        }
        // 100, 0; 130, 9; expected 139, level 139 + .3 x 161 = 187.3, trend 9 + .3 (57.3 - 9) = 23.49.
        assert!((dexp.predicted().unwrap() - 210.79).abs() < 1e-9);
    }

    #[test]
    fn a_straight_line_is_met_in_the_end() {
        let mut dexp = Dexp::new(&Config::default());
        for at in 0..200 {
            dexp.observe(f64::from(at) * 10.0);
        }
        assert!((dexp.predicted().unwrap() - 2000.0).abs() < 1.0);
    }
}
