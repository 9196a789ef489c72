//! `hearth reload`: the daemon reads its configuration again.

use super::args::Global;
use crate::terminal::exit::{CliError, Exit};
use crate::terminal::{Side, Table, print, shown};
use api::client::{Client, Method};
use api::reload::{Reload, ReloadOutcome};
use std::fmt::{self, Write};

/// Has the configuration read again, and prints what came of it.
///
/// # Errors
/// If it is wrong, or anything of it does not hold now.
pub(super) async fn run(
    client: &Client,
    global: &Global,
    dry_run: bool,
) -> Result<Vec<u8>, CliError> {
    let path = format!("/v1/reload?dry_run={dry_run}");
    let reload: Reload = client.send(Method::POST, &path, None::<&()>).await?;
    let text = shown(global.json, &reload, write)?;
    let pending = reload.pending();
    if pending == 0 {
        return Ok(text);
    }
    print(&text)?;
    let left = if pending == 1 {
        "one difference is left".to_owned()
    } else {
        format!("{pending} differences are left")
    };
    Err(CliError::new(Exit::Refused, left).with_remedy(
        "systemctl reload hearth has the daemon start anew with all of it; VMs see a short pause",
    ))
}

const fn word(dry_run: bool, outcome: ReloadOutcome) -> &'static str {
    match outcome {
        ReloadOutcome::Applied if dry_run => "would-apply",
        outcome => outcome.word(),
    }
}

fn write(text: &mut String, reload: &Reload) -> fmt::Result {
    if reload.changes.is_empty() {
        return writeln!(text, "the daemon runs with this configuration already");
    }
    let columns = ["key", "outcome", "why"].map(|name| (name, Side::Left));
    let mut table = Table::new(&columns);
    for change in &reload.changes {
        table.row(vec![
            change.key.clone(),
            word(reload.dry_run, change.outcome).to_owned(),
            change.detail.clone().unwrap_or_default(),
        ]);
    }
    write!(text, "{table}")
}
