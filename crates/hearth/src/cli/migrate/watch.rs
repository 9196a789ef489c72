//! `hearth migrate show --watch`: looks again and again, until it is interrupted or the daemon has gone.

use super::render;
use crate::cli::args::Global;
use crate::terminal::exit::{CliError, Exit};
use crate::terminal::print;
use api::client::Client;
use api::roaming::RoamingDisk;
use std::convert::Infallible;
use std::io::IsTerminal as _;
use std::time::Duration;

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(250);

/// Shows a disk until something fails.
pub(super) async fn run(client: &Client, global: &Global, path: &str) -> Result<Vec<u8>, CliError> {
    match watch(client, global, path).await {
        Ok(never) => match never {},
        Err(error) => Err(error),
    }
}

async fn watch(client: &Client, global: &Global, path: &str) -> Result<Infallible, CliError> {
    let paints = !global.json && std::io::stdout().is_terminal();
    let (mut told, mut rows) = (String::new(), 0);
    loop {
        let disk: RoamingDisk = client.get(path).await?;
        if paints {
            let picture = picture(&disk)?;
            // Up to where the last picture began; what is left of it goes.
            let again = if rows > 0 {
                format!("\x1b[{rows}F\x1b[J")
            } else {
                String::new()
            };
            print(format!("{again}{picture}").as_bytes())?;
            rows = picture.lines().count();
        } else {
            let line = render::line(&disk);
            if line != told {
                let shown = if global.json {
                    serde_json::to_string(&disk)
                        .map_err(|error| CliError::of(Exit::Failed, &error))?
                } else {
                    line.clone()
                };
                print(format!("{shown}\n").as_bytes())?;
                told = line;
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn picture(disk: &RoamingDisk) -> Result<String, CliError> {
    let mut picture = String::new();
    render::disk(&mut picture, disk).map_err(|error| CliError::of(Exit::Failed, &error))?;
    Ok(picture)
}
