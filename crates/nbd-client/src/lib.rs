//! An NBD client that outlives its server, without I/O: events and time in, effects out.
//!
//! ```text
//!   submit ──► Work ──► Link ──► Effect::Send      received, sent, broken, ended ──► Link ──► Work
//!   poll ◄──── Work                 (each connection has a Link)
//!
//!        Up ──a link is lost──► Draining (the other links) ──► Waiting ──due──► Dialling
//!        ▲                                                       ▲                │ │
//!        │                                                       └─ not_reached ──┘ │
//!        └───────────────────────────── dialled ────────────────────────────────────┘
//!                            shorter than it was ──► Other: everything fails; dialled again later
//! ```
//!
//! The connections of an export live and die together. When one is lost, the others get no new
//! requests, and once their answers are in (or they are lost too) all are made anew. Then what the
//! server may have forgotten is repeated (`unstable.rs`), then what was in flight (`work.rs` says
//! why that is safe). A guest notices nothing but the time it takes, unless it takes longer than
//! the request's time limit.
//!
//! Whoever drives a [`Client`] (`origin` over sockets, the test `world` over a modelled server)
//! hands it what happens on its streams, and after each call carries out
//! [`Client::next_effect`] until there is none.

#![forbid(unsafe_code)]

mod abilities;
mod client;
mod cut;
mod effect;
mod extents;
mod geometry;
#[cfg(feature = "mutants")]
pub mod guard;
#[cfg(not(feature = "mutants"))]
mod guard;
mod late;
mod limits;
mod link;
mod operation;
mod unstable;
mod work;

pub use client::{Client, Settings};
pub use effect::{Effect, LinkId, Report, SentChange};
pub use geometry::{Unfit, geometry};
pub use limits::SEND_SLICES;
