//! Where the loads of a fleet come from.

use crate::terminal::exit::{CliError, Exit, chain};
use api::client::Client;
use placement::{Fleet, FleetReport};
use std::path::Path;
use units::Instant;

/// A file larger than this is none of loads: 10,000 hosts with 20 VMs each are 100 MB.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// The loads, and when they were collected.
pub(super) struct Collected {
    pub(super) fleet: Fleet,
    pub(super) at: Instant,
}

/// Reads and checks the loads of a file, as [`FleetReport`] is written.
pub(super) fn in_file(path: &Path) -> Result<Collected, CliError> {
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

/// Reads and checks the loads that the hosts of the daemon's cluster say.
pub(super) async fn in_cluster(client: &Client) -> Result<Collected, CliError> {
    let report: FleetReport = client.get("/v1/cluster/loads").await?;
    let at = report.at();
    let fleet = report.into_fleet();
    let fleet = fleet.map_err(|error| CliError::of(Exit::Failed, &error))?;
    Ok(Collected { fleet, at })
}
