//! Reading the configuration again while the daemon runs.
//!
//! ```text
//!   files, variables ─► sound? ─┬─ no ──► refused: nothing changes
//!                               └─ yes ─► plan ─► steps, one by one ─┬─► applied
//!                                                                    ├─► refused, as a command would be
//!                                                                    └─► needs a restart
//! ```
//!
//! A step does what an operator's command would do, with the same checks, and becomes the file's word instead of a change over it.
//! What is refused or needs a restart stays a difference, and is told again by the next reload.

mod applying;
mod plan;

use super::control::Control;
use super::log::LogFilter;
use super::page_tls::PageTls;
use super::system::since_1970;
use api::problem::ProblemKind;
use api::reload::{Reload, ReloadChange, ReloadOutcome};
use api::types::Problem;
use configuration::Config;
use events::EventKind;
use plan::{Step, plan, taken};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// How the last attempt ended, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct ReloadFigures {
    /// Whether the configuration was sound.
    pub(crate) is_successful: bool,
    /// When a sound one was read last, in seconds since 1970.
    pub(crate) success_seconds: f64,
    /// How many differences were left.
    pub(crate) pending: u64,
}

/// What reads the configuration again.
pub(crate) struct Reloader {
    path: PathBuf,
    log: LogFilter,
    /// Whether the command line says what is logged, whatever the configuration says.
    is_log_given: bool,
    /// What the daemon runs with. Held for a whole reload, so that there is one at a time.
    running: tokio::sync::Mutex<Config>,
    figures: Mutex<ReloadFigures>,
    /// The page's certificate, which is a file that may change while its path stays.
    page: Option<Arc<PageTls>>,
}

impl Reloader {
    /// Of a daemon that was started with this configuration a moment ago.
    pub(crate) fn new(
        path: PathBuf,
        config: Config,
        (log, is_log_given): (LogFilter, bool),
    ) -> Self {
        let figures = ReloadFigures {
            is_successful: true,
            success_seconds: since_1970().as_secs_f64(),
            pending: 0,
        };
        Self {
            path,
            log,
            is_log_given,
            running: tokio::sync::Mutex::new(config),
            figures: Mutex::new(figures),
            page: None,
        }
    }

    /// The same, for a daemon whose page is served over TLS.
    pub(crate) fn with_page(self, page: Option<Arc<PageTls>>) -> Self {
        Self { page, ..self }
    }

    /// The page's TLS.
    pub(crate) fn page(&self) -> Option<Arc<PageTls>> {
        self.page.clone()
    }

    /// How the last attempt ended.
    pub(crate) fn figures(&self) -> ReloadFigures {
        // A panic elsewhere leaves the figures whole: they are replaced by one assignment.
        *self.figures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, note: impl FnOnce(&mut ReloadFigures)) {
        note(&mut self.figures.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Reads the configuration again and applies what can change without a restart; with `dry_run` it is only told
    /// what would come of it.
    ///
    /// # Errors
    /// If the configuration cannot be read or anything in it is wrong, or the daemon is stopping: then nothing is changed.
    pub(crate) async fn reload(
        &self,
        control: &Arc<Control>,
        dry_run: bool,
    ) -> Result<Reload, Problem> {
        control.refuse_when_stopping()?;
        let mut running = self.running.lock().await;
        let wanted = match self.read().await {
            Ok(wanted) => wanted,
            Err(problem) => {
                if !dry_run {
                    self.note(|figures| figures.is_successful = false);
                    tracing::error!(
                        event = EventKind::ReloadRefused.word(),
                        reason = problem.detail,
                        "the configuration is wrong: nothing was changed"
                    );
                }
                return Err(problem);
            }
        };
        let steps = plan(&running, &wanted);
        let mut reload = Reload {
            dry_run,
            changes: Vec::new(),
        };
        for step in steps {
            let change = self.take(control, &step, &wanted, dry_run).await;
            if change.outcome == ReloadOutcome::Applied && !dry_run {
                taken(&step, &mut running, &wanted);
            }
            reload.changes.push(change);
        }
        reload.changes.extend(self.certificate(dry_run).await);
        if !dry_run {
            self.tell(&reload);
        }
        Ok(reload)
    }

    async fn read(&self) -> Result<Config, Problem> {
        let path = self.path.clone();
        let reading = tokio::task::spawn_blocking(move || configuration::load(&path));
        let read = reading
            .await
            .map_err(|error| Problem::new(ProblemKind::Failed, error.to_string()))?;
        read.map_err(|error| {
            Problem::new(ProblemKind::Invalid, units::errors::chain(&error))
                .with_remedy("correct it; nothing was changed")
        })
    }

    /// Has the page's certificate read again. None if it is as before.
    async fn certificate(&self, dry_run: bool) -> Option<ReloadChange> {
        let page = self.page.clone()?;
        let read = tokio::task::spawn_blocking(move || page.reread(dry_run)).await;
        let (outcome, detail) = match read.ok()? {
            Ok(false) => return None,
            Ok(true) => (ReloadOutcome::Applied, "the files have changed".to_owned()),
            Err(error) => (ReloadOutcome::Refused, units::errors::chain(&error)),
        };
        Some(ReloadChange {
            key: "web.tls_certificate".to_owned(),
            outcome,
            detail: Some(detail),
        })
    }

    fn tell(&self, reload: &Reload) {
        let pending = reload.pending();
        self.note(|figures| {
            *figures = ReloadFigures {
                is_successful: true,
                success_seconds: since_1970().as_secs_f64(),
                pending: pending as u64,
            };
        });
        let applied = reload.changes.len() - pending;
        tracing::info!(
            event = EventKind::Reloaded.word(),
            applied,
            pending,
            "the configuration was read again"
        );
    }

    async fn take(
        &self,
        control: &Arc<Control>,
        step: &Step,
        wanted: &Config,
        dry_run: bool,
    ) -> ReloadChange {
        let key = step.key();
        let outcome = match step {
            Step::Restart(_) => {
                return ReloadChange {
                    key,
                    outcome: ReloadOutcome::NeedsRestart,
                    detail: None,
                };
            }
            Step::Log if self.is_log_given => Ok(Some(
                "what is logged stays what --log or HEARTH_LOG says".to_owned(),
            )),
            _ if dry_run => Ok(None),
            Step::Log => self.log.set(&wanted.daemon.log).map(|()| None),
            step => applying::apply(control, step, wanted).await,
        };
        match outcome {
            Ok(detail) => ReloadChange {
                key,
                outcome: ReloadOutcome::Applied,
                detail,
            },
            Err(problem) => ReloadChange {
                key,
                outcome: ReloadOutcome::Refused,
                detail: Some(problem.in_a_line()),
            },
        }
    }
}
