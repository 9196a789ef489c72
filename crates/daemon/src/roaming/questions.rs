//! Questions about a disk that the other host has not answered yet.

use super::pulling::Contents;
use link_protocol::Frame;
use std::collections::BTreeMap;
use tokio::sync::oneshot;

/// Who waits for an answer.
pub(super) enum Waiting {
    /// A read, by the number that the shard gave it.
    Loan(u64),
    /// Who lists what the other host has.
    Contents(oneshot::Sender<Contents>),
    /// Who copies the cache ahead.
    Answer(oneshot::Sender<Frame>),
}

/// By their numbers.
#[derive(Default)]
pub(super) struct Questions(BTreeMap<u64, Waiting>);

impl Questions {
    /// A question is asked under this number, which no other has.
    pub(super) fn asked(&mut self, number: u64, waiting: Waiting) {
        self.0.insert(number, waiting);
    }

    /// Who waits for this answer, if anybody does.
    pub(super) fn answered(&mut self, number: u64) -> Option<Waiting> {
        self.0.remove(&number)
    }

    /// None is answered any more: who waits learns so.
    pub(super) fn end(&mut self) {
        self.0.clear();
    }
}
