//! A trace's requests, read ahead on a thread of its own: unpacking must hold up no request.

use super::Asked;
use crate::limits::REPLAY_BATCH;
use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError};

pub(super) type Batch = io::Result<Vec<Asked>>;

/// Reads all that there is, until nobody wants it any more.
pub(super) fn read(requests: impl Iterator<Item = io::Result<Asked>>, batches: &SyncSender<Batch>) {
    let mut batch = Vec::with_capacity(REPLAY_BATCH);
    for request in requests {
        match request {
            Ok(request) => batch.push(request),
            Err(error) => {
                // Those before the fault are replayed; a receiver that is gone wants neither.
                let _ = batches.send(Ok(batch));
                let _ = batches.send(Err(error));
                return;
            }
        }
        if batch.len() == REPLAY_BATCH {
            let full = std::mem::replace(&mut batch, Vec::with_capacity(REPLAY_BATCH));
            if batches.send(Ok(full)).is_err() {
                return;
            }
        }
    }
    let _ = batches.send(Ok(batch));
}

/// The next request, as far as it is known.
#[derive(Debug)]
pub(super) enum Next {
    Request(Asked),
    /// It is being read.
    NotYet,
    End,
    Failed(io::Error),
}

/// What was read and not taken yet.
pub(super) struct Feed {
    batches: Receiver<Batch>,
    ahead: VecDeque<Asked>,
}

impl Feed {
    pub(super) fn new(batches: Receiver<Batch>) -> Self {
        Self {
            batches,
            ahead: VecDeque::new(),
        }
    }

    /// Waits for the trace's beginning.
    pub(super) fn wait(&mut self) -> io::Result<()> {
        if let Ok(batch) = self.batches.recv() {
            self.ahead.extend(batch?);
        }
        Ok(())
    }

    pub(super) fn next(&mut self) -> Next {
        loop {
            if let Some(asked) = self.ahead.pop_front() {
                return Next::Request(asked);
            }
            match self.batches.try_recv() {
                Ok(Ok(batch)) => self.ahead.extend(batch),
                Ok(Err(error)) => return Next::Failed(error),
                Err(TryRecvError::Empty) => return Next::NotYet,
                Err(TryRecvError::Disconnected) => return Next::End,
            }
        }
    }
}
