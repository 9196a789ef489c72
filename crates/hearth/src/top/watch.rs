//! The loop of `hearth top`: look, show, listen to the keyboard.

use super::args::Top;
use super::interval::{Interval, Look};
use super::screen::{self, View};
use crate::terminal::exit::{CliError, Exit};
use api::client::Client;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use std::io::IsTerminal;
use std::time::Duration;

/// The shortest interval: a look costs the daemon a message to each shard.
const INTERVAL_MIN: units::Duration = units::Duration::from_millis(100);

/// Runs `hearth top`. Returns what to print, if it is not the live view.
pub(crate) async fn run(client: &Client, top: &Top, json: bool) -> Result<String, CliError> {
    if top.interval < INTERVAL_MIN {
        return Err(CliError::new(
            Exit::Usage,
            format!("--interval is at least {INTERVAL_MIN}"),
        ));
    }
    if top.once || json {
        return once(client, top, json).await;
    }
    if !std::io::stdout().is_terminal() {
        return Err(CliError::new(Exit::Usage, "hearth top needs a terminal")
            .with_remedy("hearth top --once"));
    }
    // The first look comes before the terminal is taken over, so that an error is readable.
    let first = look(client).await?;
    let mut terminal = ratatui::try_init().map_err(|error| CliError::of(Exit::Failed, &error))?;
    let outcome = live(client, top, first, &mut terminal).await;
    ratatui::restore();
    outcome.map(|()| String::new())
}

async fn look(client: &Client) -> Result<Look, CliError> {
    Ok(Look {
        status: client.get("/v1/status").await?,
        disks: client.get("/v1/disks").await?,
        vms: client.get("/v1/vms").await?,
        resources: client.get("/v1/resources").await?,
    })
}

async fn once(client: &Client, top: &Top, json: bool) -> Result<String, CliError> {
    let before = look(client).await?;
    tokio::time::sleep(top.interval.to_std()).await;
    let mut interval = Interval::between(&before, &look(client).await?);
    interval.sort(top.sort, false);
    if json {
        return serde_json::to_string_pretty(&interval)
            .map(|text| text + "\n")
            .map_err(|error| CliError::of(Exit::Failed, &error));
    }
    Ok(screen::text(&interval, top.vms))
}

async fn live(
    client: &Client,
    top: &Top,
    first: Look,
    terminal: &mut DefaultTerminal,
) -> Result<(), CliError> {
    let mut view = View {
        sort: top.sort,
        reverse: false,
        paused: false,
        vms: top.vms,
    };
    let mut interval = Interval::between(&first, &first);
    let mut before = first;
    let mut due = tokio::time::Instant::now();
    loop {
        interval.sort(view.sort, view.reverse);
        terminal
            .draw(|frame| screen::draw(frame, &interval, view))
            .map_err(|error| CliError::of(Exit::Failed, &error))?;
        due += top.interval.to_std();
        while tokio::time::Instant::now() < due {
            let left = due.saturating_duration_since(tokio::time::Instant::now());
            let Some(key) = key_within(left).await? else {
                break;
            };
            match key {
                KeyCode::Char('q') | KeyCode::Esc => return Ok(()),
                KeyCode::Char('<' | ',') | KeyCode::Left => view.move_sort(false),
                KeyCode::Char('>' | '.') | KeyCode::Right => view.move_sort(true),
                KeyCode::Char('r') => view.reverse = !view.reverse,
                KeyCode::Char('v') => view.vms = !view.vms,
                KeyCode::Char('p' | ' ') => view.paused = !view.paused,
                _ => continue,
            }
            interval.sort(view.sort, view.reverse);
            terminal
                .draw(|frame| screen::draw(frame, &interval, view))
                .map_err(|error| CliError::of(Exit::Failed, &error))?;
        }
        if !view.paused {
            let now = look(client).await?;
            interval = Interval::between(&before, &now);
            before = now;
        }
    }
}

/// A key that is pressed within this time. Control-C counts as `q`.
async fn key_within(time: Duration) -> Result<Option<KeyCode>, CliError> {
    let waited = tokio::task::spawn_blocking(move || {
        if !event::poll(time)? {
            return Ok(None);
        }
        match event::read()? {
            Event::Key(key) if key.kind == KeyEventKind::Press => {
                let quits =
                    key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
                Ok(Some(if quits { KeyCode::Char('q') } else { key.code }))
            }
            // A resize is answered by drawing again, as after a key without meaning.
            _ => Ok(Some(KeyCode::Null)),
        }
    });
    let result: std::io::Result<Option<KeyCode>> = waited
        .await
        .unwrap_or_else(|error| Err(std::io::Error::other(error)));
    result.map_err(|error| CliError::of(Exit::Failed, &error))
}
