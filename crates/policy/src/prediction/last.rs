//! The last value again.
//!
//! What every other method is measured against (CloudCache, section 4.4: it has the greatest error).

use super::Predictor;
use crate::replacement::{About, Settings};

/// What is to be known of it.
pub const ABOUT: About = About {
    name: "last",
    other_names: &["last-value"],
    paper: "D. Arteaga et al., \"CloudCache: On-demand Flash Cache Management for Cloud Computing\", FAST 2016",
    queues: &[],
    parameters: &[],
    knows_future: false,
};

/// It has no parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Config;

impl Settings for Config {}

/// The last value.
#[derive(Clone, Debug)]
pub struct Last {
    value: Option<f64>,
}

impl Last {
    /// Nothing observed yet.
    pub fn new(_config: &Config) -> Self {
        Self { value: None }
    }
}

impl Predictor for Last {
    fn observe(&mut self, value: f64) {
        self.value = Some(value);
    }

    fn predicted(&self) -> Option<f64> {
        self.value
    }
}
