//! The admin API's paths of disks that roam.

use super::names::DiskName;
use super::{Answer, Body, Shared, parse, to_the_end};
use crate::Control;
use crate::orders::{Obeyed, Order};
use api::problem::ProblemKind;
use api::roaming::{MigrationCheck, MoveSettings, RoamingDisk, RoamingDisks};
use api::types::Problem;
use axum::extract::{Query, State};
use axum::routing::{get, post};
use axum::{Json, Router};
use configuration::Name;
use serde::Deserialize;
use std::sync::Arc;
use telemetry::Parent;

/// The paths.
pub(super) fn routes() -> Router<Arc<Control>> {
    Router::new()
        .route("/v1/roaming", get(list_roaming))
        .route("/v1/roaming/{name}", get(show_roaming))
        .route("/v1/roaming/{name}/check", get(check_migration))
        .route("/v1/roaming/{name}/prepare", post(prepare_move))
        .route("/v1/roaming/{name}/abort", post(abort_move))
        .route("/v1/roaming/{name}/set", post(set_move))
        .route("/v1/roaming/{name}/take", post(take_over))
}

/// Every disk that roams, and the peers of this host.
#[utoipa::path(get, path = "/v1/roaming", responses((status = 200, description = "Every disk that roams", body = RoamingDisks)))]
pub(super) async fn list_roaming(State(control): Shared) -> Json<RoamingDisks> {
    Json(control.observer().roaming().await)
}

/// One disk that roams.
#[utoipa::path(get, path = "/v1/roaming/{name}", params(("name" = String, Path)), responses(
    (status = 200, description = "How the disk roams now", body = RoamingDisk),
    (status = 404, description = "No such disk", body = Problem),
    (status = 409, description = "The disk does not roam", body = Problem),
))]
pub(super) async fn show_roaming(
    State(control): Shared,
    DiskName(name): DiskName,
) -> Answer<RoamingDisk> {
    Ok(Json(control.observer().roaming_disk(&name).await?))
}

/// Where a VM is to go.
#[derive(Debug, Deserialize)]
pub(super) struct Destination {
    /// A peer.
    to: Option<String>,
}

/// Whether a disk, or all disks of a VM, could be handed over now. The peer is asked; nothing is changed.
#[utoipa::path(get, path = "/v1/roaming/{name}/check", params(
    ("name" = String, Path, description = "A disk or a VM"),
    ("to" = Option<String>, Query, description = "The peer that it would go to; this host unless given"),
), responses(
    (status = 200, description = "Whether it would be right, and what is in the way", body = MigrationCheck),
    (status = 404, description = "No such disk, VM or peer", body = Problem),
))]
pub(super) async fn check_migration(
    State(control): Shared,
    DiskName(name): DiskName,
    Query(Destination { to }): Query<Destination>,
) -> Answer<MigrationCheck> {
    Ok(Json(control.observer().check(&name, to.as_deref()).await?))
}

/// Tells the disks of a name what an operator says, and how they are then.
async fn order(
    control: Arc<Control>,
    name: Name,
    order: impl Fn(Obeyed) -> Order + Send + Sync + 'static,
) -> Answer<RoamingDisks> {
    let ordering = async move {
        control.refuse_when_stopping()?;
        let (entries, roaming) = control.observer().roam_all(&name)?;
        for entry in &entries {
            roaming.order(entry, &order).await?;
        }
        let mut all = control.observer().roaming().await;
        let ids: Vec<String> = entries.iter().map(|entry| entry.id.to_string()).collect();
        all.disks.retain(|disk| ids.contains(&disk.id));
        Ok(all)
    };
    to_the_end(ordering).await.map(Json)
}

/// Prepares both hosts for a move: what is dirty goes to the origin, and the cache is copied ahead. It ends when the
/// disk has come, by an abort, or after 10 min.
#[utoipa::path(post, path = "/v1/roaming/{name}/prepare", params(
    ("name" = String, Path, description = "A disk or a VM"),
    ("to" = Option<String>, Query, description = "The peer that it goes to; this host unless given"),
), responses(
    (status = 200, description = "The disks, which are prepared for", body = RoamingDisks),
    (status = 404, description = "No such disk, VM or peer", body = Problem),
    (status = 409, description = "A disk does not roam, is not where it would go from, or there is no session with the peer", body = Problem),
))]
pub(super) async fn prepare_move(
    State(control): Shared,
    DiskName(name): DiskName,
    Query(Destination { to }): Query<Destination>,
) -> Answer<RoamingDisks> {
    control.observer().knows_peer(to.as_deref())?;
    let above = Parent::here();
    order(control, name, move |reply| Order::Announce {
        to: to.clone(),
        above: above.clone(),
        reply,
    })
    .await
}

/// Ends what was prepared, on both hosts. Refused once it is decided that a disk moves.
#[utoipa::path(post, path = "/v1/roaming/{name}/abort", params(("name" = String, Path, description = "A disk or a VM")), responses(
    (status = 200, description = "The disks, which stay where they are", body = RoamingDisks),
    (status = 404, description = "No such disk or VM", body = Problem),
    (status = 409, description = "A disk does not roam, or it is decided that it moves", body = Problem),
))]
pub(super) async fn abort_move(
    State(control): Shared,
    DiskName(name): DiskName,
) -> Answer<RoamingDisks> {
    order(control, name, Order::Abort).await
}

/// Says how the cache of a disk comes to this host, until the daemon is started anew.
#[utoipa::path(post, path = "/v1/roaming/{name}/set", params(("name" = String, Path, description = "A disk or a VM")), request_body = MoveSettings, responses(
    (status = 200, description = "The disks", body = RoamingDisks),
    (status = 400, description = "No such strategy, or no rate", body = Problem),
    (status = 404, description = "No such disk or VM", body = Problem),
    (status = 409, description = "A disk does not roam", body = Problem),
))]
pub(super) async fn set_move(
    State(control): Shared,
    DiskName(name): DiskName,
    body: Body,
) -> Answer<RoamingDisks> {
    let settings: MoveSettings = parse(body)?;
    if let Some(why) = settings.fault() {
        return Err(Problem::new(ProblemKind::Invalid, why).into());
    }
    order(control, name, move |reply| {
        Order::Set(settings.clone(), reply)
    })
    .await
}

/// What an operator vouches for.
#[derive(Debug, Deserialize)]
pub(super) struct Vouched {
    #[serde(default)]
    yes_its_owner_is_dead: bool,
    #[serde(default)]
    lose_dirty: bool,
}

/// Takes the disks of a VM that roam over from an owner that is gone for good. Refused while that is there, has the origin locked, or may have
/// bytes that the origin lacks, unless those are given up.
#[utoipa::path(post, path = "/v1/roaming/{name}/take", params(
    ("name" = String, Path, description = "A VM, or a disk that is the only one of its VM"),
    ("yes_its_owner_is_dead" = bool, Query, description = "Has to be true: no other host serves the disk, or will with what it has"),
    ("lose_dirty" = Option<bool>, Query, description = "Whether bytes are given up that only the owner's flash has: the disk goes on as the origin has it"),
), responses(
    (status = 200, description = "The disk is here", body = RoamingDisk),
    (status = 400, description = "Nobody vouches for it that the owner is gone", body = Problem),
    (status = 404, description = "No such disk", body = Problem),
    (status = 409, description = "The disk does not roam, is here, or its owner is there or may have bytes that the origin lacks", body = Problem),
    (status = 502, description = "The origin is locked, or cannot be used", body = Problem),
))]
pub(super) async fn take_over(
    State(control): Shared,
    DiskName(name): DiskName,
    Query(vouched): Query<Vouched>,
) -> Answer<RoamingDisk> {
    if !vouched.yes_its_owner_is_dead {
        let detail = "whoever takes a disk over says that its owner is gone for good";
        let problem = Problem::new(ProblemKind::Invalid, detail);
        return Err(problem.with_remedy("yes_its_owner_is_dead=true").into());
    }
    let taking = async move {
        control.refuse_when_stopping()?;
        let (entry, roaming) = control.observer().taken_by(&name)?;
        roaming.take_over(&entry, vouched.lose_dirty).await?;
        control.observer().roaming_disk(&entry.config.name).await
    };
    to_the_end(taking).await.map(Json)
}
