//! What disks need of their origins, looked at without opening them for writing: files are there and as long as is said, and
//! each origin has one writer.

use super::flash_size::block_storage;
use configuration::{Config, DiskConfig, Fault, FileOrigin, OriginConfig, OriginPlace, identity};
use origin::{FileSpec, OpenError, OriginSpec};
use std::fs::Metadata;
use std::path::Path;
use units::errors::chain;
use units::{Bytes, Duration, SECTOR_BYTES};

/// How many origins are looked at side by side.
const LOOKS_AT_ONCE: usize = 256;
/// How long a look may take. A request may take longer, but whoever checks a configuration waits for all looks; a daemon
/// that is upgraded waits for 20 s altogether.
const LOOK_TIME_MAX: Duration = Duration::from_secs(5);

/// Where an origin is, and what is there if it is a file.
struct Look {
    place: OriginPlace,
    file: Option<Result<(Metadata, Bytes), String>>,
}

/// Origins that are missing, are of another size, do not answer, are this daemon's own, or have a second user that one of
/// them writes beside.
pub(super) fn faults(config: &Config) -> Vec<Fault> {
    let looks = looks(&config.disks);
    let mut faults = Vec::new();
    writers(config, &looks, &mut faults);
    files(config, looks, &mut faults);
    faults
}

/// Does `look`, which asks the file system of `path`: for no longer than a look may take.
///
/// # Errors
/// If the file system does not answer.
pub(super) fn within_time<T: Send + 'static>(
    path: &Path,
    look: impl FnOnce() -> T + Send + 'static,
) -> Result<T, OpenError> {
    let spec = FileSpec {
        request_timeout: LOOK_TIME_MAX,
        ..FileSpec::new(path.to_owned())
    };
    origin::within_time(&OriginSpec::File(spec), look)
}

/// Looks at the origins of all disks. A thread each, since a share whose server is gone holds whoever looks there.
fn looks(disks: &[DiskConfig]) -> Vec<Result<Look, OpenError>> {
    let mut looks = Vec::new();
    for some in disks.chunks(LOOKS_AT_ONCE) {
        std::thread::scope(|scope| {
            let looking = some.iter().map(|disk| scope.spawn(|| look(&disk.origin)));
            let looking: Vec<_> = looking.collect();
            let looked = looking.into_iter().map(|one| {
                one.join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            });
            looks.extend(looked);
        });
    }
    looks
}

fn look(origin: &OriginConfig) -> Result<Look, OpenError> {
    let OriginConfig::File(FileOrigin { file, .. }) = origin else {
        return Ok(Look {
            place: OriginPlace::of(origin),
            file: None,
        });
    };
    let (origin, path) = (origin.clone(), file.clone());
    within_time(file, move || Look {
        place: OriginPlace::of(&origin),
        file: Some(block_storage(&path).map_err(|error| format!("{}: {error}", path.display()))),
    })
}

fn files(config: &Config, looks: Vec<Result<Look, OpenError>>, faults: &mut Vec<Fault>) {
    let flash: Vec<(u64, u64)> = config
        .caches
        .iter()
        .filter_map(|cache| std::fs::metadata(&cache.path).ok())
        .map(|metadata| identity(&metadata))
        .collect();
    for (at, (disk, look)) in config.disks.iter().zip(looks).enumerate() {
        let key = format!("disk[{at}].origin.{}", disk.origin.kind());
        let waits = |error| format!("{}; the disk would wait for it", chain(&error));
        let (metadata, size) = match look.map_err(waits).map(|look| look.file).transpose() {
            None => continue,
            Some(Ok(Ok(found))) => found,
            Some(Ok(Err(message)) | Err(message)) => {
                faults.push(Fault::new(key, message));
                continue;
            }
        };
        if flash.contains(&identity(&metadata)) {
            faults.push(Fault::new(
                key.clone(),
                "is the flash of a cache; a disk's bytes would be overwritten",
            ));
        }
        faults.extend(size_fault(disk, size).map(|message| Fault::new(key, message)));
    }
}

/// Each origin is used by one disk that writes it, or by disks that only read; and none is an export
/// of this daemon.
fn writers(config: &Config, looks: &[Result<Look, OpenError>], faults: &mut Vec<Fault>) {
    let mut used: Vec<(&OriginPlace, bool, usize)> = Vec::new();
    for (at, (disk, look)) in config.disks.iter().zip(looks).enumerate() {
        // That a file system does not answer is said for each of its files.
        let Ok(Look { place, .. }) = look else {
            continue;
        };
        let read_only = disk.read_only || disk.shared;
        let key = format!("disk[{at}].origin");
        if place.is_served_by(&config.nbd) {
            let message = "is an export of this daemon; name the server that has the disk's bytes";
            faults.push(Fault::new(key.clone(), message));
        }
        let conflicts = |(other, reads, _): &&(&OriginPlace, bool, usize)| {
            other.is(place) && !(*reads && read_only)
        };
        if let Some((_, _, first)) = used.iter().find(conflicts) {
            let name = &config.disks[*first].name;
            let message = format!(
                "is the origin of disk[{first}], '{name}', too, and one of them writes it; a disk has one writer and no readers beside it"
            );
            faults.push(Fault::new(key, message));
        }
        used.push((place, read_only, at));
    }
}

fn size_fault(disk: &DiskConfig, found: Bytes) -> Option<String> {
    if found.is_zero() || !found.is_multiple_of(SECTOR_BYTES) {
        return Some(format!(
            "is {found} long, which is not a positive multiple of 512B"
        ));
    }
    match disk.size {
        Some(expected) if expected.0 != found => Some(format!(
            "is {found} long, the configuration says {}; correct size or remove it",
            expected.0
        )),
        _ => None,
    }
}
