//! What each VM needs in each window, and the shape of its curve; generated, or dealt from traces.
//!
//! A generated VM's reuse working set has a mean (lognormal over VMs), a day and a night (a sine of 24 hours whose peak
//! is by day for seven VMs of ten), and noise that lasts for some windows (an autoregression). Its curve is concave up
//! to its working set, and flat beyond.

use super::settings::{CAPACITY, Demanded, LOAD_MEAN, Settings, WINDOW_S};
use super::shape::Shape;
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

/// A VM as a series of demand and a curve.
#[derive(Clone, Debug)]
pub(super) struct Demand {
    /// Its working set in each window.
    pub(super) series: Vec<Bytes>,
    /// Its reads a second in each window.
    pub(super) reads: Vec<f64>,
    pub(super) shape: Shape,
}

/// The VMs of a fleet, in the order of their hosts.
pub(super) fn of_fleet(settings: &Settings) -> Vec<Demand> {
    let mut dice = Prng::new(settings.seed);
    // Dice of its own for each VM, so that a longer run has the same beginning.
    let own = (0..settings.hosts * settings.vms).map(|_| dice.fork());
    match &settings.demand {
        Demanded::Generated => own
            .map(|mut dice| Demand::generate(settings.vms, settings.windows, &mut dice))
            .collect(),
        Demanded::Traces(traces) => traces.deal(settings.vms, settings.windows, own),
    }
}

/// What a VM of a host with so many needs on average, as a part of the host's flash.
pub(super) fn mean(vms: usize, dice: &mut Prng) -> f64 {
    // The mean of a lognormal is exp(mu + sigma^2 / 2).
    let middle = LOAD_MEAN / real(vms as u64) * libm::exp(-SPREAD * SPREAD / 2.0);
    (middle * libm::exp(SPREAD * dice.normal())).min(MEAN_MAX)
}

impl Demand {
    /// A VM of a host with so many, for so many windows.
    fn generate(vms: usize, windows: usize, dice: &mut Prng) -> Self {
        let mean = mean(vms, dice);
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
            shape: Shape::concave(0.55 + 0.4 * dice.unit(), 1.0 + 2.0 * dice.unit()),
            reads: vec![300.0 * libm::exp(0.8 * dice.normal()); windows],
        }
    }

    /// The working set in a window.
    pub(super) fn rwss(&self, window: usize) -> Bytes {
        self.series[window]
    }

    /// The curve in a window: sizes in bytes with their miss ratios. Its size follows the working set's.
    pub(super) fn curve(&self, window: usize) -> Vec<(u64, f64)> {
        self.shape.points(self.rwss(window))
    }

    /// The part of the reads that a share answers in a window.
    pub(super) fn hits(&self, window: usize, share: Bytes) -> f64 {
        let rwss = real(self.rwss(window).get()).max(1.0);
        self.shape.hits(real(share.get()) / rwss)
    }

    /// The reads a second in a window.
    pub(super) fn reads_per_second(&self, window: usize) -> f64 {
        self.reads[window]
    }
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
