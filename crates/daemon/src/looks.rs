//! What the peer is asked about disks for an operator, and its answers.
//!
//! Invariants: a question has a number that no read of a disk has; what is asked on a session is answered on it, or
//! by its end.

use link_protocol::{DiskLook, NotServed};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// In the high half of the number of a question, where reads have the number of their disk.
const HALF: u64 = (u32::MAX as u64) << 32;

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoLook {
    /// No session stands, or it has ended.
    NotLinked,
    /// The peer does not list the disk among those that roam.
    Unknown,
    /// The peer cannot say yet.
    NotReady,
    /// Nothing came in time.
    Silent,
}

/// An answer, or why the peer has none.
pub(super) type Answer = Result<DiskLook, NoLook>;

#[derive(Default)]
struct Asked {
    count: u32,
    waiting: BTreeMap<u64, oneshot::Sender<Answer>>,
}

/// The questions that wait for their answers.
#[derive(Default)]
pub(super) struct Looks(Mutex<Asked>);

impl Looks {
    /// The number of a new question, and where its answer comes.
    pub(super) fn ask(&self) -> (u64, oneshot::Receiver<Answer>) {
        let mut asked = self.lock();
        asked.count = asked.count.wrapping_add(1);
        let number = HALF | u64::from(asked.count);
        let (sender, answer) = oneshot::channel();
        asked.waiting.insert(number, sender);
        (number, answer)
    }

    /// Whether a number is that of a question.
    pub(super) fn is_question(number: u64) -> bool {
        number & HALF == HALF
    }

    /// The peer has answered. An answer that nobody waits for is nobody's.
    pub(super) fn answered(&self, number: u64, look: DiskLook) {
        self.end(number, Ok(look));
    }

    /// The peer has no answer.
    pub(super) fn not_served(&self, number: u64, why: NotServed) {
        let why = match why {
            NotServed::Elsewhere => NoLook::Unknown,
            NotServed::Failed | NotServed::Range | NotServed::OtherImage => NoLook::NotReady,
        };
        self.end(number, Err(why));
    }

    /// The session has ended.
    pub(super) fn lost(&self) {
        self.lock().waiting.clear();
    }

    /// Nobody waits any more.
    pub(super) fn give_up(&self, number: u64) {
        self.lock().waiting.remove(&number);
    }

    fn end(&self, number: u64, answer: Answer) {
        let waiting = self.lock().waiting.remove(&number);
        if let Some(waiting) = waiting {
            // Who asked may have gone.
            let _ = waiting.send(answer);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Asked> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use link_protocol::DiskRole;

    #[test]
    fn each_question_has_its_own_answer_or_the_end_of_the_session() {
        let looks = Looks::default();
        let asked = [looks.ask(), looks.ask(), looks.ask()];
        let [(first, mut one), (second, mut two), (_, mut three)] = asked;
        assert!(Looks::is_question(first) && first != second);
        assert!(!Looks::is_question(7 << 32 | 1));
        let look = DiskLook {
            size: None,
            is_encrypted: false,
            role: DiskRole::Standby,
            holder: None,
            obstacles: Vec::new(),
            image: None,
            dirty: None,
        };
        looks.answered(second, look.clone());
        looks.not_served(first, NotServed::Elsewhere);
        looks.answered(first, look.clone());
        looks.lost();
        assert_eq!(two.try_recv(), Ok(Ok(look)));
        assert_eq!(one.try_recv(), Ok(Err(NoLook::Unknown)));
        assert!(three.try_recv().is_err());
    }
}
