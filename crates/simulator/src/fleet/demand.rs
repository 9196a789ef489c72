//! What each VM needs in each window, and the shape of its curve.
//!
//! A VM's reuse working set has a mean (lognormal over VMs), a day and a night (a sine of 24 hours whose peak is by day
//! for seven VMs of ten), and noise that lasts for some windows (an autoregression). Its curve is 16 points over its
//! working set: concave up to it, and flat beyond.

use super::settings::{CAPACITY, LOAD_MEAN, WINDOW_S};
use std::f64::consts::TAU;
use units::number::{count_near, real};
use units::{Bytes, Prng};

/// The spread of VMs' means: the standard deviation of their logarithms. With it and [`LOAD_MEAN`] the load of a host
/// with 20 VMs deviates by 0.18, as the probe's does.
const SPREAD: f64 = 0.90;

/// The largest mean of a VM, as a part of a host's flash.
const MEAN_MAX: f64 = 0.30;

/// How much of the noise of a window is left in the next one, and how much comes anew.
const NOISE_KEPT: f64 = 0.8;
const NOISE_NEW: f64 = 0.06;

/// Sizes of a curve's points, as parts of the working set.
const SIZES: [f64; 16] = [
    0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.2, 1.5, 2.0, 3.0, 4.0,
];

/// A VM as a series of demand and a curve.
#[derive(Clone, Debug)]
pub(super) struct Demand {
    /// Its working set in each window.
    series: Vec<Bytes>,
    /// Miss ratios at [`SIZES`].
    misses: [f64; SIZES.len()],
    pub(super) reads_per_second: f64,
}

impl Demand {
    /// A VM of a host with so many, for so many windows.
    pub(super) fn generate(vms: usize, windows: usize, dice: &mut Prng) -> Self {
        // The mean of a lognormal is exp(mu + sigma^2 / 2).
        let mean = LOAD_MEAN / real(vms as u64) * libm::exp(-SPREAD * SPREAD / 2.0);
        let mean = (mean * libm::exp(SPREAD * dice.normal())).min(MEAN_MAX);
        let amplitude = 0.35 * dice.unit();
        let by_day = dice.unit() < 0.7;
        let peak = if by_day { 14.0 } else { 2.0 } + 2.0 * dice.normal();
        let mut noise = 0.0;
        let series = (0..windows).map(|window| {
            let hour = real(window as u64 * WINDOW_S) / 3600.0;
            let day = amplitude * libm::cos(TAU * (hour - peak) / 24.0);
            noise = NOISE_KEPT * noise + NOISE_NEW * dice.normal();
            let part = mean * (1.0 + day) * libm::exp(noise);
            Bytes::new(count_near(part * real(CAPACITY.get())))
        });
        Self {
            series: series.collect(),
            misses: misses(0.55 + 0.4 * dice.unit(), 1.0 + 2.0 * dice.unit()),
            reads_per_second: 300.0 * libm::exp(0.8 * dice.normal()),
        }
    }

    /// The working set in a window.
    pub(super) fn rwss(&self, window: usize) -> Bytes {
        self.series[window]
    }

    /// The curve in a window: sizes in bytes with their miss ratios. Its size follows the working set's.
    pub(super) fn curve(&self, window: usize) -> Vec<(u64, f64)> {
        curve(self.rwss(window), &self.misses)
    }

    /// The part of the reads that a share answers in a window.
    pub(super) fn hits(&self, window: usize, share: Bytes) -> f64 {
        hits(&self.misses, self.rwss(window), share)
    }
}

/// The curve of a working set whose shape is known at [`SIZES`].
fn curve(rwss: Bytes, misses: &[f64; SIZES.len()]) -> Vec<(u64, f64)> {
    // Below 20 blocks the first points would be one.
    let rwss = real(rwss.get().max(1 << 20));
    let points = SIZES.iter().zip(misses);
    points
        .map(|(size, miss)| (count_near(size * rwss), *miss))
        .collect()
}

/// Miss ratios of a working set that hits so much when all of it fits; `bend` is how concave it is.
fn misses(hits: f64, bend: f64) -> [f64; SIZES.len()] {
    SIZES.map(|size| {
        let inner = 1.0 - libm::pow(1.0 - size.min(1.0), bend);
        let beyond = 0.25 * (1.0 - hits) * ((size - 1.0).max(0.0) / 3.0);
        (1.0 - hits * inner - beyond).clamp(0.0, 1.0)
    })
}

fn hits(misses: &[f64; SIZES.len()], rwss: Bytes, share: Bytes) -> f64 {
    let size = real(share.get()) / real(rwss.get()).max(1.0);
    let above = SIZES.partition_point(|known| *known <= size);
    let (low, low_miss) = match above.checked_sub(1) {
        Some(at) => (SIZES[at], misses[at]),
        None => (0.0, 1.0),
    };
    let Some(high) = SIZES.get(above) else {
        return 1.0 - low_miss;
    };
    let along = (size - low) / (high - low);
    1.0 - (low_miss + along * (misses[above] - low_miss))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_is_one_that_hosts_may_publish_and_hits_alike() {
        let mut dice = Prng::new(3);
        for _ in 0..50 {
            let demand = Demand::generate(20, 12, &mut dice);
            let curve = placement::Curve::new(&demand.curve(5)).unwrap();
            for part in [3_u64, 7, 10, 17, 60] {
                let share = Bytes::new(demand.rwss(5).get() * part / 10);
                let far = (curve.hits(share) - demand.hits(5, share)).abs();
                assert!(far < 1e-3, "{far} at {part} tenths");
            }
        }
    }

    #[test]
    fn a_seed_decides_the_demand() {
        let draw = |seed| Demand::generate(20, 12, &mut Prng::new(seed)).series;
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }
}
