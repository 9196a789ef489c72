//! `hearth events`: what has happened in this run of the daemon, and what operators did.
//!
//! ```text
//!   pages after the last id that was seen ─► a stream after that ─► it ends: wait for the daemon, and pages again
//! ```

pub mod args;
mod words;

pub(crate) use words::time;

use crate::terminal::exit::{CliError, Exit};
use crate::terminal::shown;
use api::client::{Client, ClientError};
use api::events::{Event, Events, Missed};
use api::following::Told;
use args::EventsArgs;
use serde::Serialize;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How soon a daemon that has ended is looked for again.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Events of a page.
const PAGE: usize = 1000;
/// After all that there is.
const END: &str = "18446744073709551615";

/// Shows what is kept, or what happens; returns what to print.
pub(crate) async fn run(
    client: &Client,
    json: bool,
    asked: &EventsArgs,
) -> Result<Vec<u8>, CliError> {
    if let Some(error) = asked.fault() {
        return Err(error);
    }
    let oldest = oldest(asked);
    if asked.follow {
        follow(client, json, asked, oldest).await?;
        return Ok(Vec::new());
    }
    let mut all = page(client, asked, asked.after.as_deref()).await?;
    while all.more {
        let next = page(client, asked, Some(&all.next)).await?;
        all.events.extend(next.events);
        (all.more, all.next) = (next.more, next.next);
    }
    all.events.retain(|event| event.at_seconds >= oldest);
    shown(json, &all, words::all)
}

/// Events before this, in seconds since 1970, are not shown.
fn oldest(asked: &EventsArgs) -> f64 {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    asked.since.map_or(0.0, |since| {
        now.as_secs_f64() - since.to_std().as_secs_f64()
    })
}

fn path(asked: &EventsArgs, after: Option<&str>) -> String {
    let severity = asked.severity.word();
    let mut path = format!("/v1/events?limit={PAGE}&severity={severity}");
    let kinds = asked.kind.join(",");
    for (word, value) in [("kind", kinds.as_str()), ("after", after.unwrap_or(""))] {
        if !value.is_empty() {
            write!(path, "&{word}={value}").expect("writing to a string does not fail");
        }
    }
    path
}

async fn page(
    client: &Client,
    asked: &EventsArgs,
    after: Option<&str>,
) -> Result<Events, ClientError> {
    client.get(&path(asked, after)).await
}

/// Prints what happens until whoever reads has gone.
async fn follow(
    client: &Client,
    json: bool,
    asked: &EventsArgs,
    oldest: f64,
) -> Result<(), CliError> {
    let from_now = asked.since.is_none() && asked.after.is_none();
    let mut follower = Follower {
        client,
        json,
        asked,
        oldest,
        run: None,
        after: from_now.then(|| END.to_owned()).or(asked.after.clone()),
    };
    // An error of the first look is one of the command; later the daemon is waited for.
    let mut is_told = false;
    loop {
        match follower.until_it_ends().await {
            Ok(()) => is_told = false,
            Err(Stopped::Reader) => return Ok(()),
            Err(Stopped::Daemon(error)) => {
                let is_away = matches!(error, ClientError::Unreachable { .. });
                if !is_away || follower.run.is_none() {
                    return Err(error.into());
                }
                if !is_told {
                    tell("the daemon does not answer: waiting for it");
                    is_told = true;
                }
            }
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Why nothing is printed any more.
enum Stopped {
    /// The daemon does not answer, or refuses.
    Daemon(ClientError),
    /// Whoever read standard output has gone.
    Reader,
}

impl From<ClientError> for Stopped {
    fn from(error: ClientError) -> Self {
        Self::Daemon(error)
    }
}

impl From<io::Error> for Stopped {
    fn from(_: io::Error) -> Self {
        Self::Reader
    }
}

struct Follower<'a> {
    client: &'a Client,
    json: bool,
    asked: &'a EventsArgs,
    oldest: f64,
    /// The daemon's run, once it has answered.
    run: Option<String>,
    /// The last event that was seen.
    after: Option<String>,
}

impl Follower<'_> {
    /// Follows one run of the daemon, or one connection to it.
    async fn until_it_ends(&mut self) -> Result<(), Stopped> {
        self.catch_up().await?;
        let path = path(self.asked, self.after.as_deref());
        let mut following = self.client.follow(&path).await?;
        while let Some(told) = following.next().await? {
            match told {
                Told::Event(event) => {
                    self.after = Some(event.id.clone());
                    self.print(&event)?;
                }
                Told::Missed(missed) => self.missed(missed)?,
            }
        }
        Ok(())
    }

    /// Prints what was not seen yet.
    async fn catch_up(&mut self) -> Result<(), Stopped> {
        loop {
            let page = page(self.client, self.asked, self.after.as_deref()).await?;
            if self.run.as_ref().is_some_and(|run| *run != page.run) {
                tell("the daemon was started anew: its events begin again");
            }
            if page.missed > 0 {
                self.missed(page.missed)?;
            }
            (self.run, self.after) = (Some(page.run), Some(page.next));
            for event in page.events {
                self.print(&event)?;
            }
            if !page.more {
                return Ok(());
            }
        }
    }

    fn print(&self, event: &Event) -> io::Result<()> {
        if event.at_seconds < self.oldest {
            return Ok(());
        }
        if self.json {
            return line(event);
        }
        let mut text = String::new();
        words::one(&mut text, event).map_err(io::Error::other)?;
        say(text.as_bytes())
    }

    fn missed(&self, missed: u64) -> io::Result<()> {
        if self.json {
            return line(&Missed { missed });
        }
        tell(&format!("{missed} events were missed"));
        Ok(())
    }
}

fn line<T: Serialize>(value: &T) -> io::Result<()> {
    let mut text = serde_json::to_vec(value)?;
    text.push(b'\n');
    say(&text)
}

fn say(text: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text)?;
    out.flush()
}

/// Tells on standard error: standard output has events.
fn tell(text: &str) {
    // Standard error may be closed; there is nobody left to tell.
    let _ = writeln!(io::stderr(), "{text}");
}

impl EventsArgs {
    /// What is wrong with the words that go into a request.
    fn fault(&self) -> Option<CliError> {
        let is_word = |text: &str| {
            let plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
            text.chars().all(plain)
        };
        let words = self.kind.iter().chain(&self.after);
        let wrong = words.into_iter().find(|word| !is_word(word))?;
        Some(CliError::new(
            Exit::Usage,
            format!("'{wrong}' is neither a kind nor an id of an event"),
        ))
    }
}
