//! Where log lines go and how they look.
//!
//! Levels: `error`: somebody must act; `warn`: something is lost or slow but goes on;
//! `info`: what an operator did, and starts and ends; `debug`: why the program decided so;
//! `trace`: every request.
//!
//! In the journal each field of a line is a field of the entry, in capitals: `DISK`, `OFFSET`,
//! `ERRNO`, `MESSAGE_ID` where a line has one ([`block_io::FailureKind`]), and `EVENT` where a line is
//! an event, which the daemon keeps (`event_log`).

use super::event_log::Lines;
use api::problem::ProblemKind;
use api::types::Problem;
use configuration::{LogFormat, LogTarget, log_filter};
use std::{fmt, io};
use tracing::field::{Field, Visit};
use tracing_subscriber::field::{RecordFields, VisitOutput as _};
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::{DefaultVisitor, Writer};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry, reload};

/// Sends this process's log lines to their target from now on, and those that are events to `events`. Returns what changes
/// which lines those are.
///
/// # Errors
/// If the filter makes no sense, the journal cannot be reached, or the process logs already.
pub(super) fn start(
    filter: &str,
    format: LogFormat,
    target: LogTarget,
    events: Lines,
) -> io::Result<LogFilter> {
    let filter = EnvFilter::try_new(log_filter(filter))
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    let (filter, handle) = reload::Layer::new(filter);
    let to_journal = match target {
        LogTarget::Journald => true,
        LogTarget::Stderr => false,
        LogTarget::Auto => stderr_is_journal(),
    };
    let layer: Box<dyn Layer<Registry> + Send + Sync> = if to_journal {
        Box::new(tracing_journald::layer()?.with_field_prefix(None))
    } else {
        let lines = tracing_subscriber::fmt::layer().with_writer(io::stderr);
        match format {
            LogFormat::Text => {
                let is_terminal = io::IsTerminal::is_terminal(&io::stderr());
                Box::new(lines.fmt_fields(WithoutNumbers).with_ansi(is_terminal))
            }
            LogFormat::Json => Box::new(lines.json().flatten_event(true)),
        }
    };
    tracing_subscriber::registry()
        .with(layer.with_filter(filter))
        .with(events.layer())
        .try_init()
        .map_err(io::Error::other)?;
    Ok(LogFilter(handle))
}

/// What is logged, which can be changed.
pub(super) struct LogFilter(reload::Handle<EnvFilter, Registry>);

impl LogFilter {
    /// Has this be logged from now on: a level or a filter.
    ///
    /// # Errors
    /// If the filter makes no sense: then what is logged stays.
    pub(super) fn set(&self, filter: &str) -> Result<(), Problem> {
        let invalid = |message: String| Problem::new(ProblemKind::Invalid, message);
        let filter = EnvFilter::try_new(log_filter(filter));
        let filter = filter.map_err(|error| invalid(error.to_string()))?;
        let set = self.0.reload(filter);
        set.map_err(|error| Problem::new(ProblemKind::Failed, error.to_string()))
    }
}

/// Fields of a text line: all but `message_id` and `event`, which are for programs.
struct WithoutNumbers;

/// The fields that a text line lacks.
const FOR_PROGRAMS: [&str; 2] = ["message_id", "event"];

impl<'w> FormatFields<'w> for WithoutNumbers {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'w>, fields: R) -> fmt::Result {
        let mut visitor = SkipNumbers(DefaultVisitor::new(writer, true));
        fields.record(&mut visitor);
        visitor.0.finish()
    }
}

struct SkipNumbers<'w>(DefaultVisitor<'w>);

impl Visit for SkipNumbers<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        if !FOR_PROGRAMS.contains(&field.name()) {
            self.0.record_str(field, value);
        }
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.0.record_error(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.record_debug(field, value);
    }
}

/// Whether standard error is the journal's stream: systemd names its device and inode.
fn stderr_is_journal() -> bool {
    let Ok(named) = std::env::var("JOURNAL_STREAM") else {
        return false;
    };
    let Ok(stat) = rustix::fs::fstat(io::stderr()) else {
        return false;
    };
    named == format!("{}:{}", stat.st_dev, stat.st_ino)
}
