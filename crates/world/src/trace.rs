//! What happened, one line an event, and a digest of all of it.

use units::Instant;

/// Lines that are kept when not all of them are wanted.
const LINES_KEPT: usize = 400;

/// The record of a run.
#[derive(Debug)]
pub(crate) struct Trace {
    lines: std::collections::VecDeque<String>,
    enabled: bool,
    all: bool,
    digest: u64,
}

impl Trace {
    /// An empty record. Lines are kept only if `enabled`, every one of them if `all`.
    pub(crate) fn new(enabled: bool, all: bool) -> Self {
        Self {
            lines: std::collections::VecDeque::new(),
            enabled,
            all,
            digest: 0xcbf2_9ce4_8422_2325,
        }
    }

    /// Adds an event: its numbers go into the digest, its text only into the lines.
    pub(crate) fn event(&mut self, now: Instant, numbers: &[u64], text: impl FnOnce() -> String) {
        for number in std::iter::once(&now.as_nanos()).chain(numbers) {
            self.digest = (self.digest ^ number)
                .wrapping_mul(0x0000_0100_0000_01b3)
                .rotate_left(23);
        }
        if self.enabled {
            let nanos = now.as_nanos();
            let (micros, rest) = (nanos / 1_000, nanos % 1_000);
            let text = text();
            self.lines
                .push_back(format!("{micros:>9}.{rest:03}us {text}"));
            if !self.all && self.lines.len() > LINES_KEPT {
                self.lines.pop_front();
            }
        }
    }

    /// One number for everything that happened.
    pub(crate) fn digest(&self) -> u64 {
        self.digest
    }

    /// The lines that were kept.
    pub(crate) fn into_lines(self) -> Vec<String> {
        self.lines.into()
    }
}
