//! What runs beside the daemon's servers for as long as the daemon runs.

use super::control::Control;
use super::debts::settle_debts;
use super::history::History;
use super::lock_watch::Watch;
use super::lost_locks::watch_locks;
use super::registry::Entry;
use super::scrubs::keep_scrubbing;
use configuration::Config;
use std::sync::Arc;
use tokio::sync::mpsc::UnboundedReceiver;

/// Watches the locks of disks, tells the cluster's store what it has yet to be told, and keeps scrubs going.
pub(super) fn keep_watch(control: &Arc<Control>, new_locks: UnboundedReceiver<(Entry, Watch)>) {
    tokio::spawn(watch_locks(Arc::clone(control), new_locks));
    tokio::spawn(settle_debts(Arc::clone(control)));
    tokio::spawn(keep_scrubbing(Arc::clone(control)));
}

/// Begins to take points for the charts.
pub(super) fn keep_history(config: &Config, control: &Arc<Control>) -> Arc<History> {
    let history = Arc::new(History::new(&config.web));
    tokio::spawn(Arc::clone(&history).keep(Arc::clone(control)));
    history
}
