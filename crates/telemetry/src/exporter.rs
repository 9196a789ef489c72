//! From ended spans to the collector: a bounded queue, batches, and what is done when the collector is away.
//!
//! ```text
//!   Span ends ─► queue ──full──► dropped
//!                  │ gathered for BATCH_PAUSE
//!                  ▼
//!                batch ─► post ─ taken ─► delivered
//!                  ▲         ├─ may pass, fewer than TRIES_MAX ─┐
//!                  └─────────┼── pause, doubling ───────────────┘
//!                            └─ else ─► dropped
//! ```
//!
//! A line of the log says when spans stop reaching the collector, and one when they do again.

use crate::collector::{Collector, PostError};
use crate::ended::Ended;
use crate::limits::{
    BATCH_MAX, BATCH_PAUSE, FAREWELL_TIME_MAX, QUEUED_MAX, RETRY_PAUSE, TEXT_BYTES_MAX, TRIES_MAX,
};
use crate::otlp::{self, Rejected};
use crate::queue::{Counts, Inner, SpanCounts};
use crate::resource::Resource;
use crate::span::Tracer;
use std::io::{self, Read as _};
use std::sync::Arc;
use tokio::sync::mpsc::{Receiver, channel};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use units::Prng;
use units::errors::chain;

/// What sends spans to the collector.
pub struct Exporter {
    counts: Arc<Counts>,
    end: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Exporter {
    /// Where to read what has become of spans.
    pub fn counts(&self) -> impl Fn() -> SpanCounts + Clone + Send + Sync + 'static {
        let counts = Arc::clone(&self.counts);
        move || counts.now()
    }

    /// Sends what waits, once, and ends. Takes [`FAREWELL_TIME_MAX`] at most.
    pub async fn finish(self) {
        // One that has ended needs no word.
        let _ = self.end.send(());
        let abort = self.task.abort_handle();
        if tokio::time::timeout(FAREWELL_TIME_MAX, self.task)
            .await
            .is_err()
        {
            abort.abort();
        }
    }
}

/// Begins to send spans to a collector. To be called within a runtime of tokio.
///
/// # Errors
/// If the system gives no random bytes.
pub fn start(collector: Collector, resource: Resource) -> io::Result<(Tracer, Exporter)> {
    let mut seed = [0; 8];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut seed)?;
    let (queue, spans) = channel(QUEUED_MAX);
    let counts: Arc<Counts> = Arc::default();
    let dice = Prng::new(u64::from_le_bytes(seed));
    let inner = Inner::new(queue, Arc::clone(&counts), dice);
    let sending = Sending {
        collector,
        resource,
        counts: Arc::clone(&counts),
        is_away: false,
    };
    let (end, ends) = oneshot::channel();
    let task = tokio::spawn(sending.run(spans, ends));
    Ok((Tracer::of(Arc::new(inner)), Exporter { counts, end, task }))
}

struct Sending {
    collector: Collector,
    resource: Resource,
    counts: Arc<Counts>,
    /// Whether it was told that the collector does not take spans.
    is_away: bool,
}

impl Sending {
    async fn run(mut self, mut spans: Receiver<Ended>, mut ends: oneshot::Receiver<()>) {
        let mut batch = Vec::new();
        loop {
            tokio::select! {
                biased;
                _ = &mut ends => break,
                count = spans.recv_many(&mut batch, BATCH_MAX) => if count == 0 { break },
            }
            // More may come meanwhile.
            let is_ending = tokio::select! {
                biased;
                _ = &mut ends => true,
                () = tokio::time::sleep(BATCH_PAUSE) => false,
            };
            while batch.len() < BATCH_MAX
                && let Ok(span) = spans.try_recv()
            {
                batch.push(span);
            }
            if is_ending {
                break;
            }
            // What ends keeps the batch.
            tokio::select! {
                biased;
                _ = &mut ends => break,
                () = self.deliver(&batch) => batch.clear(),
            }
        }
        spans.close();
        loop {
            if !batch.is_empty() {
                let outcome = self.post(&batch).await;
                self.told(&batch, outcome);
                batch.clear();
            }
            while batch.len() < BATCH_MAX
                && let Ok(span) = spans.try_recv()
            {
                batch.push(span);
            }
            if batch.is_empty() {
                return;
            }
        }
    }

    /// Sends a batch until it is taken, will not be, or was tried often enough.
    async fn deliver(&mut self, batch: &[Ended]) {
        let mut pause = RETRY_PAUSE;
        for left in (0..TRIES_MAX).rev() {
            let outcome = self.post(batch).await;
            let is_over = match &outcome {
                Ok(_) => true,
                Err(error) => left == 0 || !error.may_pass(),
            };
            if is_over {
                return self.told(batch, outcome);
            }
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
    }

    async fn post(&self, batch: &[Ended]) -> Result<Option<Rejected>, PostError> {
        let bytes = otlp::request(&self.resource, batch);
        let answer = self.collector.post(bytes.into()).await?;
        Ok(otlp::rejected(&answer))
    }

    /// Counts what has become of a batch, and says so if that is new.
    fn told(&mut self, batch: &[Ended], outcome: Result<Option<Rejected>, PostError>) {
        let count = batch.len() as u64;
        match outcome {
            Ok(None) => {
                self.counts.deliver(count);
                self.reaches();
            }
            Ok(Some(Rejected { spans, why })) => {
                let lost = spans.min(count);
                self.counts.deliver(count - lost);
                self.counts.lose(lost);
                let remedy = "look at the collector's log: it has taken the request, and not all of its spans";
                let end = why.floor_char_boundary(TEXT_BYTES_MAX);
                let reason = format!("the collector rejects spans: {}", &why[..end]);
                self.fails(&reason, remedy);
            }
            Err(error) => {
                self.counts.lose(count);
                self.fails(&chain(&error), error.remedy());
            }
        }
    }

    fn reaches(&mut self) {
        if std::mem::take(&mut self.is_away) {
            let collector = &self.collector.authority;
            tracing::info!(collector, "traces reach the collector again");
        }
    }

    fn fails(&mut self, reason: &str, remedy: &str) {
        if !std::mem::replace(&mut self.is_away, true) {
            let collector = &self.collector.authority;
            tracing::warn!(
                collector,
                reason,
                remedy,
                "traces do not reach the collector, and are dropped"
            );
        }
    }
}

#[cfg(test)]
mod tests;
