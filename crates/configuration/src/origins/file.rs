//! An origin that is a file or a block device of this host.

use super::OriginConfig;
use super::keys::keys;
use super::times::Times;
use crate::fault::{Fault, absolute};
use crate::text::Text;
use crate::words::OriginFormat;
use serde::Serialize;
use std::path::PathBuf;
use units::Duration;
use utoipa::ToSchema;

/// A file or block device.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct FileOrigin {
    /// Which.
    #[schema(value_type = String)]
    pub file: PathBuf,
    /// Whether it is read and written around the host's page cache.
    #[schema(required = false)]
    pub direct: bool,
    /// Whether its bytes are the disk's although they look like an image of another format.
    #[schema(required = false)]
    pub format: OriginFormat,
    /// How long a request may take, and opening: a file whose server is gone would hold them for ever.
    #[schema(value_type = Option<String>, example = "1min")]
    pub request_timeout: Text<Duration>,
}

keys! {
    file: PathBuf,
    direct: bool,
    format: OriginFormat,
}

impl Keys {
    /// The origin, if it is of this kind.
    pub(super) fn origin(self, times: &Times) -> Option<FileOrigin> {
        let default = FileOrigin::new(self.file?);
        Some(FileOrigin {
            direct: self.direct.unwrap_or(default.direct),
            format: self.format.unwrap_or(default.format),
            request_timeout: times.request_timeout(default.request_timeout),
            ..default
        })
    }
}

impl FileOrigin {
    /// This file, with every default.
    pub fn new(file: PathBuf) -> Self {
        Self {
            file,
            direct: true,
            format: OriginFormat::default(),
            request_timeout: Text(Duration::from_secs(60)),
        }
    }

    pub(super) fn set_request_timeout(&mut self, time: Duration) {
        self.request_timeout = Text(time);
    }

    pub(super) fn canonical(&self) -> String {
        format!("file:{}", self.file.display())
    }

    pub(super) fn faults(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        absolute(&self.file, ".file", &mut faults);
        faults
    }
}

impl From<FileOrigin> for OriginConfig {
    fn from(origin: FileOrigin) -> Self {
        Self::File(origin)
    }
}
