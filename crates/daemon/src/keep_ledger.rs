//! The task that notes what was written to flash, for the last day's sums.

use super::control::Control;
use super::ledger::STEP;
use std::sync::Arc;

/// Notes it every [`STEP`], for as long as the daemon runs.
pub(super) async fn keep_ledger(control: Arc<Control>) {
    loop {
        control.observer().note_written().await;
        tokio::time::sleep(STEP).await;
    }
}
