//! Whether a target may be written.

use crate::terminal::exit::{CliError, Exit};
use crate::terminal::quantity::{bytes, counted};
use load::Address;
use std::io::{self, IsTerminal, Write};
use trace::info::Operations;

/// Says what will be lost, and asks on a terminal unless `yes`.
///
/// # Errors
/// If the answer is no, or nobody can be asked.
pub(super) fn ask(target: &Address, asked: &Operations, yes: bool) -> Result<(), CliError> {
    let mut said = io::stderr();
    let warning = warning(target, asked);
    if yes {
        // Who closed it does not want to know.
        let _ = writeln!(said, "WARNING: {warning}");
        return Ok(());
    }
    if !io::stdin().is_terminal() || !said.is_terminal() {
        return Err(CliError::new(Exit::Usage, warning).with_remedy(
            "--yes, if nothing on the target is worth keeping; without --write only reads are replayed",
        ));
    }
    let asked = write!(said, "WARNING: {warning}\nType yes to go on: ");
    let mut line = String::new();
    asked
        .and_then(|()| said.flush())
        .and_then(|()| io::stdin().read_line(&mut line))
        .map_err(|error| CliError::of(Exit::Failed, &error))?;
    if line.trim() == "yes" {
        return Ok(());
    }
    Err(CliError::new(
        Exit::Refused,
        "the answer was not yes, and nothing was written",
    ))
}

fn warning(target: &Address, asked: &Operations) -> String {
    let erased = asked.discard.requests + asked.write_zeroes.requests;
    let mut changes = vec![format!(
        "{} of {}",
        counted(asked.write.requests, "write"),
        bytes(asked.write.bytes)
    )];
    if erased > 0 {
        changes.push(format!(
            "{} of {}",
            counted(erased, "erasure"),
            bytes(asked.discard.bytes.saturating_add(asked.write_zeroes.bytes))
        ));
    }
    let changes = changes.join(" and ");
    format!("the replay overwrites {target} by {changes}: what it holds there is lost")
}
