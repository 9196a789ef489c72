//! `hearth migrate show --watch`: looks again and again, until it is interrupted or the daemon has gone.

use super::shown::Shown;
use crate::cli::args::Global;
use crate::terminal::exit::CliError;
use crate::terminal::print;
use api::client::Client;
use configuration::Name;
use std::convert::Infallible;
use std::io::IsTerminal as _;
use std::time::Duration;

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(250);

/// Shows what has this name until something fails.
pub(super) async fn run(
    client: &Client,
    global: &Global,
    name: &Name,
) -> Result<Vec<u8>, CliError> {
    match watch(client, global, name).await {
        Ok(never) => match never {},
        Err(error) => Err(error),
    }
}

async fn watch(client: &Client, global: &Global, name: &Name) -> Result<Infallible, CliError> {
    let paints = !global.json && std::io::stdout().is_terminal();
    let (mut told, mut rows) = (Vec::<String>::new(), 0);
    loop {
        let shown = Shown::of(client, name).await?;
        if paints {
            let picture = shown.picture()?;
            // Up to where the last picture began; what is left of it goes.
            let again = if rows > 0 {
                format!("\x1b[{rows}F\x1b[J")
            } else {
                String::new()
            };
            print(format!("{again}{picture}").as_bytes())?;
            rows = picture.lines().count();
        } else {
            let lines = shown.lines()?;
            for (at, (line, object)) in lines.iter().enumerate() {
                if told.get(at) != Some(line) {
                    let shown = if global.json { object } else { line };
                    print(format!("{shown}\n").as_bytes())?;
                }
            }
            told = lines.into_iter().map(|(line, _)| line).collect();
        }
        tokio::time::sleep(PAUSE).await;
    }
}
