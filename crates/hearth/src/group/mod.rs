//! `hearth group`: how a group of VMs crosses a slow link, by the crate `groups`.
//!
//! ```text
//!   args ─► input: traffic and loads from csv ─► answer: plan, comparison ─┬─► render: text, or JSON, on standard output
//!                                                                          └─► picture: SVG
//! ```

mod answer;
pub mod args;
pub(crate) mod input;
mod picture;
mod render;

use crate::terminal::exit::{CliError, Exit};
use crate::terminal::output::{self, to_file};
use crate::terminal::to_json;
use args::Group;
use std::io::Write as _;

/// Plans what was asked for and returns what to print.
pub(crate) fn run(group: &Group, json: bool) -> Result<Vec<u8>, CliError> {
    let Group::Plan(asked) = group;
    output::check(&asked.svg, &[asked.traffic.clone(), asked.loads.clone()])?;
    let input = input::read(asked)?;
    let (plan, answer) = answer::plan(asked, &input)?;
    let failed = |error: std::fmt::Error| CliError::of(Exit::Failed, &error);
    if let Some(path) = &asked.svg {
        let svg = picture::svg(&input.problem, &plan).map_err(failed)?;
        to_file(path, |out| out.write_all(svg.as_bytes()))?;
    }
    if json {
        return to_json(&answer);
    }
    let mut out = String::new();
    render::text(&mut out, &answer).map_err(failed)?;
    Ok(out.into_bytes())
}
