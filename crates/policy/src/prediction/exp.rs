//! Exponential smoothing: `s <- s + alpha (x - s)`; the next value is `s`.
//!
//! Paper: R. G. Brown, *Exponential Smoothing for Predicting Demand*, 1956.

use super::Predictor;
use crate::replacement::{About, BadValue, Fraction, Parameter, Settings};

/// What is to be known of it.
pub const ABOUT: About = About {
    name: "exp",
    other_names: &[],
    paper: "R. G. Brown, \"Exponential Smoothing for Predicting Demand\", 1956",
    queues: &[],
    parameters: &[ALPHA],
    knows_future: false,
};

/// The weight of the newest value.
pub(super) const ALPHA: Parameter = Parameter {
    name: "alpha",
    meaning: "weight of the newest value",
    takes: "a number from 0.01 to 1",
};

/// Reads a smoothing parameter.
pub(super) fn parse_weight(value: &str) -> Result<Fraction, BadValue> {
    Fraction::parse(value, Fraction::millionths(10_000), Fraction::ONE)
}

/// Its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Weight of the newest value.
    pub alpha: Fraction,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            alpha: Fraction::millionths(300_000),
        }
    }
}

impl Settings for Config {
    fn set(&mut self, _name: &str, value: &str) -> Result<(), BadValue> {
        self.alpha = parse_weight(value)?;
        Ok(())
    }

    fn get(&self, _name: &str) -> String {
        self.alpha.to_string()
    }
}

/// Exponential smoothing.
#[derive(Clone, Debug)]
pub struct Exp {
    alpha: f64,
    level: Option<f64>,
}

impl Exp {
    /// Nothing observed yet.
    pub fn new(config: &Config) -> Self {
        Self::with(config.alpha.to_f64())
    }

    /// The same with a weight from 0 to 1.
    pub(super) const fn with(alpha: f64) -> Self {
        Self { alpha, level: None }
    }
}

impl Predictor for Exp {
    fn observe(&mut self, value: f64) {
        let level = self.level.unwrap_or(value);
        self.level = Some(level + self.alpha * (value - level));
    }

    fn predicted(&self) -> Option<f64> {
        self.level
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_tenths_of_each_surprise_are_believed() {
        let mut exp = Exp::new(&Config::default());
        for value in [100.0, 200.0, 100.0] {
            exp.observe(value);
        }
        // 100, then 100 + .3 x 100 = 130, then 130 - .3 x 30 = 121.
        assert!((exp.predicted().unwrap() - 121.0).abs() < 1e-9);
    }
}
