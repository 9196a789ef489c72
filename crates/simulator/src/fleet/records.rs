//! Where the record of a move is kept: the answers of a store as events of a driver.

use placement::moving::{Event, Move};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use store::{
    Answer, Committed, Compare, Key, Memory, Revision, Store, StoreError, Versioned, Write,
};

/// Keeps records of moves.
pub(super) trait MoveStore {
    /// Reads a record for a host: [`Event::Record`] or [`Event::Away`].
    fn read(&self, host: &str, key: &Key) -> Event;

    /// Replaces a record if it has this revision; makes it if there is none and none is expected.
    fn commit(&self, host: &str, key: &Key, expected: Option<u64>, then: &Move) -> Event;
}

impl MoveStore for Memory {
    fn read(&self, host: &str, key: &Key) -> Event {
        let found = at_once(self.client(host).get(key));
        match found {
            Ok(Some(Versioned {
                value, revision, ..
            })) => Event::Record {
                revision: revision.0,
                record: serde_json::from_slice(&value).expect("records are written here alone"),
            },
            _ => Event::Away,
        }
    }

    fn commit(&self, host: &str, key: &Key, expected: Option<u64>, then: &Move) -> Event {
        let value = serde_json::to_vec(then).expect("a record is made of names and numbers");
        let when = match expected {
            Some(revision) => Compare::Unchanged(key.clone(), Revision(revision)),
            None => Compare::Absent(key.clone()),
        };
        let write = Write::put(key.clone(), value);
        match at_once(self.client(host).commit(&[when], &[write])) {
            Ok(Committed::Done(revision)) => Event::Committed(revision.0),
            Ok(Committed::Refused) => Event::Refused,
            Err(StoreError::Unknown(_)) => Event::Unknown,
            Err(_) => Event::Away,
        }
    }
}

/// The answer of a store in memory, which lets nobody wait.
fn at_once<T>(answer: Answer<'_, T>) -> Result<T, StoreError> {
    let mut answer = pin!(answer);
    match answer
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()))
    {
        Poll::Ready(answer) => answer,
        Poll::Pending => unreachable!("a store in memory answers at once"),
    }
}
