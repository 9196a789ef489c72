//! Where an origin has its record, if that goes where the origin goes: beside a file, wherever links lead.

use super::{SUFFIX, added};
use origin::OriginSpec;
use std::path::{Path, PathBuf};

/// Links from one to the next that Linux follows (`path_resolution(7)`).
const LINKS_MAX: usize = 40;
/// Where the record of an origin is that has a folder which goes where the origin goes.
pub(super) enum Beside {
    /// The origin is a file.
    File(PathBuf),
    /// Nothing is there at present. What comes back may be a file.
    Missing(PathBuf),
    /// The origin is no file.
    Nothing,
}

pub(super) fn beside(origin: &OriginSpec) -> Beside {
    let OriginSpec::File(file) = origin else {
        return Beside::Nothing;
    };
    // A link is not the file: two of them must not lead to two records, also while the file is missing.
    let path = followed(&file.path);
    match std::fs::metadata(&path) {
        Ok(metadata) if metadata.is_file() => Beside::File(added(&path, SUFFIX)),
        Ok(_) => Beside::Nothing,
        Err(_) => Beside::Missing(added(&path, SUFFIX)),
    }
}

/// Where links lead, also if nothing is there.
fn followed(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        let Ok(target) = std::fs::read_link(&path) else {
            break;
        };
        path = path.parent().unwrap_or(Path::new("")).join(target);
    }
    let (folder, name) = (path.parent(), path.file_name());
    match (folder.and_then(|folder| folder.canonicalize().ok()), name) {
        (Some(folder), Some(name)) => folder.join(name),
        _ => path,
    }
}
