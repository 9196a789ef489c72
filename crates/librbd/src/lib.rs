//! Ceph's block devices (RBD) by Ceph's own library, which is loaded when the first image is opened.
//!
//! ```text
//!  any thread:     Image::open ─► lock owners, watchers, lock ─► Image
//!  one thread:     image.start() ─► Running ─ read, write, flush ... ─► librbd's threads
//!                                      ▲                                     │
//!                                      └── ended ◄──────── eventfd ◄─────────┘
//! ```
//!
//! Opening, closing and locks block for as long as the cluster takes. What [`Running`] does never blocks; the library has no
//! time limit, so an operation may stay for ever.

mod address;
mod cluster;
mod error;
mod image;
mod library;
mod open;
mod running;

pub use address::Address;
pub use error::Error;
pub use image::{Image, Watcher};
pub use running::{Ended, Running, Zeroes};
