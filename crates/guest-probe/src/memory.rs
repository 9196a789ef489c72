//! The `memory` step: memory that is rewritten at a steady rate, as a VM's is that moves while it works.
//!
//! The version of every page is known, and each page is looked at before it is rewritten, so a page that a move lost
//! or took from an earlier moment is seen.

use std::thread;
use std::time::{Duration, Instant};

use crate::outcome::{ProbeError, Verdict, say};
use crate::pages::Page;
use crate::pattern::{self, Found, PAGE_BYTES, Place, Stream};
use crate::step::Step;

/// Differences printed one by one; the rest are only counted.
const BAD_SHOWN: u64 = 8;

/// Between two bursts of writes. Short: an emulated CPU of QEMU 7.2 misses writes to pages that it knows, until the kernel
/// changes page tables, as one that isolates its own (`pti=on`) does at each system call. A move would lose them.
const PAUSE: Duration = Duration::from_millis(5);

/// `memory`: see the module.
pub(crate) fn rewrite(step: &Step) -> Result<Verdict, ProbeError> {
    let mib = step.number_or("mib", 16)?.max(1);
    let bytes_a_second = step.number_or("kib_a_second", 1024)? << 10;
    let seconds = step.number_or("seconds", 10)?;
    let seed = step.number_or("seed", 1)?;
    let mut area = Area::filled((mib << 20) / PAGE_BYTES as u64);
    say(&format!("memory filled mib={mib}"));
    let mut dice = Stream::new(seed, mib);
    let began = Instant::now();
    let mut written = 0;
    for second in 1..=seconds {
        while began.elapsed() < Duration::from_secs(second) {
            let due = pages_due(began.elapsed(), bytes_a_second);
            // The clock may jump when the VM moves: no more than a second's pages are made up for.
            written =
                written.max(due.saturating_sub(pages_due(Duration::from_secs(1), bytes_a_second)));
            while written < due {
                area.rewrite(dice.below(area.pages.len() as u64));
                written += 1;
            }
            thread::sleep(PAUSE);
        }
        say(&format!(
            "memory second={second} rewritten={} bad={}",
            area.rewritten, area.bad
        ));
    }
    Ok(Verdict::from_bad(area.bad))
}

/// How many pages are to be rewritten within a time.
fn pages_due(elapsed: Duration, bytes_a_second: u64) -> u64 {
    let elapsed_ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
    elapsed_ms.saturating_mul(bytes_a_second) / 1000 / PAGE_BYTES as u64
}

/// Pages, and beside them the version of each.
struct Area {
    pages: Vec<Page>,
    versions: Vec<u64>,
    rewritten: u64,
    bad: u64,
}

impl Area {
    /// Pages of their first version.
    fn filled(count: u64) -> Self {
        let page = |index| {
            let mut page = Page([0; PAGE_BYTES]);
            pattern::fill(&mut page.0, Place::in_memory(index), 1);
            page
        };
        let pages: Vec<Page> = (0..count).map(page).collect();
        Self {
            versions: vec![1; pages.len()],
            pages,
            rewritten: 0,
            bad: 0,
        }
    }

    /// Looks at a page and writes its next version.
    fn rewrite(&mut self, index: u64) {
        let place = Place::in_memory(index);
        let at = usize::try_from(index).expect("a page of a process has an address");
        let (page, version) = (&mut self.pages[at].0, &mut self.versions[at]);
        let found = pattern::inspect(page, place);
        if found != Found::Version(*version) {
            self.bad += 1;
            if self.bad <= BAD_SHOWN {
                say(&format!(
                    "bad page={index} expected_version={version} found={found:?}"
                ));
            }
        }
        *version += 1;
        pattern::fill(page, place, *version);
        self.rewritten += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_was_lost_is_seen_when_it_is_rewritten() {
        let mut area = Area::filled(3);
        area.rewrite(1);
        area.rewrite(1);
        assert_eq!((area.rewritten, area.bad), (2, 0));

        area.pages[1] = Area::filled(3).pages.remove(1);
        area.rewrite(1);
        assert_eq!((area.rewritten, area.bad), (3, 1));
    }

    #[test]
    fn pages_are_due_at_the_rate_asked_for() {
        let rate = 400 << 10;
        assert_eq!(pages_due(Duration::ZERO, rate), 0);
        assert_eq!(pages_due(Duration::from_millis(20), rate), 2);
        assert_eq!(pages_due(Duration::from_secs(3), rate), 300);
    }
}
