//! `hearth plan`: which VMs should move to which hosts, by the crate `placement`.
//!
//! ```text
//!   args ─► source ─► loads of the fleet ─┐
//!        └► rules ────────────────────────┴─► plan ─► text or JSON
//! ```

pub mod args;
mod render;
pub mod rules;
mod source;

use crate::terminal::exit::CliError;
use crate::terminal::to_json;
use api::client::Client;
use args::Plan;
use placement::Rules;
use source::Collected;
use std::path::Path;

/// Plans for the loads of a file and returns what to print.
pub(crate) fn of_file(arguments: &Plan, loads: &Path, json: bool) -> Result<Vec<u8>, CliError> {
    let rules = arguments.rules()?;
    told(&source::in_file(loads)?, &rules, json)
}

/// Plans for the loads of the daemon's cluster and returns what to print.
pub(crate) async fn of_cluster(
    client: &Client,
    arguments: &Plan,
    json: bool,
) -> Result<Vec<u8>, CliError> {
    let rules = arguments.rules()?;
    told(&source::in_cluster(client).await?, &rules, json)
}

fn told(collected: &Collected, rules: &Rules, json: bool) -> Result<Vec<u8>, CliError> {
    let plan = placement::plan(&collected.fleet, rules, collected.at);
    if json {
        return to_json(&plan);
    }
    render::text(&plan, &collected.fleet)
}
