//! Whose spans they are.

/// Whose spans they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// What the program is called.
    pub service: String,
    /// Its version.
    pub version: String,
    /// The host that it runs on.
    pub host: String,
}

impl Resource {
    /// By OpenTelemetry's conventions for resources.
    pub(crate) fn attributes(&self) -> impl Iterator<Item = (&'static str, &str)> {
        [
            ("service.name", self.service.as_str()),
            ("service.version", &self.version),
            ("host.name", &self.host),
        ]
        .into_iter()
    }
}
