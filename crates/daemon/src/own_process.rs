//! What the daemon's own process uses, for the metrics `process_*` that every program exports.

use rustix::param::{clock_ticks_per_second, page_size};
use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};
use std::fs;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use units::number::real;

/// What the process uses now.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct ProcessFigures {
    /// Seconds since 1970 when it began.
    pub(crate) started_seconds: f64,
    /// Seconds of a processor that it has used.
    pub(crate) cpu_seconds: f64,
    /// Its threads.
    pub(crate) threads: u64,
    /// Its address space in bytes.
    pub(crate) virtual_bytes: u64,
    /// Its memory in bytes.
    pub(crate) resident_bytes: u64,
    /// File descriptors that are open.
    pub(crate) open_fds: u64,
    /// File descriptors that may be open; `None` without a limit.
    pub(crate) max_fds: Option<u64>,
}

/// The daemon's own process. When it began is worked out once: the host's clock may be set later, and a restart is seen
/// by this time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnProcess {
    started: Option<Duration>,
}

impl OwnProcess {
    /// To be called at start.
    pub(crate) fn new() -> Self {
        Self { started: started() }
    }

    /// What it uses now; `None` if the system does not say.
    pub(crate) fn figures(self) -> Option<ProcessFigures> {
        let stat = Stat::read()?;
        Some(ProcessFigures {
            started_seconds: self.started?.as_secs_f64(),
            cpu_seconds: real(stat.cpu_ticks) / real(clock_ticks_per_second()),
            threads: stat.threads,
            virtual_bytes: stat.virtual_bytes,
            resident_bytes: stat.resident_pages.saturating_mul(page_size() as u64),
            // One of them is open for the counting only.
            open_fds: (fs::read_dir("/proc/self/fd").ok()?.count() as u64).saturating_sub(1),
            max_fds: getrlimit(Resource::Nofile).current,
        })
    }
}

/// Since 1970 when this process began: the time now, less that since boot, and the process's since boot added.
fn started() -> Option<Duration> {
    let since_boot = Duration::try_from(clock_gettime(ClockId::Boottime)).ok()?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    let ticks = real(Stat::read()?.started_ticks) / real(clock_ticks_per_second());
    let lived = since_boot.saturating_sub(Duration::from_secs_f64(ticks));
    now.checked_sub(lived)
}

/// The columns of `/proc/self/stat` that are wanted.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    cpu_ticks: u64,
    threads: u64,
    /// Since the host's boot.
    started_ticks: u64,
    virtual_bytes: u64,
    resident_pages: u64,
}

impl Stat {
    fn read() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/self/stat").ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        // The name is in parentheses and may have anything in it. The state behind it is column 3 of the manual.
        let columns: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
        let at = |column: usize| columns.get(column - 3)?.parse::<u64>().ok();
        Some(Self {
            cpu_ticks: at(14)?.checked_add(at(15)?)?,
            threads: at(20)?,
            started_ticks: at(22)?,
            virtual_bytes: at(23)?,
            resident_pages: at(24)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_those_of_the_manual() {
        let text = "4711 (a) b) S 1 4711 4711 0 -1 4194560 5 0 0 0 250 150 0 0 20 0 7 0 98765 1000000 2048 1";
        let expected = Stat {
            cpu_ticks: 400,
            threads: 7,
            started_ticks: 98765,
            virtual_bytes: 1_000_000,
            resident_pages: 2048,
        };
        assert_eq!(Stat::parse(text), Some(expected));
        assert_eq!(Stat::parse("4711 (a) S 1"), None);
        assert_eq!(Stat::parse(""), None);
    }

    #[test]
    fn this_process_has_begun_uses_memory_and_has_files_open() {
        let one = OwnProcess::new();
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap()
            .as_secs_f64();
        let figures = one.figures().unwrap();
        assert!(figures.started_seconds > 0.0 && figures.started_seconds <= now);
        assert!(figures.resident_bytes > 0 && figures.virtual_bytes >= figures.resident_bytes);
        assert!(figures.threads > 0 && figures.open_fds > 0);
        assert!(figures.max_fds.is_none_or(|max| max >= figures.open_fds));
        let later = one.figures().unwrap().started_seconds;
        assert!((later - figures.started_seconds).abs() < f64::EPSILON);
    }
}
