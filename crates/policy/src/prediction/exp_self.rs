//! Exponential smoothing that finds its own parameter.
//!
//! Paper: CloudCache (see [`crate::demand`]), section 4.2, which says that the parameter is estimated by
//! the error between predicted and observed, and not how. Here twenty smoothings with weights .05 to 1
//! run side by side; the one with the least error so far speaks, each error counting nine tenths of
//! the next one. A search by gradient would take fewer numbers and can be caught in a corner;
//! twenty cost 480 bytes and 40 additions a window.

use super::Predictor;
use super::exp::Exp;
use crate::replacement::{About, Settings};

/// What is to be known of it.
pub const ABOUT: About = About {
    name: "exp-self",
    other_names: &[],
    paper: "D. Arteaga et al., \"CloudCache: On-demand Flash Cache Management for Cloud Computing\", FAST 2016",
    queues: &[],
    parameters: &[],
    knows_future: false,
};

/// What an error counts a window later.
pub(super) const FADE: f64 = 0.9;

/// It has no parameters: that is its point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Config;

impl Settings for Config {}

/// Several predictors side by side, and how wrong each was.
#[derive(Clone, Debug)]
pub(super) struct Contest<P> {
    entrants: Vec<(P, f64)>,
}

impl<P: Predictor> Contest<P> {
    pub(super) fn new(entrants: impl Iterator<Item = P>) -> Self {
        Self {
            entrants: entrants.map(|entrant| (entrant, 0.0)).collect(),
        }
    }

    /// The one with the least error; of equals the first.
    fn best(&self) -> &P {
        let least = self
            .entrants
            .iter()
            .min_by(|one, other| one.1.total_cmp(&other.1));
        &least.expect("a contest has entrants").0
    }
}

impl<P: Predictor> Predictor for Contest<P> {
    fn observe(&mut self, value: f64) {
        for (entrant, wrong) in &mut self.entrants {
            let error = entrant
                .predicted()
                .map_or(0.0, |predicted| (predicted - value).abs());
            *wrong = *wrong * FADE + error;
            entrant.observe(value);
        }
    }

    fn predicted(&self) -> Option<f64> {
        self.best().predicted()
    }
}

/// Exponential smoothing that finds its own parameter.
#[derive(Clone, Debug)]
pub struct ExpSelf(Contest<Exp>);

impl ExpSelf {
    /// Nothing observed yet.
    pub fn new(_config: &Config) -> Self {
        // By twentieths, the usual 0.3 first, so that it speaks until another has done better.
        let twentieths = std::iter::once(6).chain((1..=20).filter(|weight| *weight != 6));
        Self(Contest::new(
            twentieths.map(|weight| Exp::with(f64::from(weight) / 20.0)),
        ))
    }
}

impl Predictor for ExpSelf {
    fn observe(&mut self, value: f64) {
        self.0.observe(value);
    }

    fn predicted(&self) -> Option<f64> {
        self.0.predicted()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_believes_a_trend_at_once_and_noise_hardly() {
        let mut trend = ExpSelf::new(&Config);
        let mut noise = ExpSelf::new(&Config);
        for at in 0..60 {
            trend.observe(f64::from(at) * 10.0);
            noise.observe(if at % 2 == 0 { 90.0 } else { 110.0 });
        }
        // On a rising line the last value (weight 1) is the least wrong; on noise the mean is.
        assert!((trend.predicted().unwrap() - 590.0).abs() < 1e-9);
        assert!((noise.predicted().unwrap() - 100.0).abs() < 2.0);
    }
}
