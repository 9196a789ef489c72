//! A disk's identity and the canonical text of its origin.

use super::model::{DiskConfig, OriginConfig};
use super::uri::NbdUri;
use units::DiskId;

/// One text for an origin however it was spelled: `file:/path`, or the canonical NBD URI.
///
/// A malformed NBD address stands for itself; [`super::faults`] refuses it.
pub fn canonical_origin(origin: &OriginConfig) -> String {
    match (&origin.file, &origin.nbd) {
        (Some(file), _) => format!("file:{}", file.display()),
        (None, Some(nbd)) => nbd
            .parse::<NbdUri>()
            .map_or_else(|_| nbd.clone(), |uri| uri.to_string()),
        (None, None) => String::new(),
    }
}

/// The disk's id: the one it was given, or one made of its name and its canonical origin.
///
/// So a disk that is renamed, or moved to another origin, is another disk: its old blocks are
/// not served. To keep them over a rename, write the old id down as `id`.
pub fn disk_id(disk: &DiskConfig) -> DiskId {
    if let Some(id) = disk.id {
        return id.0;
    }
    let mut text = disk.name.as_str().as_bytes().to_vec();
    // A name holds no zero byte, so no other pair has the same concatenation.
    text.push(0);
    text.extend_from_slice(canonical_origin(&disk.origin).as_bytes());
    DiskId::from_u128(xxhash_rust::xxh3::xxh3_128(&text))
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    fn id(name: &str, origin: &str) -> DiskId {
        let text = format!(
            "[[cache]]\nname='c'\npath='/c'\n[[disk]]\nname='{name}'\norigin={{{origin}}}\n"
        );
        disk_id(&parse(&text).unwrap().disks[0])
    }

    #[test]
    fn the_default_id_never_changes_between_releases() {
        assert_eq!(
            id("web", "file='/images/web.raw'").to_string(),
            "47b85203caf81ce19caa7393b2f07573"
        );
    }

    #[test]
    fn spelling_does_not_matter_but_name_and_origin_do() {
        let base = id("web", "nbd='nbd://store:10809/web'");
        assert_eq!(id("web", "nbd='nbd://STORE/web'"), base);
        assert_ne!(id("web", "nbd='nbd://store/web2'"), base);
        assert_ne!(id("web2", "nbd='nbd://store/web'"), base);
    }
}
