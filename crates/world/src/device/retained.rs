//! Retained memory, which outlives the process and not the host's power: what was accepted and is not on
//! flash yet.

use cache::{LeftChunk, RetainedUpdate};
use std::collections::BTreeMap;

/// What is in it.
#[derive(Debug, Default)]
pub(crate) struct RetainedMemory(BTreeMap<u32, LeftChunk>);

impl RetainedMemory {
    /// Does what the cache says, at once.
    pub(crate) fn apply(&mut self, what: RetainedUpdate) {
        match what {
            RetainedUpdate::Begin { place, head } => {
                let chunk = LeftChunk {
                    head,
                    records: Vec::new(),
                    pages: Vec::new(),
                };
                self.0.insert(place, chunk);
            }
            RetainedUpdate::Push {
                place,
                record,
                page,
            } => {
                let chunk = self.0.get_mut(&place).expect("a chunk was begun there");
                chunk.records.push(record);
                if let Some((_, bytes)) = page {
                    chunk.pages.extend_from_slice(&bytes);
                }
            }
            RetainedUpdate::Clear { place } => {
                self.0.remove(&place);
            }
        }
    }

    /// The process has died while it told this: the record shows, and not all of its bytes.
    pub(crate) fn apply_half(&mut self, what: RetainedUpdate) {
        if let RetainedUpdate::Push {
            place,
            record,
            page: Some((_, bytes)),
        } = what
        {
            let chunk = self.0.get_mut(&place).expect("a chunk was begun there");
            chunk.records.push(record);
            let (written, missing) = bytes.split_at(bytes.len() / 2);
            chunk.pages.extend_from_slice(written);
            // Zeroes would be what some records have there.
            chunk.pages.extend(missing.iter().map(|byte| !byte));
        }
    }

    /// What a process that ended has left to the next one.
    pub(crate) fn left(&self) -> Vec<LeftChunk> {
        self.0.values().cloned().collect()
    }

    /// The host has lost its power.
    pub(crate) fn lose_power(&mut self) {
        self.0.clear();
    }
}
