//! The files of the page.

use std::borrow::Cow;
use xxhash_rust::xxh3::Xxh3;

/// A file, as a browser gets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asset {
    /// Its bytes.
    pub bytes: Cow<'static, [u8]>,
    /// What they are: a value of `Content-Type`.
    pub kind: &'static str,
    /// How long a browser may keep them: a value of `Cache-Control`.
    pub caching: &'static str,
}

const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const HTML: &str = "text/html; charset=utf-8";
const ICON: &str = "image/svg+xml";

macro_rules! files {
    ($($name:literal: $kind:expr,)*) => {
        /// Name, kind and bytes of each file.
        const FILES: &[(&str, &str, &[u8])] = &[
            $(($name, $kind, include_bytes!(concat!("../page/", $name))),)*
        ];
    };
}

files! {
    "main.js": SCRIPT,
    "data.js": SCRIPT,
    "format.js": SCRIPT,
    "parts.js": SCRIPT,
    "operator.js": SCRIPT,
    "change.js": SCRIPT,
    "chart.js": SCRIPT,
    "views/overview.js": SCRIPT,
    "views/host.js": SCRIPT,
    "views/drives.js": SCRIPT,
    "views/vms.js": SCRIPT,
    "views/vm.js": SCRIPT,
    "views/images.js": SCRIPT,
    "views/write-back.js": SCRIPT,
    "views/events.js": SCRIPT,
    "views/fleet.js": SCRIPT,
    "style.css": STYLE,
    "icon.svg": ICON,
    "vendor/htm-preact.js": SCRIPT,
    "vendor/uplot.js": SCRIPT,
    "vendor/uplot.css": STYLE,
}

const INDEX: &str = include_str!("../page/index.html");
/// What stands in the index for the folder of this release's files.
const FOLDER: &str = "{assets}";

/// The files of the page by their paths.
#[derive(Clone, Debug)]
pub struct Page {
    folder: String,
    index: Vec<u8>,
}

impl Default for Page {
    fn default() -> Self {
        let mut hash = Xxh3::new();
        for (name, _, bytes) in FILES {
            hash.update(name.as_bytes());
            hash.update(bytes);
        }
        let folder = format!("/assets/{:016x}", hash.digest());
        let index = INDEX.replace(FOLDER, &folder).into_bytes();
        Self { folder, index }
    }
}

impl Page {
    /// The file at a path of a URL; none if there is none.
    pub fn at(&self, path: &str) -> Option<Asset> {
        if path == "/" {
            return Some(Asset {
                bytes: Cow::Owned(self.index.clone()),
                kind: HTML,
                caching: super::ANEW,
            });
        }
        let name = path.strip_prefix(&self.folder)?.strip_prefix('/')?;
        let (_, kind, bytes) = FILES.iter().find(|(known, ..)| *known == name)?;
        Some(Asset {
            bytes: Cow::Borrowed(bytes),
            kind,
            caching: super::FOR_EVER,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sha2::{Digest, Sha256};

    /// Bytes of all files that a browser loads: a page that grows beyond is no longer small.
    const BYTES_MAX: usize = 150 << 10;

    fn text(name: &str) -> &'static str {
        let (.., bytes) = FILES.iter().find(|(known, ..)| *known == name).unwrap();
        std::str::from_utf8(bytes).unwrap()
    }

    #[test]
    fn the_page_is_small() {
        let bytes: usize = FILES.iter().map(|(.., bytes)| bytes.len()).sum();
        assert!(bytes + INDEX.len() <= BYTES_MAX, "{bytes}");
    }

    #[test]
    fn the_index_names_files_that_are_there_and_has_no_script_or_style_of_its_own() {
        let page = Page::default();
        let index = page.at("/").unwrap();
        let index = String::from_utf8(index.bytes.into_owned()).unwrap();
        let mut named = 0;
        for piece in index.split("=\"/").skip(1) {
            let (path, _) = piece.split_once('"').unwrap();
            assert!(page.at(&format!("/{path}")).is_some(), "{path}");
            named += 1;
        }
        assert!(named >= 4, "{index}");
        assert!(!index.contains("<style") && !index.contains("style="));
        assert!(index.matches("<script").count() == index.matches("></script>").count());
        assert_eq!(page.at("/assets/0/main.js"), None);
        assert_eq!(page.at("/main.js"), None);
    }

    #[test]
    fn modules_import_files_that_are_there() {
        for (name, ..) in FILES.iter().filter(|(_, kind, _)| *kind == SCRIPT) {
            if name.starts_with("vendor/") {
                continue;
            }
            let folder = name.rsplit_once('/').map_or("", |(folder, _)| folder);
            for line in text(name).lines().filter(|line| line.starts_with("import")) {
                let (_, path) = line.split_once("from \"").unwrap();
                let path = path.trim_end_matches("\";");
                let imported = match path.strip_prefix("../") {
                    Some(above) => above.to_owned(),
                    None if folder.is_empty() => path.replacen("./", "", 1),
                    None => format!("{folder}/{}", path.replacen("./", "", 1)),
                };
                assert!(
                    FILES.iter().any(|(known, ..)| *known == imported),
                    "{name} imports {path}"
                );
            }
        }
    }

    #[test]
    fn other_peoples_files_are_those_that_the_readme_names() {
        let readme = include_str!("../page/vendor/README.md");
        let vendored = FILES
            .iter()
            .filter(|(name, ..)| name.starts_with("vendor/"));
        for (name, _, bytes) in vendored {
            let digest = Sha256::digest(bytes);
            let digest = format!("{digest:x}");
            let file = name.trim_start_matches("vendor/");
            let is_listed = |line: &str| line.contains(file) && line.contains(&digest);
            assert!(readme.lines().any(is_listed), "{file} {digest}");
        }
    }
}
