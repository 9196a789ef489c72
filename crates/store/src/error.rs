//! What a store answers instead.

use thiserror::Error;

/// Why a store did not answer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StoreError {
    /// It cannot be reached, or has nobody who decides. What was asked has not been done.
    #[error("the store cannot be reached: {0}")]
    Away(String),
    /// The answer was lost. What was asked may have been done: read again.
    #[error("the store's answer was lost, and the change may have been made: {0}")]
    Unknown(String),
    /// The store took it for an error of ours, or it would have.
    #[error("the store does not take this: {0}")]
    Invalid(String),
    /// It lets us not.
    #[error("the store refuses this host: {0}")]
    Forbidden(String),
    /// It has no room for more.
    #[error("the store is full: {0}")]
    Full(String),
    /// It holds what it cannot read.
    #[error("the store is damaged: {0}")]
    Damaged(String),
}

impl StoreError {
    /// What a person can do about it.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Away(_) | Self::Unknown(_) => {
                "see that the store runs, that this host reaches it, and that most of its members agree"
            }
            Self::Invalid(_) => "see that all hosts run the same release",
            Self::Forbidden(_) => {
                "see that the certificate or the user of [store] may read and write below its prefix"
            }
            Self::Full(_) => "compact and defragment etcd, or raise its --quota-backend-bytes",
            Self::Damaged(_) => {
                "put the file back from a copy, or remove it: hosts write anew what they know"
            }
        }
    }
}
