//! The cache state machine of a shard: request or completion in, effects out.
#![forbid(unsafe_code)]

mod api;
pub mod index;

pub use api::{
    Command, Config, ControlError, ControlId, ControlOutcome, DropReason, Effect, Reclaim, Request,
    RequestId, Verb, WritePolicy,
};
