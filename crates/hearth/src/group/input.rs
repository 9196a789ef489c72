//! The files of `hearth group plan`, as a problem.

use super::args::Plan;
use crate::terminal::exit::{CliError, Exit, chain};
use groups::{Problem, Sizes, TrafficMatrix, csv};
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

/// Bytes of a file that are read: the pairs of the largest group take less.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// What is planned, and what of the files is no part of it.
pub(super) struct Input {
    pub(super) problem: Problem,
    /// VMs that move and of which no traffic is known.
    pub(super) silent: Vec<String>,
    /// VMs of the traffic that do not move.
    pub(super) others: usize,
    /// Traffic between those that move and those that do not, in bytes a second.
    pub(super) with_others: f64,
    /// Rates that were cut down to the largest.
    pub(super) clamped: usize,
}

/// Reads the files.
pub(super) fn read(plan: &Plan) -> Result<Input, CliError> {
    let traffic = traffic(&plan.traffic)?;
    let text = text(&plan.loads)?;
    let loads = csv::loads(&text).map_err(|error| {
        wrong(&plan.loads, &error).with_remedy("lines such as web,64GiB,20MiB/s")
    })?;
    let chosen = chosen(plan, loads)?;
    let names = || chosen.iter().map(|(name, _)| name.as_str());
    let among = traffic
        .among(names())
        .map_err(|error| wrong(&plan.loads, &error))?;
    let moves = |vm: usize| among.index_of(&traffic.names()[vm]).is_some();
    let (inside, outside): (Vec<usize>, Vec<usize>) = (0..traffic.vms()).partition(|vm| moves(*vm));
    let with_others = inside
        .iter()
        .flat_map(|one| outside.iter().map(|other| traffic.rate(*one, *other)));
    let silent = names().filter(|name| traffic.index_of(name).is_none());
    let silent = silent.map(str::to_owned).collect();
    let (with_others, clamped) = (with_others.sum(), traffic.clamped());
    let loads = chosen.iter().map(|(_, load)| *load).collect();
    let problem = Problem::new(among, loads, plan.link_rate, plan.split)
        .map_err(|error| CliError::of(Exit::Usage, &error))?;
    check_sizes(&plan.sizes(), problem.vms())?;
    Ok(Input {
        problem,
        silent,
        others: outside.len(),
        with_others,
        clamped,
    })
}

/// The traffic of a csv file.
pub(crate) fn traffic(path: &Path) -> Result<TrafficMatrix, CliError> {
    csv::traffic(&text(path)?)
        .map_err(|error| wrong(path, &error).with_remedy("lines such as web,db,125MiB/s"))
}

fn chosen<T>(plan: &Plan, loads: Vec<(String, T)>) -> Result<Vec<(String, T)>, CliError> {
    if plan.vms.is_empty() {
        return Ok(loads);
    }
    let unknown = plan
        .vms
        .iter()
        .find(|vm| !loads.iter().any(|(name, _)| name == *vm));
    if let Some(vm) = unknown {
        let message = format!("{} does not have the VM '{vm}'", plan.loads.display());
        return Err(CliError::new(Exit::NotFound, message).with_remedy(
            "a line with its bytes to move, and the bytes a second that it makes dirty",
        ));
    }
    Ok(loads
        .into_iter()
        .filter(|(name, _)| plan.vms.contains(name))
        .collect())
}

fn check_sizes(sizes: &Sizes, vms: usize) -> Result<(), CliError> {
    sizes.check(vms).map_err(|error| {
        CliError::of(Exit::Usage, &error)
            .with_remedy("--sizes auto, or sizes that add up to the VMs that move")
    })
}

fn text(path: &Path) -> Result<String, CliError> {
    let mut text = String::new();
    let read =
        File::open(path).and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text));
    match read {
        Ok(bytes) if bytes as u64 > FILE_BYTES_MAX => {
            let message = format!("{} has more than 256 MiB", path.display());
            Err(CliError::new(Exit::Usage, message).with_remedy("each pair of VMs once"))
        }
        Ok(_) => Ok(text),
        Err(error) => {
            let message = format!("{} cannot be read: {}", path.display(), chain(&error));
            Err(CliError::new(Exit::Failed, message))
        }
    }
}

fn wrong(path: &Path, error: &dyn std::error::Error) -> CliError {
    CliError::new(Exit::Usage, format!("{}: {}", path.display(), chain(error)))
}
