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
mod run;

use crate::terminal::exit::{CliError, Exit};
use crate::terminal::output::{self, to_file};
use crate::terminal::{progress, shown, to_json};
use api::client::Client;
use args::Run;
use std::io::Write as _;

/// Plans what was asked for, moves the VMs, and returns what to print.
pub(crate) async fn moved(client: &Client, asked: &Run, json: bool) -> Result<Vec<u8>, CliError> {
    let asked = &asked.plan;
    if asked.to.is_empty() {
        let message = "nobody says where the VMs go".to_owned();
        return Err(CliError::new(Exit::Usage, message).with_remedy("--to HOST,..."));
    }
    let input = input::read(asked)?;
    let (_, answer) = answer::plan(asked, &input)?;
    let message = format!("moving {} waves", answer.waves.len());
    let ran = progress::waiting(message, run::run(client, &input.problem, &answer)).await?;
    shown(json, &ran, render::ran)
}

/// Plans what was asked for and returns what to print.
pub(crate) fn plan(asked: &args::Plan, json: bool) -> Result<Vec<u8>, CliError> {
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
