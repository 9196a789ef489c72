//! From a log line that names a kind of event to the event.
//!
//! The message is the sentence; a reason is put behind it. The level is the severity. Whether a line is logged is
//! another matter: an event is kept with `daemon.log = 'off'`, too.

use super::EventLog;
use super::ring::TEXT_BYTES_MAX;
use api::events::{About, Severity, Who};
use events::EventKind;
use std::fmt;
use std::sync::Arc;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::FilterFn;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

/// The field that makes a line an event.
const EVENT: &str = "event";
/// The longest name of something that an event is about.
const NAME_BYTES_MAX: usize = 256;

/// Keeps the lines that are events.
pub(crate) struct Lines(pub(crate) Arc<EventLog>);

impl Lines {
    /// As a layer of the process's log.
    pub(crate) fn layer<S>(self) -> impl Layer<S> + Send + Sync
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        // Lines of other kinds cost what they cost without this.
        let is_event = FilterFn::new(|line| line.fields().field(EVENT).is_some());
        self.with_filter(is_event.with_max_level_hint(LevelFilter::INFO))
    }
}

impl<S: Subscriber> Layer<S> for Lines {
    fn on_event(&self, line: &Event<'_>, _: Context<'_, S>) {
        let mut words = Words::default();
        line.record(&mut words);
        if let Some(said) = words.said(*line.metadata().level()) {
            self.0.record(said);
        }
    }
}

/// An event without number and time.
#[derive(Debug, PartialEq)]
pub(super) struct Said {
    pub(super) severity: Severity,
    pub(super) kind: EventKind,
    pub(super) about: About,
    pub(super) text: String,
    pub(super) remedy: Option<String>,
    pub(super) who: Option<Who>,
}

/// What a line's fields say.
#[derive(Default)]
struct Words {
    kind: Option<EventKind>,
    about: About,
    message: String,
    reason: Option<String>,
    remedy: Option<String>,
    uid: Option<u32>,
    pid: Option<u32>,
    operator: Option<String>,
    asked_from: Option<String>,
}

impl Words {
    /// The event, if the line names a kind.
    fn said(mut self, level: Level) -> Option<Said> {
        let who = self.who();
        let text = match self.reason {
            Some(reason) => format!("{}: {reason}", self.message),
            None => self.message,
        };
        Some(Said {
            severity: severity(level),
            kind: self.kind?,
            about: self.about,
            text: cut(text, TEXT_BYTES_MAX),
            remedy: self.remedy.map(|remedy| cut(remedy, TEXT_BYTES_MAX)),
            who,
        })
    }

    fn who(&mut self) -> Option<Who> {
        match (self.uid, self.operator.take(), self.asked_from.take()) {
            (Some(uid), ..) => Some(Who::User { uid, pid: self.pid }),
            (None, Some(operator), Some(address)) => Some(Who::Operator { operator, address }),
            (None, None, Some(address)) => Some(Who::Stranger { address }),
            (None, _, None) => None,
        }
    }

    fn take(&mut self, field: &str, value: String) {
        let place = match field {
            "message" => {
                self.message = value;
                return;
            }
            EVENT => {
                self.kind = EventKind::of(&value);
                return;
            }
            "reason" | "why" | "error" => {
                self.reason = Some(value);
                return;
            }
            "remedy" => {
                self.remedy = Some(value);
                return;
            }
            "operator" => &mut self.operator,
            "asked_from" => &mut self.asked_from,
            "disk" | "image" => &mut self.about.disk,
            "vm" => &mut self.about.vm,
            "cache" => &mut self.about.cache,
            "origin" => &mut self.about.origin,
            "host" | "peer" => &mut self.about.host,
            "from" => &mut self.about.from,
            "to" => &mut self.about.to,
            _ => return,
        };
        *place = Some(cut(value, NAME_BYTES_MAX));
    }
}

impl Visit for Words {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.take(field.name(), value.to_owned());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        let place = match field.name() {
            "uid" => &mut self.uid,
            "pid" => &mut self.pid,
            _ => return,
        };
        *place = u32::try_from(value).ok();
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.take(field.name(), units::errors::chain(value));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.take(field.name(), format!("{value:?}"));
    }
}

fn severity(level: Level) -> Severity {
    match level {
        Level::ERROR => Severity::Problem,
        Level::WARN => Severity::Warning,
        _ => Severity::Info,
    }
}

/// As much of a text as there is room for.
fn cut(mut text: String, bytes_max: usize) -> String {
    if text.len() > bytes_max {
        text.truncate(text.floor_char_boundary(bytes_max));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::ring::Asked;
    use super::*;
    use tracing_subscriber::layer::SubscriberExt;

    fn said_by(line: impl FnOnce()) -> Vec<api::events::Event> {
        let log = Arc::new(EventLog::new());
        let lines = Lines(Arc::clone(&log)).layer();
        tracing::subscriber::with_default(tracing_subscriber::registry().with(lines), line);
        let asked = Asked {
            kinds: Vec::new(),
            severity: Severity::Info,
            limit: 99,
        };
        log.look(0, &asked).events
    }

    #[test]
    fn a_line_that_names_a_kind_is_an_event_and_others_are_none() {
        let error = std::io::Error::other("gone");
        let events = said_by(|| {
            tracing::warn!(disk = "d", "no event");
            let kind = EventKind::OriginLost;
            tracing::warn!(event = kind.word(), disk = %"d", vm = Some("v"), why = %error,
                remedy = "bring it back", offset = 7, "the origin of {} is lost", "d");
        });
        let [event] = &events[..] else {
            panic!("{events:?}");
        };
        assert_eq!(event.kind, "origin-lost");
        assert_eq!(event.severity, Severity::Warning);
        assert_eq!(event.text, "the origin of d is lost: gone");
        assert_eq!(event.remedy.as_deref(), Some("bring it back"));
        let names: Vec<_> = event.about.names().collect();
        assert_eq!(names, [("disk", "d"), ("vm", "v")]);
    }

    #[test]
    fn an_event_says_who_gave_the_command_and_from_where() {
        let events = said_by(|| {
            let event = EventKind::Command.word();
            let (uid, nobody) = (Some(7_u32), None::<&str>);
            tracing::info!(event, uid, operator = nobody, asked_from = nobody, "x");
            tracing::info!(
                event,
                uid = None::<u32>,
                operator = "alice",
                asked_from = "192.0.2.7:1",
                "x"
            );
            tracing::warn!(event, asked_from = "192.0.2.8:1", "x");
        });
        let who = events
            .into_iter()
            .map(|event| event.who.unwrap().to_string());
        let who: Vec<_> = who.collect();
        assert_eq!(who, ["uid 7", "alice from 192.0.2.7:1", "from 192.0.2.8:1"]);
    }

    #[test]
    fn long_words_are_cut_between_letters() {
        let events = said_by(|| {
            let (long, name) = ("ä".repeat(TEXT_BYTES_MAX), "ö".repeat(NAME_BYTES_MAX));
            tracing::error!(event = EventKind::DiskWaits.word(), disk = name, "x{long}");
        });
        assert_eq!(events[0].text.len(), TEXT_BYTES_MAX - 1);
        assert_eq!(events[0].about.disk.as_ref().unwrap().len(), NAME_BYTES_MAX);
        assert_eq!(events[0].severity, Severity::Problem);
    }

    #[test]
    fn a_place_of_another_run_is_the_beginning() {
        let log = EventLog::new();
        assert_eq!(log.place(&log.id(7)), Some(7));
        assert_eq!(log.place("00000000000-7"), Some(0));
        assert_eq!(log.place("7"), Some(7));
        assert_eq!(log.place("seven"), None);
    }
}
