//! What the kernel is asked where no safe wrapper exists: uses of files (fanotify), files by their handles, their
//! places on the disk (FIEMAP), signals as events.

pub(crate) mod extents;
pub(crate) mod handles;
pub(crate) mod signals;
pub(crate) mod uses;
