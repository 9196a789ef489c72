//! How long the dirty log of a disk may be, beside those of the disks of its cache that have their place before it.

use super::registry::{Entry, Registry};
use super::shards::Shards;
use api::problem::ProblemKind;
use api::types::Problem;
use configuration::{Auto, DiskConfig, Name, WritePolicy, dirty_max};
use units::Bytes;

/// The length, with other settings than the disk has.
///
/// # Errors
/// If the disk is under write-back and its cache has no room for it.
pub(super) fn room_for_dirty(
    (registry, shards): (&Registry, &Shards),
    entry: &Entry,
    wanted: &DiskConfig,
) -> Result<Bytes, Problem> {
    let flash = shards.of(entry)?.flash();
    let own = wanted.write_back.dirty_max.0;
    let Some(flash) = flash.filter(|_| wanted.write_policy == WritePolicy::Back) else {
        return Ok(match own {
            Auto::Fixed(bytes) => bytes,
            Auto::Auto => cache::WriteBack::default().dirty_max,
        });
    };
    let others = registry.before(entry);
    // Who does not fit is not attached, and takes nothing from those behind it.
    let mut placed: Vec<(&Name, Auto<Bytes>)> = Vec::new();
    let backs = others.iter().filter(|other| {
        other.cache == entry.cache && other.config.write_policy == WritePolicy::Back
    });
    let backs = backs.map(|other| (&other.config.name, other.config.write_back.dirty_max.0));
    for (name, other) in backs {
        placed.push((name, other));
        if dirty_max(other, &entry.cache, flash.device, &placed).is_err() {
            placed.pop();
        }
    }
    placed.push((&wanted.name, own));
    dirty_max(own, &entry.cache, flash.device, &placed).map_err(|message| {
        let name = &wanted.name;
        Problem::new(ProblemKind::Invalid, message).with_remedy(format!(
            "less for it or others: hearth disk set {name} --dirty-max SIZE; or no write-back: hearth disk set {name} --write-policy through"
        ))
    })
}
