//! Where log lines go and how they look.
//!
//! Levels: `error`: somebody must act; `warn`: something is lost or slow but goes on;
//! `info`: what an operator did, and starts and ends; `debug`: why the program decided so;
//! `trace`: every request.

use crate::config::{LogFormat, LogTarget};
use std::io;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry};

/// Sends this process's log lines to their target from now on.
///
/// # Errors
/// If the filter makes no sense, the journal cannot be reached, or the process logs already.
pub(super) fn start(filter: &str, format: LogFormat, target: LogTarget) -> io::Result<()> {
    let filter = EnvFilter::try_new(filter)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    let to_journal = match target {
        LogTarget::Journald => true,
        LogTarget::Stderr => false,
        LogTarget::Auto => stderr_is_journal(),
    };
    let layer: Box<dyn Layer<Registry> + Send + Sync> = if to_journal {
        Box::new(tracing_journald::layer()?)
    } else {
        let lines = tracing_subscriber::fmt::layer().with_writer(io::stderr);
        match format {
            LogFormat::Text => {
                Box::new(lines.with_ansi(io::IsTerminal::is_terminal(&io::stderr())))
            }
            LogFormat::Json => Box::new(lines.json().flatten_event(true)),
        }
    };
    tracing_subscriber::registry()
        .with(layer.with_filter(filter))
        .try_init()
        .map_err(io::Error::other)
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
