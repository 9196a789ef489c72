//! Progress on standard error, for people, once something takes long.

use indicatif::{ProgressBar, ProgressStyle};
use std::future::Future;
use std::time::{Duration, Instant};

/// What takes longer than this shows that it is at work.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often a spinner turns.
const TICK: Duration = Duration::from_millis(120);

/// Waits for `work`; after [`PATIENCE`] a spinner tells what for. On anything but a terminal
/// nothing is shown.
pub(crate) async fn waiting<T>(message: String, work: impl Future<Output = T>) -> T {
    let mut work = std::pin::pin!(work);
    if let Ok(done) = tokio::time::timeout(PATIENCE, &mut work).await {
        return done;
    }
    let spinner = ProgressBar::new_spinner().with_message(message);
    spinner.enable_steady_tick(TICK);
    let done = work.await;
    spinner.finish_and_clear();
    done
}

/// How far a long piece of work has come.
pub(crate) struct Progress {
    message: &'static str,
    since: Instant,
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Work that begins now.
    pub(crate) fn new(message: &'static str) -> Self {
        Self {
            message,
            since: Instant::now(),
            bar: None,
        }
    }

    /// `done` of `total` bytes are done.
    pub(crate) fn at(&mut self, done: u64, total: u64) {
        if self.since.elapsed() < PATIENCE {
            return;
        }
        let message = self.message;
        let bar = self.bar.get_or_insert_with(|| {
            let style = ProgressStyle::with_template(
                "{msg} [{wide_bar}] {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec} {eta}",
            )
            .unwrap_or_else(|_| ProgressStyle::default_bar());
            ProgressBar::new(total)
                .with_style(style)
                .with_message(message)
        });
        bar.set_length(total);
        bar.set_position(done);
    }

    /// So many of a known number of something are done.
    pub(crate) fn part_of(&mut self, done: u64, total: u64, things: &str) {
        if self.since.elapsed() < PATIENCE {
            return;
        }
        let message = self.message;
        let bar = self.bar.get_or_insert_with(|| {
            let style = ProgressStyle::with_template(&format!(
                "{{msg}} [{{wide_bar}}] {{human_pos}}/{{human_len}} {things} {{per_sec}} {{eta}}"
            ))
            .unwrap_or_else(|_| ProgressStyle::default_bar());
            ProgressBar::new(total)
                .with_style(style)
                .with_message(message)
        });
        bar.set_length(total);
        bar.set_position(done);
    }

    /// That many blocks of an unknown number are done.
    pub(crate) fn count(&mut self, done: u64) {
        self.count_of(done, "blocks");
    }

    /// That many of an unknown number of something are done.
    pub(crate) fn count_of(&mut self, done: u64, things: &str) {
        if self.since.elapsed() < PATIENCE {
            return;
        }
        let message = self.message;
        let bar = self.bar.get_or_insert_with(|| {
            let style = ProgressStyle::with_template(&format!(
                "{{spinner}} {{msg}} {{human_pos}} {things}, {{per_sec}}"
            ))
            .unwrap_or_else(|_| ProgressStyle::default_spinner());
            ProgressBar::new_spinner()
                .with_style(style)
                .with_message(message)
        });
        bar.set_position(done);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
