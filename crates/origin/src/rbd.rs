//! An image of a Ceph cluster as an origin, through Ceph's own library.
//!
//! ```text
//!   submit ─► librbd's threads ═══ cluster
//!                  │ eventfd
//!   poll  ◄────────┘ on the shard's ring
//! ```
//!
//! A disk that is written has the image's exclusive lock, so no other client writes it, QEMU or another host's Hearth.
//! Whoever takes the lock away has the cluster refuse what this client sends from then on. See `lock`.
//!
//! The library waits for its cluster as long as that takes; [`Timed`](crate::timed::Timed) ends what takes too long.

mod clients;
mod image;
mod kind;
mod lock;
