//! An alert: when it fires, whom it concerns, what to do, and how it is tested.

/// How soon somebody should look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Guests suffer, or bytes are at risk: now.
    Critical,
    /// It costs something, or comes before something worse: today.
    Warning,
    /// To know of.
    Info,
}

impl Severity {
    /// The value of the label `severity`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Critical => "critical",
            Self::Warning => "warning",
            Self::Info => "info",
        }
    }
}

/// Whom an alert concerns: the labels that it fires with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All hosts of a scrape job.
    Fleet,
    /// A host.
    Host,
    /// A cache of a host.
    Cache,
    /// A disk.
    Disk,
    /// A VM or a base image on a cache.
    Vm,
    /// A host that this one has a link to.
    Peer,
}

impl Scope {
    /// The labels of an alert in its tests.
    pub(crate) fn labels(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Fleet => &[("job", "hearth")],
            Self::Host => &[("instance", "host-1:9809"), ("job", "hearth")],
            Self::Cache => &[
                ("cache", "main"),
                ("instance", "host-1:9809"),
                ("job", "hearth"),
            ],
            Self::Disk => &[
                ("cache", "main"),
                ("disk", "web-1"),
                ("instance", "host-1:9809"),
                ("job", "hearth"),
                ("vm", "web"),
            ],
            Self::Vm => &[
                ("cache", "main"),
                ("instance", "host-1:9809"),
                ("job", "hearth"),
                ("kind", "vm"),
                ("vm", "web"),
            ],
            Self::Peer => &[
                ("instance", "host-1:9809"),
                ("job", "hearth"),
                ("peer", "host-2"),
            ],
        }
    }

    /// The labels of a series in the tests. A series is always one of a host.
    pub(crate) fn labels_of_series(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Fleet => Self::Host.labels(),
            _ => self.labels(),
        }
    }
}

/// The values of one series in the two tests of an alert, one a minute, as `promtool` writes them: `0+1x60` is 0, 1 to 60.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// The metric.
    pub metric: &'static str,
    /// Labels that the series has beside those of the alert's scope, as between braces; may be empty.
    pub labels: &'static str,
    /// Values with which the alert fires.
    pub firing: &'static str,
    /// Values with which it does not.
    pub quiet: &'static str,
}

/// An alert.
#[derive(Clone, Copy, Debug)]
pub struct Alert {
    /// Its name, and the heading of its section in the runbook.
    pub name: &'static str,
    /// When it fires, in `PromQL`.
    pub expression: &'static str,
    /// For how long the expression must hold, as Prometheus writes durations.
    pub hold: &'static str,
    /// How soon somebody should look.
    pub severity: Severity,
    /// Whom it concerns.
    pub scope: Scope,
    /// One line that says what is wrong; may name labels as `{{ $labels.disk }}`.
    pub summary: &'static str,
    /// What that means and what to do first.
    pub description: &'static str,
    /// Its tests' series.
    pub samples: &'static [Sample],
    /// When its tests look, from their beginning.
    pub tested_at: &'static str,
}

impl Alert {
    /// Where the runbook tells of it.
    pub fn runbook_url(&self) -> String {
        let anchor = self.name.to_ascii_lowercase();
        format!(
            "{}/book/runbook.html#{anchor}",
            env!("CARGO_PKG_REPOSITORY")
        )
    }

    /// Its summary and description as Prometheus fills them in the tests.
    pub(crate) fn filled(&self, text: &str) -> String {
        let labels = self.scope.labels().iter();
        labels.fold(text.to_owned(), |text, (label, value)| {
            text.replace(&format!("{{{{ $labels.{label} }}}}"), value)
        })
    }
}

/// Alerts about one thing: a group of Prometheus.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// Its name.
    pub name: &'static str,
    /// Its alerts.
    pub alerts: &'static [Alert],
}
