//! Disks of the configuration and of the last run, and those whose lock was lost: each is tried again
//! until it is attached, gone, or the daemon stops.

use super::control::Control;
use super::registry::{Entry, Phase};
use super::without_back;
use api::problem::ProblemKind;
use api::types::Problem;
use events::EventKind;
use std::sync::Arc;
use std::time::Duration;

/// The first pause before an origin that could not be opened is tried again; each doubles.
const RETRY_PAUSE_MIN: Duration = Duration::from_millis(500);
/// The longest such pause.
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(15);

/// Attaches a reserved disk; if its origin cannot be opened it waits and is tried again. Ends when it
/// was tried once.
pub(super) async fn attach_at_start(control: Arc<Control>, entry: Entry) {
    control
        .tenancies()
        .tell_of(&entry.config, &entry.cache)
        .await;
    let mut told = None;
    if !try_once(&control, &entry, &mut told).await {
        go_on(control, entry, told);
    }
}

/// Tries again and again to attach a disk, or to bring it under write-back, that was `told` why it could not be.
pub(super) fn go_on(control: Arc<Control>, entry: Entry, mut told: Option<Problem>) {
    tokio::spawn(async move {
        let mut pause = RETRY_PAUSE_MIN;
        loop {
            let _ = tokio::time::timeout(pause, control.change()).await;
            if try_once(&control, &entry, &mut told).await {
                return;
            }
            pause = (pause * 2).min(RETRY_PAUSE_MAX);
        }
    });
}

/// Tries to attach a disk that is attaching or waiting. False: it has to be tried again. `told` is
/// why the last attempt failed.
async fn try_once(control: &Control, entry: &Entry, told: &mut Option<Problem>) -> bool {
    let name = &entry.config.name;
    let now = control.registry().get(name);
    let Some(now) = now.filter(|now| now.serial == entry.serial) else {
        return true;
    };
    match now.phase {
        _ if control.refuse_when_stopping().is_err() => return true,
        Phase::Attaching | Phase::Waiting { .. } => {}
        // If that fails it goes on waiting.
        Phase::Forgetting { .. } => return false,
        Phase::Attached { .. } if now.without_back.is_some() => {
            return without_back::try_again(control, &now).await;
        }
        Phase::Attached { .. } | Phase::Standby { .. } | Phase::Detaching { .. } => return true,
    }
    match without_back::attach(control, &now).await {
        Ok((phase, without_back)) => {
            let has_all = without_back.is_none();
            control.registry().update(entry, |entry| {
                entry.phase = phase;
                entry.without_back = without_back;
            });
            control.disk_sockets().settle_disk(name);
            has_all
        }
        Err(problem) => {
            let is_there = control.registry().wait(entry, problem.clone());
            // Told once for each reason, not for each attempt.
            if is_there && told.as_ref() != Some(&problem) {
                let reason = problem.in_a_line();
                if problem.is(ProblemKind::Origin) {
                    tracing::warn!(event = EventKind::DiskWaits.word(),
                        disk = %name, reason, "disk waits for its origin");
                } else {
                    tracing::warn!(event = EventKind::DiskWaits.word(),
                        disk = %name, reason, "disk is not attached, and tried again");
                }
                *told = Some(problem);
            }
            !is_there
        }
    }
}
