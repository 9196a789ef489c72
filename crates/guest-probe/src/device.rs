//! The `device` step: mixed reads and writes of a raw disk, past the page cache.
//!
//! The version of every page is kept in the guest's memory, so a read that returns an older version
//! (a write that was lost, or a stale copy from a cache) is seen at once, and so is every other
//! difference. At the end all written pages are read once more.

use std::collections::BTreeMap;
use std::fs::File;
use std::time::Instant;

use crate::outcome::{Doing as _, ProbeError, Verdict, say};
use crate::pages::{self, Latencies, Page};
use crate::pattern::{self, Found, PAGE_BYTES, Place, Stream};
use crate::step::Step;

/// Differences printed one by one; the rest are only counted.
const BAD_SHOWN: u64 = 8;

/// Versions that a round has for itself, so that what an earlier round wrote is told apart.
const VERSIONS_A_ROUND: u64 = 1 << 32;

/// `device`: see the module.
pub(crate) fn exercise(step: &Step, round: u64) -> Result<Verdict, ProbeError> {
    let path = step.path("path")?;
    let operations = step.number_or("operations", 1000)?;
    let pages_in_range = step.number_or("mib", 16)? * (1 << 20) / PAGE_BYTES as u64;
    let sync_every = step.number_or("sync_every", 64)?.max(1);
    let mut run = Run {
        file: pages::open_direct(&path, true).doing(path.display())?,
        page: Page::new(),
        versions: BTreeMap::new(),
        first: round * VERSIONS_A_ROUND,
        bad: 0,
    };
    let mut dice = Stream::new(step.number_or("seed", 1)? + round, operations);
    let (mut latencies, began) = (Latencies::default(), Instant::now());
    for operation in 1..=operations {
        let index = dice.below(pages_in_range.max(1));
        if dice.below(2) == 0 {
            latencies.time(|| run.write(index))?;
        } else {
            latencies.time(|| run.read(index))?;
        }
        if operation % sync_every == 0 {
            run.file.sync_data().doing("flush")?;
        }
    }
    let us = began.elapsed().as_micros().max(1);
    let written: Vec<u64> = run.versions.keys().copied().collect();
    for index in &written {
        run.read(*index)?;
    }
    let iops = u128::from(operations) * 1_000_000 / us;
    say(&format!(
        "device round={round} operations={operations} written_pages={} bad={} ms={} iops={iops} {}",
        written.len(),
        run.bad,
        us / 1000,
        latencies.summary()
    ));
    Ok(Verdict::from_bad(run.bad))
}

struct Run {
    file: File,
    page: Box<Page>,
    versions: BTreeMap<u64, u64>,
    /// What the first version of a page follows.
    first: u64,
    bad: u64,
}

impl Run {
    fn write(&mut self, index: u64) -> Result<(), ProbeError> {
        let before = *self.versions.get(&index).unwrap_or(&self.first);
        let version = before + 1;
        pattern::fill(&mut self.page.0, Place::on_disk(index), version);
        pages::write(&self.file, &self.page, index).doing(format!("write of page {index}"))?;
        self.versions.insert(index, version);
        Ok(())
    }

    fn read(&mut self, index: u64) -> Result<(), ProbeError> {
        pages::read(&self.file, &mut self.page, index).doing(format!("read of page {index}"))?;
        // What lay there before the first write is not known here.
        let Some(expected) = self.versions.get(&index) else {
            return Ok(());
        };
        let found = pattern::inspect(&self.page.0, Place::on_disk(index));
        if found != Found::Version(*expected) {
            self.bad += 1;
            if self.bad <= BAD_SHOWN {
                say(&format!(
                    "bad page={index} expected_version={expected} found={found:?}"
                ));
            }
        }
        Ok(())
    }
}
