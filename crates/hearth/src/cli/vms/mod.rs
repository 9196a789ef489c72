//! `hearth vm`: what each VM has of the flash, and setting it.

pub mod args;
mod curve;
mod guest;
mod render;

pub(super) use render::budget;

use super::args::Global;
use super::run::show;
use crate::terminal::exit::CliError;
use crate::terminal::output::json;
use crate::terminal::progress;
use api::client::Method;
use api::client::{Client, ClientError};
use api::problem::ProblemKind;
use api::vms::{ImageStatus, VmStatus, Vms};
use args::{Set, Vm};
use configuration::Name;

/// Does what was asked and returns what to print.
pub(super) async fn run(client: &Client, global: &Global, vm: &Vm) -> Result<Vec<u8>, CliError> {
    match vm {
        Vm::List => {
            let vms: Vms = client.get("/v1/vms").await?;
            show(global, &vms, render::list)
        }
        Vm::Show { name } => match client.get::<VmStatus>(&path(name, "")).await {
            Ok(vm) => show(global, &vm, render::vm),
            Err(ClientError::Refused(problem)) if problem.is(ProblemKind::NoSuchVm) => {
                let image: ImageStatus = client.get(&format!("/v1/images/{name}")).await?;
                show(global, &image, render::image)
            }
            Err(error) => Err(error.into()),
        },
        Vm::Set(set) => {
            let vm =
                progress::waiting(format!("changing {}", set.name), change(client, set)).await?;
            show(global, &vm, render::set)
        }
    }
}

fn path(name: &Name, rest: &str) -> String {
    format!("/v1/vms/{name}{rest}")
}

async fn change(client: &Client, set: &Set) -> Result<VmStatus, CliError> {
    if set.reset {
        let nothing = None::<&()>;
        let path = path(&set.name, "/settings");
        return Ok(client.send(Method::DELETE, &path, nothing).await?);
    }
    let images: Vec<Name> = if set.image.is_empty() && set.remove_image.is_empty() {
        Vec::new()
    } else {
        match client.get::<VmStatus>(&path(&set.name, "")).await {
            Ok(vm) => vm.images.into_iter().map(|used| used.image).collect(),
            // It has its settings before its first disk.
            Err(ClientError::Refused(problem)) if problem.is(ProblemKind::NoSuchVm) => Vec::new(),
            Err(error) => return Err(error.into()),
        }
    };
    let body = json(&set.change(&images))?;
    let query = if set.new { "?new=true" } else { "" };
    let path = path(&set.name, query);
    Ok(client.send(Method::PATCH, &path, Some(&body)).await?)
}
