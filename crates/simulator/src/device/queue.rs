//! One device: a gate that caps rates, and the servers behind it, first come first served.

use super::settings::DeviceSettings;
use crate::number::{count, real};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use units::{Bytes, Prng};

/// Which way the bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the device.
    Read,
    /// To the device.
    Write,
}

/// A device with its queue. I/Os are submitted in order of time and complete in any order.
#[derive(Clone, Debug)]
pub struct Device {
    settings: DeviceSettings,
    dice: Prng,
    /// When the gate lets the next I/O through, ns.
    gate_free: u64,
    /// When each server is free, ns; empty if there is no limit to them.
    servers: BinaryHeap<Reverse<u64>>,
    /// The latest submission, ns.
    now: u64,
    gate_held: u64,
}

impl Device {
    /// An idle device. `seed` decides its latencies if they are drawn.
    pub fn new(settings: DeviceSettings, seed: u64) -> Self {
        Self {
            dice: Prng::new(seed),
            gate_free: 0,
            servers: (0..settings.parallel.unwrap_or(0))
                .map(|_| Reverse(0))
                .collect(),
            now: 0,
            gate_held: 0,
            settings,
        }
    }

    /// Submits an I/O at `at` ns and says when it completes, in ns.
    ///
    /// # Panics
    /// If an I/O was submitted later before: the queue would no longer be first come, first served.
    pub fn submit(&mut self, at: u64, direction: Direction, bytes: Bytes) -> u64 {
        assert!(at >= self.now, "I/Os are submitted in order of time");
        self.now = at;
        let transfer = self.transfer(bytes);
        let hold = self.per_io().max(transfer);
        let through = at.max(self.gate_free);
        self.gate_free = through.saturating_add(hold);
        self.gate_held = self.gate_held.saturating_add(hold);
        let latency = match direction {
            Direction::Read => self.settings.read,
            Direction::Write => self.settings.write,
        };
        let work = latency
            .draw(&mut self.dice)
            .as_nanos()
            .saturating_add(transfer);
        match self.servers.pop() {
            None => through.saturating_add(work),
            Some(Reverse(free)) => {
                let done = through.max(free).saturating_add(work);
                self.servers.push(Reverse(done));
                done
            }
        }
    }

    fn per_io(&self) -> u64 {
        let nanos = |iops: u32| count(1e9 / f64::from(iops));
        self.settings.iops.map_or(0, nanos)
    }

    fn transfer(&self, bytes: Bytes) -> u64 {
        let nanos = |rate: Bytes| count(real(bytes.get()) * 1e9 / real(rate.get()));
        self.settings.bandwidth.map_or(0, nanos)
    }

    /// How long its rate caps were used up, in ns: a device is saturated when this is the run's length.
    pub const fn gate_held(&self) -> u64 {
        self.gate_held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB4: Bytes = Bytes::new(4096);

    fn device(text: &str) -> Device {
        let settings = "iops=unlimited,bandwidth=unlimited,parallel=unlimited";
        Device::new(format!("{settings},{text}").parse().unwrap(), 1)
    }

    /// Arrivals of a Poisson process, ns.
    fn poisson(mean_ns: f64, many: u32) -> impl Iterator<Item = u64> {
        let mut dice = Prng::new(3);
        let mut at = 0.0;
        (0..many).map(move |_| {
            at -= (real((dice.u64() >> 11) + 1) / real(1 << 53)).ln() * mean_ns;
            count(at)
        })
    }

    fn mean_response_ns(mut device: Device, mean_gap_ns: f64) -> f64 {
        let many = 400_000;
        let total: u64 = poisson(mean_gap_ns, many)
            .map(|at| device.submit(at, Direction::Read, KIB4) - at)
            .sum();
        real(total) / f64::from(many)
    }

    #[test]
    fn an_idle_device_takes_its_latency_and_the_transfer() {
        let mut device = device("read=80us,write=20us,bandwidth=1000MiB/s");
        assert_eq!(device.submit(0, Direction::Read, Bytes::ZERO), 80_000);
        // 4 KiB at 1,000 MiB/s are 3.906 us.
        assert_eq!(device.submit(1_000_000, Direction::Write, KIB4), 1_023_906);
    }

    #[test]
    fn one_server_works_one_after_the_other() {
        let mut device = device("read=100us,parallel=1");
        let done = [0, 10_000, 500_000].map(|at| device.submit(at, Direction::Read, KIB4));
        assert_eq!(done, [100_000, 200_000, 600_000]);
    }

    #[test]
    fn the_earliest_free_server_takes_the_next() {
        let mut device = device("read=100us,write=10us,parallel=2");
        assert_eq!(device.submit(0, Direction::Read, KIB4), 100_000);
        assert_eq!(device.submit(0, Direction::Write, KIB4), 10_000);
        assert_eq!(device.submit(0, Direction::Write, KIB4), 20_000);
        assert_eq!(device.submit(0, Direction::Read, KIB4), 120_000);
        assert_eq!(device.submit(0, Direction::Read, KIB4), 200_000);
    }

    #[test]
    fn one_server_waits_as_m_d_1_says() {
        // M/D/1: response = D + rho D / (2 (1 - rho)).
        for rho in [0.3, 0.6, 0.8] {
            let service = 100_000.0;
            let expected = service + rho * service / (2.0 * (1.0 - rho));
            let mean = mean_response_ns(device("read=100us,parallel=1"), service / rho);
            assert!(
                (mean / expected - 1.0).abs() < 0.02,
                "{rho}: {mean} ns, not {expected}"
            );
        }
    }

    #[test]
    fn an_iops_cap_waits_as_m_d_1_says_and_adds_nothing_else() {
        let (rho, gap) = (0.5, 10_000.0);
        let expected = 80_000.0 + rho * gap / (2.0 * (1.0 - rho));
        let mean = mean_response_ns(device("read=80us,iops=100000"), gap / rho);
        assert!(
            (mean / expected - 1.0).abs() < 0.01,
            "{mean} ns, not {expected}"
        );
    }

    #[test]
    fn many_servers_at_light_load_do_not_wait() {
        let mean = mean_response_ns(device("read=100us,parallel=8"), 100_000.0);
        // Erlang's C for 8 servers and 1 erlang is 1e-5.
        assert!((mean - 100_000.0).abs() < 10.0, "{mean}");
    }

    #[test]
    fn a_saturated_device_gives_what_its_narrowest_cap_does() {
        for (text, per_second) in [
            ("read=1ms,parallel=32", 32_000.0),
            ("read=1ms,iops=5000,parallel=32", 5_000.0),
            ("read=10us,bandwidth=40MiB/s", 10_240.0),
        ] {
            let mut device = device(text);
            let last = (0..50_000)
                .map(|_| device.submit(0, Direction::Read, KIB4))
                .max();
            let rate = 50_000.0 / (real(last.unwrap()) / 1e9);
            assert!(
                (rate / per_second - 1.0).abs() < 0.01,
                "{text}: {rate} a second"
            );
        }
    }

    #[test]
    #[should_panic(expected = "in order of time")]
    fn an_earlier_arrival_after_a_later_one_is_refused() {
        let mut device = device("read=1us");
        device.submit(5, Direction::Read, KIB4);
        device.submit(4, Direction::Read, KIB4);
    }
}
