//! Encryption of a disk's blocks on flash.
//!
//! ```text
//!  operator's key ──wraps──► data key of a disk ──► AES-256-XTS, a block the unit, its number the tweak
//!  file, credential,         random, made here,
//!  command                   wrapped in state_dir/keys/<disk>
//! ```
//!
//! - Each disk has a *data key* of its own, drawn from the system's dice when the disk is first
//!   attached with encryption. It is stored wrapped (RFC 3394) by the operator's key, so the
//!   operator's key can be changed without touching the flash, and a disk's blocks are gone for
//!   good when its wrapped key is ([`KeyStore::erase`]), whatever is left on the flash.
//! - A block is encrypted by its number on its disk, not by its place on flash (IEEE 1619): what
//!   reclaim moves is moved as it lies.
//! - XTS hides contents; it does not authenticate them. What was changed on flash is found by the
//!   checksum unless it was changed with care: the flash is trusted not to be forged while the
//!   daemon runs, only not to be read by whoever gets hold of it.
//!
//! Nothing here is on the path of a disk without a key.

#![forbid(unsafe_code)]

mod cipher;
mod hex;
mod source;
mod store;

pub use cipher::{DataKey, XtsCipher};
pub use source::{COMMAND_TIME_MAX, KeySource, SourceError};
pub use store::{KeyStore, StoreError, WrappingKey};
