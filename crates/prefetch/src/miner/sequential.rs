//! The next `n` blocks after every read, whatever the guest does.
//!
//! ```text
//!   read [ a ─── e )   guess [ e ─── e + n )
//! ```
//!
//! Paper: VIP (see [`super::vip`]), section 4.3.3, where it is the baseline that VIP is measured against.

use super::{Guess, Miner, Setup};
use crate::run::Run;
use policy::replacement::{About, BadValue, Fraction, Parameter, Settings, parse_count};
use units::Bytes;

/// What is to be known of it.
pub const ABOUT: About = About {
    name: "sequential",
    other_names: &["naive"],
    paper: "the baseline of VIP",
    queues: &[],
    parameters: &[Parameter {
        name: "n",
        meaning: "blocks after each read",
        takes: "a number from 1 to 256",
    }],
    knows_future: false,
};

/// Its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Blocks after each read.
    pub n: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self { n: 8 }
    }
}

impl Settings for Config {
    fn set(&mut self, _name: &str, value: &str) -> Result<(), BadValue> {
        self.n = parse_count(value, 1, 256)?;
        Ok(())
    }

    fn get(&self, _name: &str) -> String {
        self.n.to_string()
    }
}

/// The blocks after each read.
#[derive(Clone, Copy, Debug)]
pub struct Sequential {
    blocks: u64,
    setup: Setup,
}

impl Sequential {
    /// Nothing is remembered.
    pub fn new(config: &Config, setup: Setup) -> Self {
        Self {
            blocks: u64::from(config.n),
            setup,
        }
    }
}

impl Miner for Sequential {
    fn read(&mut self, run: Run, _hit: bool, out: &mut Vec<Guess>) {
        let next = self.setup.on_disk(run.end(), self.blocks);
        out.extend(next.map(|run| Guess {
            run,
            confidence: Fraction::ONE,
        }));
    }

    fn memory(&self) -> Bytes {
        Bytes::ZERO
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_blocks_are_guessed_as_far_as_the_disk_goes() {
        let setup = Setup {
            disk_blocks: 20,
            memory_blocks: 256,
        };
        let mut miner = Sequential::new(&Config::default(), setup);
        let mut guess = |first, blocks| {
            let mut out = Vec::new();
            miner.read(Run::new(first, blocks).unwrap(), false, &mut out);
            out.iter().map(|guess| guess.run).collect::<Vec<_>>()
        };
        assert_eq!(guess(3, 2), [Run::new(5, 8).unwrap()]);
        assert_eq!(guess(14, 2), [Run::new(16, 4).unwrap()]);
        assert_eq!(guess(18, 2), []);
    }
}
