//! Why a dirty log is kept from its origin.

/// Why a disk's bytes on flash cannot be brought to the origin without the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum LockReason {
    /// Bytes that were acknowledged as durable are not on flash, or are not what was written.
    #[error("bytes that were durable on flash are lost or damaged")]
    Damaged,
    /// The flash's metadata cannot be believed, so it is not known what the origin has already.
    #[error("it cannot be known which of its bytes the origin has already")]
    Unbelievable,
    /// The flash has failed, and bytes that the origin lacks could not be read from it.
    #[error("the flash has failed with bytes that the origin lacks")]
    FlashLost,
}
