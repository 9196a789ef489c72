//! What a plan is made for: traffic, loads, the link, and how waves share it.

use crate::error::PlanError;
use crate::latency::{self, Diverges, Load, Split, Timing};
use crate::limits::{SEARCH_LEFT_SHARE, WAVE_DIRTY_SHARE};
use crate::rate::Rate;
use crate::traffic::TrafficMatrix;
use units::number::{count_near, real};

/// A group of VMs, their traffic, and the link that they cross.
#[derive(Clone, Debug)]
pub struct Problem {
    traffic: TrafficMatrix,
    loads: Vec<Load>,
    link: Rate,
    split: Split,
    /// The loads again, as the search adds them up: bytes, and dirty bytes a second.
    bytes: Vec<f64>,
    dirty: Vec<f64>,
}

impl Problem {
    /// The VMs of `traffic`, each with its load.
    ///
    /// # Errors
    /// If there is no VM, not one load to each, or the link has less than a byte a second.
    pub fn new(
        traffic: TrafficMatrix,
        loads: Vec<Load>,
        link: Rate,
        split: Split,
    ) -> Result<Self, PlanError> {
        let vms = traffic.vms();
        if vms == 0 {
            return Err(PlanError::Empty);
        }
        if loads.len() != vms {
            let loads = loads.len();
            return Err(PlanError::Loads { loads, vms });
        }
        if link.bytes_per_second() < 1.0 {
            return Err(PlanError::NoLink);
        }
        Ok(Self {
            bytes: loads.iter().map(|load| real(load.size.get())).collect(),
            dirty: loads
                .iter()
                .map(|load| load.dirty.bytes_per_second())
                .collect(),
            traffic,
            loads,
            link,
            split,
        })
    }

    /// The same group with another way to share the link.
    pub fn with_split(self, split: Split) -> Self {
        Self { split, ..self }
    }

    /// How many VMs.
    pub const fn vms(&self) -> usize {
        self.loads.len()
    }

    /// The traffic among them.
    pub const fn traffic(&self) -> &TrafficMatrix {
        &self.traffic
    }

    /// What of each travels.
    pub fn loads(&self) -> &[Load] {
        &self.loads
    }

    /// The link's bandwidth.
    pub const fn link(&self) -> Rate {
        self.link
    }

    /// How a wave shares the link.
    pub const fn split(&self) -> Split {
        self.split
    }

    /// How long a wave takes, and what each of its VMs gets of the link.
    ///
    /// # Errors
    /// If the wave does not converge.
    pub fn time_of(&self, wave: &[usize]) -> Result<Timing, Diverges> {
        let loads: Vec<Load> = wave.iter().map(|vm| self.loads[*vm]).collect();
        latency::of_wave(&loads, self.link, self.split)
    }

    /// Seconds that a wave takes, as the search compares them: very long instead of endless if it does not converge.
    pub(crate) fn span_s(&self, wave: &[usize]) -> f64 {
        let link = self.link.bytes_per_second();
        let left =
            |bandwidth: f64, dirty: f64| (bandwidth - dirty).max(bandwidth * SEARCH_LEFT_SHARE);
        match self.split {
            Split::Dealt => {
                let sums = wave.iter().fold((0.0, 0.0), |(bytes, dirty), vm| {
                    (bytes + self.bytes[*vm], dirty + self.dirty[*vm])
                });
                sums.0 / left(link, sums.1)
            }
            Split::Equal => {
                let each = link / real(wave.len().max(1) as u64);
                let times = wave
                    .iter()
                    .map(|vm| self.bytes[*vm] / left(each, self.dirty[*vm]));
                times.fold(0.0, f64::max)
            }
        }
    }

    /// By how much a wave's dirty rates exceed [`WAVE_DIRTY_SHARE`] of the link, in millionths of the link. Whole numbers, so
    /// that sums in another order are the same.
    pub(crate) fn excess_ppm(&self, wave: &[usize]) -> u64 {
        // A bound that leaves room for the sum over all waves.
        count_near((self.dirty_share(wave) - WAVE_DIRTY_SHARE) * 1e6).min(1 << 50)
    }

    /// The part of the link that a wave's dirty rates take, at 1 of which it no longer converges.
    pub(crate) fn dirty_share(&self, wave: &[usize]) -> f64 {
        let link = self.link.bytes_per_second();
        let dirty = wave.iter().map(|vm| self.dirty[*vm]);
        match self.split {
            Split::Dealt => dirty.sum::<f64>() / link,
            Split::Equal => dirty.fold(0.0, f64::max) * real(wave.len() as u64) / link,
        }
    }
}

#[cfg(test)]
pub(crate) mod samples {
    use super::*;
    use units::Bytes;

    /// VMs `a`, `b`, .. with equal loads of one second each, and this traffic.
    pub(crate) fn of_pairs(pairs: &[(&str, &str, f64)]) -> Problem {
        let traffic = TrafficMatrix::from_pairs(pairs.iter().copied()).unwrap();
        let load = Load {
            size: Bytes::new(1_000),
            dirty: Rate::ZERO,
        };
        let loads = vec![load; traffic.vms()];
        Problem::new(traffic, loads, Rate::new(1_000.0).unwrap(), Split::Dealt).unwrap()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Bytes;

    fn problem(dirty: &[f64], split: Split) -> Problem {
        let names: Vec<String> = (0..dirty.len()).map(|vm| vm.to_string()).collect();
        let traffic = TrafficMatrix::of_vms(names.iter().map(String::as_str)).unwrap();
        let load = |dirty: &f64| Load {
            size: Bytes::new(700),
            dirty: Rate::new(*dirty).unwrap(),
        };
        let loads = dirty.iter().map(load).collect();
        Problem::new(traffic, loads, Rate::new(100.0).unwrap(), split).unwrap()
    }

    #[test]
    fn the_search_and_the_plan_have_the_same_times() {
        for split in [Split::Equal, Split::Dealt] {
            let problem = problem(&[0.0, 10.0, 3.0], split);
            for wave in [&[0][..], &[1, 2], &[0, 1, 2]] {
                let time = problem.time_of(wave).unwrap().time_s;
                assert!(
                    (problem.span_s(wave) - time).abs() < 1e-9,
                    "{split:?} {wave:?}"
                );
            }
        }
    }

    #[test]
    fn a_wave_that_does_not_converge_is_very_long_to_the_search() {
        for split in [Split::Equal, Split::Dealt] {
            let problem = problem(&[60.0, 60.0, 0.0], split);
            assert!(problem.time_of(&[0, 1]).is_err());
            assert!(problem.dirty_share(&[0, 1]) > 1.0);
            assert!(problem.span_s(&[0, 1]) > 1_000.0 && problem.span_s(&[0, 1]).is_finite());
        }
    }

    #[test]
    fn a_problem_has_vms_a_load_to_each_and_a_link() {
        let traffic = || TrafficMatrix::of_vms(["a"]).unwrap();
        let load = Load {
            size: Bytes::ZERO,
            dirty: Rate::ZERO,
        };
        let link = Rate::new(1.0).unwrap();
        let new = |traffic, loads, link| Problem::new(traffic, loads, link, Split::Dealt).err();
        assert_eq!(
            new(TrafficMatrix::default(), vec![], link),
            Some(PlanError::Empty)
        );
        assert_eq!(
            new(traffic(), vec![], link),
            Some(PlanError::Loads { loads: 0, vms: 1 })
        );
        assert_eq!(
            new(traffic(), vec![load], Rate::ZERO),
            Some(PlanError::NoLink)
        );
    }
}
