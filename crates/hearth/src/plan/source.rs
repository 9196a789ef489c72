//! Where the loads of a fleet come from.

use crate::terminal::exit::{CliError, Exit, chain};
use placement::{Fleet, FleetReport};
use std::path::Path;
use units::Instant;

/// A file larger than this is none of loads: 10,000 hosts with 20 VMs each are 100 MB.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// Where loads come from. The cluster's store will be another.
pub(super) enum Source<'a> {
    /// A file, as `FleetReport` is written.
    File(&'a Path),
}

/// The loads, and when they were collected.
pub(super) struct Collected {
    pub(super) fleet: Fleet,
    pub(super) at: Instant,
}

impl Source<'_> {
    /// Reads and checks the loads.
    pub(super) fn read(&self) -> Result<Collected, CliError> {
        let Self::File(path) = self;
        let named =
            |exit, problem: String| CliError::new(exit, format!("{}: {problem}", path.display()));
        let length = std::fs::metadata(path).map(|found| found.len());
        let length = length.map_err(|error| named(Exit::Failed, chain(&error)))?;
        if length > FILE_BYTES_MAX {
            return Err(named(Exit::Usage, "larger than 1GiB".to_owned())
                .with_remedy("a file of loads, a few KiB for each host"));
        }
        let text = std::fs::read(path).map_err(|error| named(Exit::Failed, chain(&error)))?;
        let report: FleetReport = serde_json::from_slice(&text).map_err(|error| {
            named(Exit::Usage, format!("not a file of loads: {error}"))
                .with_remedy("the form is in the book, chapter Balancing flash across hosts")
        })?;
        let at = report.at();
        let fleet = report.into_fleet();
        let fleet = fleet.map_err(|error| named(Exit::Usage, chain(&error)))?;
        Ok(Collected { fleet, at })
    }
}
