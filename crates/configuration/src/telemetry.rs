//! `[telemetry]`: traces of what operators and hosts do, for a collector.

use super::otlp_url::OtlpUrl;
use super::text::{Switch, Text};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// `[telemetry]`: where traces go. Metrics are another matter: Prometheus asks for them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TelemetryConfig {
    /// The collector, which takes OTLP over HTTP.
    pub otlp: Text<Switch<OtlpUrl>>,
    /// What this daemon is called there.
    pub service_name: String,
    /// The file with the headers that the collector wants.
    pub headers_file: Option<PathBuf>,
    /// Authorities that may have signed the collector's certificate, if not the system's.
    pub authority: Option<PathBuf>,
}

impl Default for TelemetryConfig {
    fn default() -> Self {
        Self {
            otlp: Text(Switch::Off),
            service_name: "hearth".to_owned(),
            headers_file: None,
            authority: None,
        }
    }
}
