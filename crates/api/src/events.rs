//! What the admin API tells of events: what has happened, and what operators did.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use std::fmt;
use utoipa::ToSchema;

/// How much an event asks of an operator.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema, ValueEnum,
)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Nothing: something began, ended or was done.
    Info,
    /// To know of it: something is lost or slow, and goes on.
    Warning,
    /// To act.
    Problem,
}

impl Severity {
    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }
}

/// What an event is about. A name is there if the event is about one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct About {
    /// A disk, or a base image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk: Option<String>,
    /// A VM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vm: Option<String>,
    /// A cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<String>,
    /// An origin, as the configuration has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// A host of the cluster, or a peer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The source of a move.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Its target.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
}

impl About {
    /// Each name that is there, behind the word for what it names.
    pub fn names(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let names = [
            ("disk", &self.disk),
            ("vm", &self.vm),
            ("cache", &self.cache),
            ("origin", &self.origin),
            ("host", &self.host),
            ("from", &self.from),
            ("to", &self.to),
        ];
        let names = names.into_iter();
        names.filter_map(|(word, name)| Some((word, name.as_deref()?)))
    }
}

/// Who gave a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum Who {
    /// A user of this host over the admin socket, as the system says.
    User {
        /// The user's number.
        uid: u32,
        /// The process.
        #[serde(skip_serializing_if = "Option::is_none")]
        pid: Option<u32>,
    },
    /// An operator through the page.
    Operator {
        /// The name of the token, or `cert:` and the name in the certificate.
        operator: String,
        /// From where: address and port.
        address: String,
    },
    /// Somebody at the page who is no operator.
    Stranger {
        /// From where: address and port.
        address: String,
    },
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User { uid, pid: None } => write!(f, "uid {uid}"),
            Self::User {
                uid,
                pid: Some(pid),
            } => write!(f, "uid {uid}, pid {pid}"),
            Self::Operator { operator, address } => write!(f, "{operator} from {address}"),
            Self::Stranger { address } => write!(f, "from {address}"),
        }
    }
}

/// Something that has happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// The daemon's run and the number there, `RUN-NUMBER`: what `after` and `Last-Event-ID` take.
    pub id: String,
    /// Rises by one within a run of the daemon.
    pub number: u64,
    /// When, in seconds since 1970.
    pub at_seconds: f64,
    /// How much it asks of an operator.
    pub severity: Severity,
    /// What has happened, in a word; the book, chapter Events, lists them.
    pub kind: String,
    /// What it is about.
    #[serde(flatten)]
    pub about: About,
    /// What has happened, in a sentence.
    pub text: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// Who gave the command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub who: Option<Who>,
}

/// Some events of this run of the daemon, the oldest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Events {
    /// The daemon's run: another one begins its numbers anew.
    pub run: String,
    /// Events that were asked for and are not kept any more.
    pub missed: u64,
    /// Ask for more after this; the last event that was looked at, or what was asked for.
    pub next: String,
    /// Whether there is more.
    pub more: bool,
    /// The events.
    pub events: Vec<Event>,
}

/// What a stream says where it lost events, as the data of a message `missed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Missed {
    /// How many: the client was slow, or asked late.
    pub missed: u64,
}
