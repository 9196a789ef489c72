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
use args::Plan;
use source::Source;

/// Plans what was asked for and returns what to print.
pub(crate) fn run(arguments: &Plan, json: bool) -> Result<Vec<u8>, CliError> {
    let rules = arguments.rules()?;
    let collected = Source::File(&arguments.loads).read()?;
    let plan = placement::plan(&collected.fleet, &rules, collected.at);
    if json {
        return to_json(&plan);
    }
    render::text(&plan, &collected.fleet)
}
