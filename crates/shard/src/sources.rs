//! Whose a source on the ring is.

use ring::SourceId;
use units::DiskSlot;

/// Who has to look when a source is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Handler {
    Nobody,
    Mailbox,
    Flash,
    Origin(DiskSlot),
    Client(usize),
}

/// The sources of a ring, by number.
#[derive(Debug, Default)]
pub(crate) struct Sources(Vec<Handler>);

impl Sources {
    /// Who handles a source from now on.
    pub(crate) fn set(&mut self, source: SourceId, handler: Handler) {
        if source.index() >= self.0.len() {
            self.0.resize(source.index() + 1, Handler::Nobody);
        }
        self.0[source.index()] = handler;
    }

    pub(crate) fn handler(&self, source: SourceId) -> Handler {
        self.0
            .get(source.index())
            .copied()
            .unwrap_or(Handler::Nobody)
    }
}
