//! What `hearth migrate show` shows: a disk, the disks of a VM, or a base image.

use super::render;
use crate::terminal::exit::{CliError, Exit};
use api::client::Client;
use api::roaming::{FollowingImage, RoamingDisk, RoamingDisks};
use configuration::Name;
use serde::Serialize;

/// What a name stands for.
pub(super) enum Shown {
    Disk(Box<RoamingDisk>),
    /// The disks of a VM that has several.
    Disks(RoamingDisks),
    Image(Box<FollowingImage>),
}

impl Shown {
    /// What a name stands for, as it is now.
    pub(super) async fn of(client: &Client, name: &Name) -> Result<Self, CliError> {
        let mut all: RoamingDisks = client.get("/v1/roaming").await?;
        if let Some(image) = all.images.iter().find(|image| image.name == *name) {
            return Ok(Self::Image(Box::new(image.clone())));
        }
        all.disks.retain(|disk| disk.vm == *name);
        all.images.clear();
        if all.disks.len() > 1 {
            return Ok(Self::Disks(all));
        }
        let disk = all.disks.first().map_or(name, |disk| &disk.name);
        let disk = client.get(&format!("/v1/roaming/{disk}")).await?;
        Ok(Self::Disk(Box::new(disk)))
    }

    /// In full.
    pub(super) fn picture(&self) -> Result<String, CliError> {
        let mut picture = String::new();
        let drawn = match self {
            Self::Disk(disk) => render::disk(&mut picture, disk),
            Self::Disks(disks) => render::disks(&mut picture, disks),
            Self::Image(image) => render::image(&mut picture, image),
        };
        drawn.map_err(|error| CliError::of(Exit::Failed, &error))?;
        Ok(picture)
    }

    /// What may change, in a line for each disk, and the same as an object.
    pub(super) fn lines(&self) -> Result<Vec<(String, String)>, CliError> {
        match self {
            Self::Disk(disk) => Ok(vec![(render::line(disk), object(disk)?)]),
            Self::Disks(all) => {
                let lines = all.disks.iter();
                lines
                    .map(|disk| Ok((render::line(disk), object(disk)?)))
                    .collect()
            }
            Self::Image(image) => Ok(vec![(render::image_line(image), object(image)?)]),
        }
    }
}

fn object(shown: &impl Serialize) -> Result<String, CliError> {
    serde_json::to_string(shown).map_err(|error| CliError::of(Exit::Failed, &error))
}
