//! A load that is interrupted still tells what it has measured.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// What a shell expects of a program that Ctrl-C has ended.
const INTERRUPTED: i32 = 130;

/// Whether somebody wants the load to end: SIGINT or SIGTERM.
#[derive(Clone, Debug, Default)]
pub(super) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Listens from now on, until the process ends. A second signal ends it at once: what is in
    /// flight may never be answered. Where signals cannot be had they end the process as usual.
    pub(super) fn listen() -> Self {
        let interrupt = Self::default();
        let flag = Arc::clone(&interrupt.0);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build();
        let Ok(runtime) = runtime else {
            return interrupt;
        };
        let signals = {
            let _within = runtime.enter();
            Signals::new()
        };
        if let Ok(mut signals) = signals {
            std::thread::spawn(move || {
                runtime.block_on(signals.next());
                flag.store(true, Ordering::Relaxed);
                runtime.block_on(signals.next());
                #[allow(clippy::exit, reason = "whoever asks twice does not want to wait")]
                std::process::exit(INTERRUPTED);
            });
        }
        interrupt
    }

    pub(super) fn came(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
