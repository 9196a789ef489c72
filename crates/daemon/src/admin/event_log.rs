//! The admin API's path of events: a page of them, or a stream.
//!
//! ```text
//!   GET /v1/events                              {"run": ..., "events": [...], "next": "RUN-7"}
//!   GET /v1/events, Accept: text/event-stream   id: RUN-8 | event: event | data: {...}
//! ```

use super::refusal::Refusal;
use super::write_back::query;
use crate::Control;
use crate::event_log::{Asked, EventLog, Look};
use crate::settings;
use api::events::{About, Events, Missed, Severity};
use api::problem::ProblemKind;
use api::types::Problem;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use events::EventKind;
use futures_util::stream::{self, Stream};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

/// Events of a page unless the client says how many.
const PAGE: usize = 100;
/// The most events of a page: below 4 MiB as JSON.
const PAGE_MAX: usize = 1000;
/// How often a stream that has nothing to say says so: a client knows that the daemon is there.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// How many clients may follow events at a time, over the admin socket and at the page each. A client holds one of the places of its
/// listener, which commands need, too.
const FOLLOWERS_MAX: usize = 16;

/// The path, with places for followers of its own: browsers take none of those of the admin socket.
pub(super) fn routes(control: &Arc<Control>, log: Arc<EventLog>) -> Router<Arc<Control>> {
    let source = Source {
        control: Arc::clone(control),
        log,
        followers: Arc::new(Semaphore::new(FOLLOWERS_MAX)),
    };
    Router::new()
        .route("/v1/events", get(show_events))
        .with_state(source)
}

/// Where events come from.
#[derive(Clone)]
pub(super) struct Source {
    control: Arc<Control>,
    log: Arc<EventLog>,
    followers: Arc<Semaphore>,
}

impl Source {
    /// What is kept after a number. An origin does not know of which disk it is: that is added here.
    fn look(&self, after: u64, asked: &Asked) -> Look {
        let mut look = self.log.look(after, asked);
        let is_nameless = |about: &About| about.origin.is_some() && about.disk.is_none();
        if !look.events.iter().any(|event| is_nameless(&event.about)) {
            return look;
        }
        let entries = self.control.registry().all();
        let disks = entries.iter().map(|entry| {
            let origin = settings::origin(&entry.config.origin);
            (origin.to_string(), &entry.config.name)
        });
        let disks: BTreeMap<_, _> = disks.collect();
        let abouts = look.events.iter_mut().map(|event| &mut event.about);
        for about in abouts.filter(|about| is_nameless(about)) {
            let disk = about.origin.as_ref().and_then(|origin| disks.get(origin));
            about.disk = disk.map(ToString::to_string);
        }
        look
    }
}

/// Which events.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Which {
    after: Option<String>,
    kind: Option<String>,
    severity: Option<Severity>,
    limit: Option<usize>,
}

/// Events of this run of the daemon; as a stream of server-sent events if the client accepts that, which begins with the next one
/// unless `after` or the header `Last-Event-ID` says after which.
#[utoipa::path(get, path = "/v1/events", params(
    ("after" = Option<String>, Query, description = "Only those after this one: an event's `id`, or its `number`. Of another run of the daemon: all of this one"),
    ("kind" = Option<String>, Query, description = "Only these kinds, with commas between them"),
    ("severity" = Option<Severity>, Query, description = "Only those at least as severe"),
    ("limit" = Option<usize>, Query, description = "At most so many on a page, 1 to 1000; 100 unless given"),
), responses(
    (status = 200, description = "The events, the oldest first; or a stream of messages: `event` with an event, `missed` with how many were lost to a slow client", content(
        (Events = "application/json"),
        (String = "text/event-stream"),
    )),
    (status = 400, description = "Makes no sense", body = Problem),
    (status = 409, description = "Too many clients follow already", body = Problem),
))]
pub(super) async fn show_events(
    State(source): State<Source>,
    headers: HeaderMap,
    which: Result<Query<Which>, QueryRejection>,
) -> Result<Response, Refusal> {
    let which = query(which)?;
    let asked = asked(&which)?;
    let log = &source.log;
    let number = |id: &str| {
        let detail = format!("'{id}' is no id of an event");
        let problem = Problem::new(ProblemKind::Invalid, detail);
        log.place(id)
            .ok_or_else(|| problem.with_remedy("an id is RUN-NUMBER, as in an answer's `next`"))
    };
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let accepts = text(header::ACCEPT).unwrap_or_default();
    if !accepts.contains("text/event-stream") {
        let after = which.after.as_deref().map(number).transpose()?;
        return Ok(Json(page(&source, after, &asked)).into_response());
    }
    let last = text(header::HeaderName::from_static("last-event-id")).or(which.after.as_deref());
    let after = last.map(number).transpose()?;
    let place = Arc::clone(&source.followers).try_acquire_owned();
    let Ok(place) = place else {
        let problem = Problem::new(ProblemKind::Busy, "too many clients follow events");
        return Err(problem.with_remedy("end a hearth events --follow").into());
    };
    let after = after.unwrap_or_else(|| log.last());
    let following = Following::new(source, after, asked, place);
    let keep_alive = KeepAlive::new().interval(KEEP_ALIVE);
    Ok(Sse::new(following.stream())
        .keep_alive(keep_alive)
        .into_response())
}

fn asked(which: &Which) -> Result<Asked, Problem> {
    let words = which.kind.as_deref().unwrap_or_default().split(',');
    let words = words.filter(|word| !word.is_empty());
    let kinds = words.map(|word| {
        EventKind::of(word).ok_or_else(|| {
            let known: Vec<_> = EventKind::ALL.iter().map(|kind| kind.word()).collect();
            let detail = format!("there are no events of the kind '{word}'");
            Problem::new(ProblemKind::Invalid, detail)
                .with_remedy(format!("the kinds are {}", known.join(", ")))
        })
    });
    let limit = which.limit.unwrap_or(PAGE);
    if !(1..=PAGE_MAX).contains(&limit) {
        let detail = format!("a page has 1 to {PAGE_MAX} events");
        return Err(Problem::new(ProblemKind::Invalid, detail));
    }
    Ok(Asked {
        kinds: kinds.collect::<Result<_, _>>()?,
        severity: which.severity.unwrap_or(Severity::Info),
        limit,
    })
}

fn page(source: &Source, after: Option<u64>, asked: &Asked) -> Events {
    let look = source.look(after.unwrap_or(0), asked);
    let log = &source.log;
    Events {
        run: log.run().to_owned(),
        // Who asks for all that there is has missed nothing.
        missed: after.map_or(0, |_| look.missed),
        next: log.id(look.next),
        more: look.more,
        events: look.events,
    }
}

/// A client that follows.
struct Following {
    source: Source,
    news: watch::Receiver<u64>,
    after: u64,
    asked: Asked,
    /// What was read and not sent yet.
    read: VecDeque<Event>,
    _place: OwnedSemaphorePermit,
}

impl Following {
    fn new(source: Source, after: u64, asked: Asked, place: OwnedSemaphorePermit) -> Self {
        Self {
            news: source.log.news(),
            source,
            after,
            // What a slow client has not read is kept once, in the ring.
            asked: Asked { limit: 16, ..asked },
            read: VecDeque::new(),
            _place: place,
        }
    }

    /// Its messages until the daemon ends. The next ones are read when the client takes them.
    fn stream(self) -> impl Stream<Item = Result<Event, Infallible>> {
        stream::unfold(self, |mut following| async {
            let event = following.next().await?;
            Some((Ok(event), following))
        })
    }

    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.read.pop_front() {
                return Some(event);
            }
            // Before the look, so that what comes after it wakes this up.
            let has_ended = self.news.has_changed().is_err();
            self.news.mark_unchanged();
            self.read();
            if self.read.is_empty() {
                if has_ended {
                    return None;
                }
                // An error is the end: the next round looks a last time.
                let _ = self.news.changed().await;
            }
        }
    }

    fn read(&mut self) {
        loop {
            let Look {
                missed,
                events,
                next,
                more,
            } = self.source.look(self.after, &self.asked);
            self.after = next;
            if missed > 0 {
                self.read.extend(message("missed", &Missed { missed }));
            }
            // A client that comes again asks after the last event that it has.
            let messages = events.iter().filter_map(|of| {
                let message = message("event", of)?;
                Some(message.id(&of.id))
            });
            self.read.extend(messages);
            if !more || !self.read.is_empty() {
                return;
            }
        }
    }
}

fn message<T: Serialize>(name: &str, data: &T) -> Option<Event> {
    // Numbers and texts are JSON.
    Event::default().event(name).json_data(data).ok()
}
