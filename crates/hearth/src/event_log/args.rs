//! Arguments of `hearth events`.

use api::events::Severity;
use clap::Args;
use units::Duration;

/// Arguments of `events`.
#[derive(Debug, Args)]
pub struct EventsArgs {
    /// Go on with what happens from now on, until it is ended; before that, what --since or --after ask for
    ///
    /// If the daemon ends, it is waited for. A line on standard error says what was missed, and that the daemon was started
    /// anew. With --json each event is a line.
    #[arg(long, short)]
    pub follow: bool,
    /// Only what has happened within this time
    #[arg(long, value_name = "TIME", conflicts_with = "after")]
    pub since: Option<Duration>,
    /// Only what has happened after the event with this id, RUN-NUMBER
    #[arg(long, value_name = "ID")]
    pub after: Option<String>,
    /// Only events of these kinds; the book lists them
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    pub kind: Vec<String>,
    /// Only events that are at least as severe
    #[arg(long, value_name = "SEVERITY", default_value = "info")]
    pub severity: Severity,
}
