//! What goes wrong on the admin API, and how it is told.

use hyper::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What went wrong, and what to do about it (a problem object of RFC 9457).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// What kind of problem, as a URN that ends with its code.
    #[serde(rename = "type")]
    #[schema(example = "urn:hearth:problem:no-such-disk")]
    pub kind: String,
    /// The kind in words.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What happened, with names.
    pub detail: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

/// The kinds of problems. Each is a different thing for a caller to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProblemKind {
    /// The request makes no sense: correct it.
    Invalid,
    /// There is no such disk.
    NoSuchDisk,
    /// There is no such cache.
    NoSuchCache,
    /// There is no such VM or base image.
    NoSuchVm,
    /// There is no such peer.
    NoSuchPeer,
    /// There is no such resource.
    NoSuchPath,
    /// A disk of this name or identity is attached.
    AlreadyAttached,
    /// Something is using the disk.
    Busy,
    /// The disk is not attached yet: it waits, for its origin most of the time.
    NotReady,
    /// The origin cannot be opened, or is not what it should be.
    Origin,
    /// Another recording is under way.
    AlreadyRecording,
    /// Nothing is being recorded.
    NotRecording,
    /// There is a file already where one is to be made.
    OutputExists,
    /// The origin lacks bytes of the disk: say what is to become of them.
    Dirty,
    /// Another cache may have bytes of the disk, or its own are not what they should be.
    Refused,
    /// Who asks shows nothing that proves them an operator, or something wrong.
    Unauthorized,
    /// Who asks may not do this here.
    Forbidden,
    /// Who asks has tried too often.
    TooMany,
    /// The daemon is about to end.
    Stopping,
    /// An operation failed.
    Failed,
}

impl ProblemKind {
    /// Every kind.
    pub const ALL: [Self; 20] = [
        Self::Invalid,
        Self::NoSuchDisk,
        Self::NoSuchCache,
        Self::NoSuchVm,
        Self::NoSuchPeer,
        Self::NoSuchPath,
        Self::AlreadyAttached,
        Self::Busy,
        Self::NotReady,
        Self::Origin,
        Self::AlreadyRecording,
        Self::NotRecording,
        Self::OutputExists,
        Self::Dirty,
        Self::Refused,
        Self::Unauthorized,
        Self::Forbidden,
        Self::TooMany,
        Self::Stopping,
        Self::Failed,
    ];

    /// Code and title.
    pub const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Invalid => ("invalid", "The request makes no sense"),
            Self::NoSuchDisk => ("no-such-disk", "There is no such disk"),
            Self::NoSuchCache => ("no-such-cache", "There is no such cache"),
            Self::NoSuchVm => ("no-such-vm", "There is no such VM or base image"),
            Self::NoSuchPeer => ("no-such-peer", "There is no such peer"),
            Self::NoSuchPath => ("no-such-path", "There is nothing at this path"),
            Self::AlreadyAttached => ("already-attached", "The disk is attached already"),
            Self::Busy => ("busy", "The disk is in use"),
            Self::NotReady => ("not-ready", "The disk is not attached yet"),
            Self::Origin => ("origin", "The origin cannot be used"),
            Self::AlreadyRecording => ("already-recording", "Another recording is under way"),
            Self::NotRecording => ("not-recording", "Nothing is being recorded"),
            Self::OutputExists => ("output-exists", "The file exists already"),
            Self::Dirty => ("dirty", "The origin lacks bytes of the disk"),
            Self::Refused => ("refused", "The disk cannot be used as it is"),
            Self::Unauthorized => ("unauthorized", "Only operators may do this"),
            Self::Forbidden => ("forbidden", "This may not be done here"),
            Self::TooMany => ("too-many", "Too many attempts have failed"),
            Self::Stopping => ("stopping", "The daemon is stopping"),
            Self::Failed => ("failed", "The operation failed"),
        }
    }

    /// The HTTP status.
    pub const fn status(self) -> StatusCode {
        match self {
            Self::Invalid => StatusCode::BAD_REQUEST,
            Self::NoSuchDisk
            | Self::NoSuchCache
            | Self::NoSuchVm
            | Self::NoSuchPeer
            | Self::NoSuchPath => StatusCode::NOT_FOUND,
            Self::AlreadyAttached
            | Self::Busy
            | Self::NotReady
            | Self::AlreadyRecording
            | Self::NotRecording
            | Self::OutputExists
            | Self::Dirty
            | Self::Refused => StatusCode::CONFLICT,
            Self::Origin => StatusCode::BAD_GATEWAY,
            Self::Unauthorized => StatusCode::UNAUTHORIZED,
            Self::Forbidden => StatusCode::FORBIDDEN,
            Self::TooMany => StatusCode::TOO_MANY_REQUESTS,
            Self::Stopping => StatusCode::SERVICE_UNAVAILABLE,
            Self::Failed => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// The URN that names the kind.
    pub fn urn(self) -> String {
        format!("urn:hearth:problem:{}", self.words().0)
    }
}

impl Problem {
    /// A problem of this kind.
    pub fn new(kind: ProblemKind, detail: impl Into<String>) -> Self {
        let (_, title) = kind.words();
        Self {
            kind: kind.urn(),
            title: title.to_owned(),
            status: kind.status().as_u16(),
            detail: detail.into(),
            remedy: None,
        }
    }

    /// There is no disk of this name.
    pub fn no_such_disk(name: &str) -> Self {
        Self::new(
            ProblemKind::NoSuchDisk,
            format!("there is no disk '{name}'"),
        )
        .with_remedy("hearth disk list")
    }

    /// There is no cache of this name.
    pub fn no_such_cache(name: &str) -> Self {
        Self::new(
            ProblemKind::NoSuchCache,
            format!("there is no cache '{name}'"),
        )
        .with_remedy("hearth status lists the caches")
    }

    /// There is no VM or base image of this name.
    pub fn no_such_vm(name: &str) -> Self {
        Self::new(
            ProblemKind::NoSuchVm,
            format!("there is no VM and no base image '{name}'"),
        )
        .with_remedy("hearth vm list")
    }

    /// Whether it is of this kind.
    pub fn is(&self, kind: ProblemKind) -> bool {
        self.kind == kind.urn()
    }

    /// What happened and what to do about it, in a line.
    pub fn in_a_line(&self) -> String {
        match &self.remedy {
            Some(remedy) => format!("{}; {remedy}", self.detail),
            None => self.detail.clone(),
        }
    }

    /// The same, with what to do about it.
    pub fn with_remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }
}
