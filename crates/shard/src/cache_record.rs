//! The record of a cache outside its flash, while the shard runs: written on threads of its own, and
//! waited for.
//!
//! ```text
//!   the cache ── Effect::Retire, Effect::Reinstate ──► thread ── file ──► message ──► the cache
//!                                                        └── no answer in time: it is told that it failed
//! ```

use crate::control::Message;
use crate::limits::RETIRE_TIME_MAX;
use crate::retirement::{Record, RecordFile};
use block_io::Token;
use events::EventKind;
use ring::Sender;
use units::Instant;

pub(crate) struct CacheRecord {
    /// What the log calls the cache.
    cache: String,
    /// To the shard, for the threads that write.
    sender: Sender<Message>,
    file: RecordFile,
    record: Record,
    asked: Option<Asked>,
}

/// What is written of an incarnation into the cache's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    /// It is not to be believed.
    Retired,
    /// It may be believed again.
    Reinstated,
}

impl Word {
    /// What is so until it is written.
    fn remains(self) -> &'static str {
        match self {
            Self::Retired => "writes to disks of this cache wait or fail until it can be written",
            Self::Reinstated => "the cache would start empty until it can be written",
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Asked {
    token: Token,
    word: Word,
    deadline: Instant,
}

/// What the cache waits for no longer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recorded {
    pub(crate) token: Token,
    pub(crate) word: Word,
    /// Whether it is durable.
    pub(crate) is_written: bool,
}

impl CacheRecord {
    /// The record with which the shard begins; it is in the file.
    pub(crate) fn new(
        cache: &str,
        record: Record,
        file: RecordFile,
        sender: Sender<Message>,
    ) -> Self {
        Self {
            cache: cache.to_owned(),
            sender,
            file,
            record,
            asked: None,
        }
    }

    /// Records that this incarnation is not to be believed, or may be again. What has ended already is
    /// said.
    pub(crate) fn write(
        &mut self,
        token: Token,
        word: Word,
        incarnation: u64,
        now: Instant,
    ) -> Option<Recorded> {
        self.record = match word {
            Word::Retired => self.record.without_flash(incarnation),
            Word::Reinstated => self.record.reinstated(incarnation),
        };
        let deadline = now + RETIRE_TIME_MAX;
        // What was asked before is not waited for any more.
        self.asked = Some(Asked {
            token,
            word,
            deadline,
        });
        let (record, file, sender) = (self.record, self.file.clone(), self.sender.clone());
        let thread = std::thread::Builder::new().name("record".to_owned());
        let spawned = thread.spawn(move || {
            let stored = file.store_in_order(record, token.0);
            if let Err(error) = &stored {
                tracing::error!(event = EventKind::RecordFailed.word(),
                    %error, "{}", word.remains());
            }
            let recorded = matches!(stored, Ok(true));
            // A shard that has ended needs no answer.
            let _ended = sender.send(Message::Recorded { token, recorded });
        });
        let error = spawned.err()?;
        tracing::error!(event = EventKind::RecordFailed.word(),
            %error, "no thread for the cache's record: {}", word.remains());
        self.ended(token, false)
    }

    /// The record is written, or cannot be. Nothing if nobody waits for it any more.
    pub(crate) fn ended(&mut self, token: Token, is_written: bool) -> Option<Recorded> {
        let asked = self.asked.take_if(|asked| asked.token == token)?;
        Some(Recorded {
            token,
            word: asked.word,
            is_written,
        })
    }

    /// The record, if it takes too long to write.
    pub(crate) fn take_late(&mut self, now: Instant) -> Option<Recorded> {
        let late = self.asked.filter(|asked| asked.deadline <= now)?;
        tracing::error!(
            event = EventKind::RecordFailed.word(),
            cache = self.cache,
            "the state directory does not answer: {}",
            late.word.remains()
        );
        self.ended(late.token, false)
    }

    /// When the record should have been written.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.asked.map(|asked| asked.deadline)
    }
}
