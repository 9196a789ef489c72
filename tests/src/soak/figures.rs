//! What the daemon had of memory and descriptors after each event, and whether that grew.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::{Context as _, ensure};

use super::events::Event;

/// Memory that a longer life may add, in KiB: histograms and tables that fill up.
const GROWTH_KIB: u64 = 48 << 10;
/// Descriptors that may be open at one moment and not at another: a client that is just leaving.
const GROWTH_DESCRIPTORS: u64 = 16;
/// Rows of the table.
const ROWS: usize = 16;

struct Sample {
    at: Duration,
    event: Event,
    process: u32,
    resident_kib: u64,
    descriptors: u64,
}

/// All samples of a soak.
#[derive(Default)]
pub(super) struct Figures(Vec<Sample>);

impl Figures {
    pub(super) fn note(&mut self, at: Duration, event: Event, process: u32) -> anyhow::Result<()> {
        let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let number = line.and_then(|line| line.split_whitespace().next());
        let resident_kib = number.context("no VmRSS")?.parse()?;
        let descriptors = std::fs::read_dir(format!("/proc/{process}/fd"))?.count() as u64;
        self.0.push(Sample {
            at,
            event,
            process,
            resident_kib,
            descriptors,
        });
        Ok(())
    }

    pub(super) fn last(&self) -> String {
        self.0.last().map_or_else(String::new, |last| {
            let (mib, fds) = (last.resident_kib >> 10, last.descriptors);
            format!("{mib} MiB resident, {fds} descriptors")
        })
    }

    /// Some samples, evenly over time.
    pub(super) fn table(&self) -> String {
        let mut out = String::from("  seconds  process  MiB resident  descriptors  after\n");
        let step = self.0.len().div_ceil(ROWS).max(1);
        for sample in self.0.iter().step_by(step).chain(self.0.last()) {
            let (seconds, process) = (sample.at.as_secs(), sample.process);
            let (mib, fds) = (sample.resident_kib >> 10, sample.descriptors);
            let after = sample.event;
            let _ = writeln!(
                out,
                "{seconds:9}  {process:7}  {mib:12}  {fds:11}  {after:?}"
            );
        }
        out
    }

    /// Compares the last third with the first, by the middle of each.
    ///
    /// # Errors
    ///
    /// When memory or descriptors grew.
    pub(super) fn judge(&self) -> anyhow::Result<()> {
        let third = self.0.len() / 3;
        if third == 0 {
            return Ok(());
        }
        let (first, last) = (&self.0[..third], &self.0[self.0.len() - third..]);
        let middles = |figure: fn(&Sample) -> u64| (middle(first, figure), middle(last, figure));
        let (before, after) = middles(|sample| sample.resident_kib);
        ensure!(
            after <= before + GROWTH_KIB,
            "memory grew from {before} to {after} KiB"
        );
        let (before, after) = middles(|sample| sample.descriptors);
        ensure!(
            after <= before + GROWTH_DESCRIPTORS,
            "descriptors grew from {before} to {after}"
        );
        Ok(())
    }
}

fn middle(samples: &[Sample], figure: impl Fn(&Sample) -> u64) -> u64 {
    let mut figures: Vec<u64> = samples.iter().map(figure).collect();
    figures.sort_unstable();
    figures[figures.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(of: impl Fn(u64) -> (u64, u64)) -> Figures {
        let sample = |at| Sample {
            at: Duration::from_secs(at),
            event: Event::Quiet,
            process: 1,
            resident_kib: of(at).0,
            descriptors: of(at).1,
        };
        Figures((0..30).map(sample).collect())
    }

    #[test]
    fn what_grows_is_found() {
        assert!(figures(|_| (100 << 10, 60)).judge().is_ok());
        // One high sample is no growth.
        assert!(
            figures(|at| (if at == 28 { 1 << 20 } else { 0 }, 60))
                .judge()
                .is_ok()
        );
        assert!(figures(|at| (at * (8 << 10), 60)).judge().is_err());
        assert!(figures(|at| (100, 60 + at)).judge().is_err());
    }
}
