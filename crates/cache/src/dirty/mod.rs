//! Bytes that only the flash has: the dirty logs.
//!
//! A disk under [`crate::WritePolicy::Back`] has a log of what its guest did, in the order in which
//! it was accepted. It is the truth for every block in it until the origin has that block durably.
//!
//! | part | what it is |
//! |---|---|
//! | [`log`] | records, intervals, watermark, what is newest: no bytes, no I/O |
//! | [`erased`] | ranges that read as zeroes |

pub(crate) mod erased;
pub(crate) mod log;
