//! `hearth move`: VMs on their way between the hosts of a cluster.

pub mod args;
mod render;

use crate::terminal::exit::{CliError, Exit};
use crate::terminal::{progress, shown};
use api::client::{Client, Method};
use api::cluster::{ClusterMove, ClusterMoves};
use args::{Move, Start};
use configuration::Name;
use serde_json::json;
use std::time::Duration;

/// How often `--wait` looks.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Does what was asked, and returns what to print.
pub(crate) async fn run(client: &Client, json: bool, what: &Move) -> Result<Vec<u8>, CliError> {
    let one = match what {
        Move::List => {
            let moves: ClusterMoves = client.get("/v1/cluster/moves").await?;
            return shown(json, &moves, render::list);
        }
        Move::Show(of) => client.get(&path(&of.vm)).await?,
        Move::Start(start) => started(client, start).await?,
        Move::Approve(of) => ordered(client, &of.vm, "approve").await?,
        Move::Cancel(of) => ordered(client, &of.vm, "cancel").await?,
        Move::Clear(of) => ordered(client, &of.vm, "clear").await?,
    };
    shown(json, &one, render::one)
}

fn path(vm: &Name) -> String {
    format!("/v1/cluster/moves/{vm}")
}

async fn ordered(client: &Client, vm: &Name, word: &str) -> Result<ClusterMove, CliError> {
    let path = format!("{}/{word}", path(vm));
    Ok(client.send::<(), _>(Method::POST, &path, None).await?)
}

async fn started(client: &Client, start: &Start) -> Result<ClusterMove, CliError> {
    let begun = begin(client, &start.vm, &start.to).await?;
    if !start.wait {
        return Ok(begun);
    }
    let message = format!("moving {} to {}", start.vm, start.to);
    let over = progress::waiting(message, until_over(client, &start.vm)).await?;
    if over.stage == "done" {
        return Ok(over);
    }
    let (vm, stage) = (&over.vm, &over.stage);
    let cause = over.cause.as_deref().unwrap_or("no cause is known");
    let error = CliError::new(
        Exit::Failed,
        format!("the move of {vm} is {stage}: {cause}"),
    );
    Err(error.with_remedy(format!("hearth move show {vm}")))
}

/// Has a move of a VM begun.
pub(crate) async fn begin(client: &Client, vm: &Name, to: &str) -> Result<ClusterMove, CliError> {
    let body = json!({ "to": to });
    Ok(client.send(Method::POST, &path(vm), Some(&body)).await?)
}

/// Waits until a VM's move is over.
pub(crate) async fn until_over(client: &Client, vm: &Name) -> Result<ClusterMove, CliError> {
    loop {
        let one: ClusterMove = client.get(&path(vm)).await?;
        if one.is_final {
            return Ok(one);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
