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

    /// Who waits for what this frame answers, if anybody does. A question of the other host may have the number of one
    /// that is open here: it answers nothing.
    pub(super) fn answered(&mut self, frame: &Frame) -> Option<Waiting> {
        let is_answer = frame.message.is_answer();
        is_answer.then(|| self.0.remove(&frame.number)).flatten()
    }

    /// None is answered any more: who waits learns so.
    pub(super) fn end(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use link_protocol::Message;

    #[test]
    fn a_question_of_the_other_host_is_no_answer_to_one_with_its_number() {
        let mut questions = Questions::default();
        questions.asked(7, Waiting::Loan(1));
        let (disk, epoch) = (1, 1);
        let question = Message::AskStale { disk, epoch };
        assert!(questions.answered(&Frame::numbered(7, question)).is_none());
        let answer = Frame::numbered(7, Message::Bytes);
        let waiting = questions.answered(&answer);
        assert!(matches!(waiting, Some(Waiting::Loan(1))));
        assert!(questions.answered(&answer).is_none(), "it has one answer");
    }
}
