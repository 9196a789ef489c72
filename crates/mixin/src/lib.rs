//! Alert rules for Prometheus and dashboards for Grafana: what their users call a *monitoring mixin*.
//!
//! ```text
//!   alerts/*      tables ──► rules.rs ─────► packaging/prometheus/hearth.rules.yml, hearth.rules.test.yml
//!   dashboards/*  tables ──► dashboard.rs ─► packaging/grafana/*.json
//!   names() of each expression ──► the program's tests compare them with the daemon's table of metrics
//! ```
//!
//! `hearth generate --root .` writes the files. Each alert has a section of its name in `book/src/runbook.md`.

#![forbid(unsafe_code)]

mod alert;
mod alerts;
mod dashboard;
mod dashboards;
mod expression;
mod rules;

pub use alert::{Alert, Group, Sample, Scope, Severity};
pub use dashboard::{Dashboard, Panel, Query, Row, Show};
pub use dashboards::DASHBOARDS;
pub use expression::{Names, Selector, names};
pub use rules::{rule_tests, rules};

/// Every alert, in the order of the rules.
pub fn alerts() -> impl Iterator<Item = &'static Alert> {
    alerts::GROUPS.iter().flat_map(|group| group.alerts)
}
