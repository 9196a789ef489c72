//! Double exponential smoothing that finds its own parameters.
//!
//! Paper: as [`super::exp_self`], whose method is used: sixty smoothings, twelve weights of the level by
//! five of the trend, run side by side, and the least wrong speaks.

use super::Predictor;
use super::dexp::Dexp;
use super::exp_self::Contest;
use crate::replacement::{About, Settings};

/// What is to be known of it.
pub const ABOUT: About = About {
    name: "dexp-self",
    other_names: &[],
    paper: "D. Arteaga et al., \"CloudCache: On-demand Flash Cache Management for Cloud Computing\", FAST 2016",
    queues: &[],
    parameters: &[],
    knows_future: false,
};

const ALPHAS: [f64; 12] = [0.3, 0.05, 0.1, 0.15, 0.2, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0];
const BETAS: [f64; 5] = [0.3, 0.0, 0.1, 0.5, 0.8];

/// It has no parameters: that is its point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Config;

impl Settings for Config {}

/// Double exponential smoothing that finds its own parameters.
#[derive(Clone, Debug)]
pub struct DexpSelf(Contest<Dexp>);

impl DexpSelf {
    /// Nothing observed yet.
    pub fn new(_config: &Config) -> Self {
        // The usual pair first, so that it speaks until another has done better.
        let pairs = ALPHAS
            .iter()
            .flat_map(|&alpha| BETAS.iter().map(move |&beta| (alpha, beta)));
        Self(Contest::new(
            pairs.map(|(alpha, beta)| Dexp::with(alpha, beta)),
        ))
    }
}

impl Predictor for DexpSelf {
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
    fn a_line_is_met_and_noise_is_not_followed() {
        let mut line = DexpSelf::new(&Config);
        let mut noise = DexpSelf::new(&Config);
        for at in 0..60 {
            line.observe(f64::from(at) * 10.0);
            noise.observe(if at % 2 == 0 { 90.0 } else { 110.0 });
        }
        assert!((line.predicted().unwrap() - 600.0).abs() < 1.0);
        assert!((noise.predicted().unwrap() - 100.0).abs() < 3.0);
    }
}
