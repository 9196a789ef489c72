//! Nothing is guessed: what memory is worth without prefetch.

use super::{Guess, Miner, Setup};
use crate::run::Run;
use policy::replacement::{About, Settings};
use units::Bytes;

/// What is to be known of it.
pub const ABOUT: About = About {
    name: "none",
    other_names: &[],
    paper: "the baseline",
    queues: &[],
    parameters: &[],
    knows_future: false,
};

/// It has no parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Config;

impl Settings for Config {}

/// No guesses.
#[derive(Clone, Copy, Debug)]
pub struct Nothing;

impl Nothing {
    /// One that says nothing.
    pub fn new(_config: &Config, _setup: Setup) -> Self {
        Self
    }
}

impl Miner for Nothing {
    fn read(&mut self, _run: Run, _hit: bool, _out: &mut Vec<Guess>) {}

    fn memory(&self) -> Bytes {
        Bytes::ZERO
    }
}
