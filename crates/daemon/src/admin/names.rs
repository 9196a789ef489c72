//! The name in a path. A text that is no name names nothing, so it is answered like a name that nobody has.

use super::Refusal;
use api::problem::{Problem, ProblemKind};
use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use configuration::Name;

/// What a disk may be called.
pub(super) struct DiskName(pub(super) Name);

/// What a VM or a base image may be called.
pub(super) struct VmName(pub(super) Name);

/// What a cache may be called.
pub(super) struct CacheName(pub(super) Name);

impl<S: Send + Sync> FromRequestParts<S> for DiskName {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        name(parts, state, Problem::no_such_disk).await.map(Self)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for VmName {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        name(parts, state, Problem::no_such_vm).await.map(Self)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for CacheName {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        name(parts, state, Problem::no_such_cache).await.map(Self)
    }
}

async fn name<S: Send + Sync>(
    parts: &mut Parts,
    state: &S,
    unknown: fn(&str) -> Problem,
) -> Result<Name, Refusal> {
    let Path(text) = Path::<String>::from_request_parts(parts, state)
        .await
        .map_err(|error| Problem::new(ProblemKind::Invalid, error.body_text()))?;
    Ok(text.parse().map_err(|_| unknown(&text))?)
}
