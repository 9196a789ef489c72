//! A plan for people.

use crate::terminal::exit::{CliError, Exit};
use crate::terminal::quantity::{share, time};
use crate::terminal::{Side, Table};
use placement::{Fleet, Plan, Proposed, Reason, Rejected};
use std::fmt::{self, Write};

/// Rows of what was refused that are shown; all are in the JSON.
const REFUSED_SHOWN: usize = 40;

/// The plan as text.
pub(super) fn text(plan: &Plan, fleet: &Fleet) -> Result<Vec<u8>, CliError> {
    let mut out = String::new();
    write(&mut out, plan, fleet).map_err(|error| CliError::of(Exit::Failed, &error))?;
    Ok(out.into_bytes())
}

fn write(out: &mut String, plan: &Plan, fleet: &Fleet) -> fmt::Result {
    let hosts = fleet.hosts().len();
    let vms: usize = fleet.hosts().iter().map(|host| host.vms().len()).sum();
    writeln!(
        out,
        "{hosts} hosts, {vms} VMs: {} above their bound, {} with these moves; load {} on average, deviation {} and {} with \
         them, heaviest {} and {}",
        plan.before.hosts_above,
        plan.after.hosts_above,
        share(plan.before.load_mean),
        share(plan.before.load_stddev),
        share(plan.after.load_stddev),
        share(plan.before.load_max),
        share(plan.after.load_max),
    )?;
    if plan.moves.is_empty() {
        writeln!(out, "\nno move is proposed")?;
    } else {
        writeln!(out, "\n{}", moves(&plan.moves))?;
        writeln!(out, "{}", hosts_of(&plan.moves))?;
    }
    for one in &plan.short {
        writeln!(
            out,
            "{} is at {} and has no move: {} of flash are missing; shares are {} of what its VMs need",
            one.host,
            share(one.load),
            one.missing,
            share(one.scale)
        )?;
    }
    if !plan.rejected.is_empty() {
        writeln!(out, "\nrefused\n\n{}", refused(&plan.rejected))?;
        let more = plan.rejected.len().saturating_sub(REFUSED_SHOWN);
        if more > 0 {
            writeln!(out, "and {more} more: --json has all")?;
        }
    }
    Ok(())
}

fn moves(all: &[Proposed]) -> Table {
    let mut table = Table::new(&[
        ("vm", Side::Left),
        ("from", Side::Left),
        ("to", Side::Left),
        ("needs", Side::Right),
        ("dirty", Side::Right),
        ("why", Side::Left),
        ("transfer", Side::Right),
        ("saves", Side::Right),
        ("costs", Side::Right),
    ]);
    for one in all {
        table.row(vec![
            one.vm.to_string(),
            one.from.to_string(),
            one.to.to_string(),
            one.demand.to_string(),
            one.dirty.to_string(),
            format!(
                "{} for {} windows, bound {}",
                share(one.why.load),
                one.why.windows,
                share(one.why.load_max)
            ),
            time(one.expected.transfer_s),
            time(one.expected.gain_s),
            time(one.expected.cost_s),
        ]);
    }
    table
}

fn hosts_of(all: &[Proposed]) -> Table {
    let mut table = Table::new(&[
        ("host", Side::Left),
        ("load", Side::Right),
        ("then", Side::Right),
        ("hits", Side::Right),
        ("then", Side::Right),
        ("by", Side::Left),
    ]);
    for one in all {
        let sides = [
            (&one.from, &one.expected.source, "sends"),
            (&one.to, &one.expected.target, "takes"),
        ];
        for (host, change, word) in sides {
            table.row(vec![
                host.to_string(),
                share(change.load_before),
                share(change.load_after),
                share(change.hits_before),
                share(change.hits_after),
                format!("{word} {}", one.vm),
            ]);
        }
    }
    table
}

fn refused(all: &[Rejected]) -> Table {
    let mut table = Table::new(&[
        ("host", Side::Left),
        ("vm", Side::Left),
        ("to", Side::Left),
        ("because", Side::Left),
    ]);
    for one in all.iter().take(REFUSED_SHOWN) {
        let to = match (&one.to, one.targets) {
            (None, _) => "-".to_owned(),
            (Some(host), 1) => host.to_string(),
            (Some(host), hosts) => format!("{host} and {} more", hosts - 1),
        };
        let because = match one.reason {
            Reason::NotWorth { gain_s, cost_s } => format!(
                "{}: saves {}, costs {}",
                one.reason.words(),
                time(gain_s.max(0.0)),
                time(cost_s)
            ),
            Reason::Rests { seconds: left } => {
                format!("{} for {} more", one.reason.words(), time(left))
            }
            reason => reason.words().to_owned(),
        };
        table.row(vec![
            one.from.to_string(),
            one.vm
                .as_ref()
                .map_or_else(|| "-".to_owned(), ToString::to_string),
            to,
            because,
        ]);
    }
    table
}
