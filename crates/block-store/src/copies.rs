//! A view of the clean copies on flash: where they are, which are trusted, what their origins may lose.

use crate::chunks::Segments;
use crate::durability::Origins;
use crate::journal::Journal;
use crate::ports::Payload;
use crate::trust::Trust;

/// What it takes to trust a copy, or to distrust it.
pub(crate) struct Copies<'a, P: Payload> {
    pub(crate) segments: &'a mut Segments<P>,
    pub(crate) trust: &'a mut Trust,
    pub(crate) journal: &'a mut Journal,
    pub(crate) origins: &'a mut Origins,
}
