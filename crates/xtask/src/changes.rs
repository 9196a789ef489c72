//! Which files changed since a revision, and which packages and tests that concerns.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};
use serde_json::Value;

use crate::{git, scenarios};

/// Where one's own changes begin if no revision is given: the first of these that exists.
const BASES: [&str; 3] = ["main@{upstream}", "origin/main", "main"];

/// The package of the end-to-end tests.
pub(crate) const END_TO_END: &str = "e2e";

/// What changed.
pub(crate) struct Changes {
    /// The commit that the tree was compared with.
    pub(crate) base: String,
    /// Files that were changed, added or deleted, committed or not.
    pub(crate) files: Vec<String>,
}

/// A package of the workspace.
pub(crate) struct Package {
    pub(crate) name: String,
    /// Its folder from the root, with a slash at the end.
    folder: String,
    /// Packages that it depends on, for its tests too.
    needs: BTreeSet<String>,
}

/// What is to be checked after changes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Concerned {
    /// Packages that changed, and those that depend on them directly; the end-to-end tests may be among them.
    pub(crate) packages: BTreeSet<String>,
    /// End-to-end tests that changed themselves.
    pub(crate) end_to_end: BTreeSet<String>,
    /// Files that concern every package.
    pub(crate) everywhere: Vec<String>,
}

/// The changes since the common ancestor of `HEAD` and `revision`; without one, of the branch `main`.
///
/// # Errors
///
/// When git fails, or does not know the revision.
pub(crate) fn since(root: &Path, revision: Option<&str>) -> anyhow::Result<Changes> {
    let known = |name: &&str| git::text(root, &["rev-parse", "--verify", "--quiet", name]).is_ok();
    let revision = revision
        .or_else(|| BASES.into_iter().find(known))
        .unwrap_or("HEAD");
    let base = git::text(root, &["merge-base", revision, "HEAD"])?
        .trim()
        .to_owned();
    let changed = git::text(root, &["diff", "--name-only", "--no-renames", "-z", &base])?;
    let added = git::text(root, &["ls-files", "--others", "--exclude-standard", "-z"])?;
    let files = changed.split('\0').chain(added.split('\0'));
    let files = files.filter(|file| !file.is_empty()).map(str::to_owned);
    Ok(Changes {
        base,
        files: files.collect(),
    })
}

/// The packages of the workspace.
///
/// # Errors
///
/// When cargo fails.
pub(crate) fn packages(root: &Path) -> anyhow::Result<Vec<Package>> {
    let mut command = Command::new("cargo");
    command.args(["metadata", "--no-deps", "--locked", "--format-version", "1"]);
    let output = command
        .current_dir(root)
        .output()
        .context("running cargo metadata")?;
    ensure!(
        output.status.success(),
        "cargo metadata: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let packages = metadata["packages"]
        .as_array()
        .context("cargo metadata lists no packages")?;
    packages
        .iter()
        .map(|package| read_package(root, package))
        .collect()
}

fn read_package(root: &Path, package: &Value) -> anyhow::Result<Package> {
    let text = |value: &Value| value.as_str().map(str::to_owned).context("cargo metadata");
    let manifest = text(&package["manifest_path"])?;
    let folder = Path::new(&manifest)
        .parent()
        .context("a manifest lies in a folder")?;
    let dependencies = package["dependencies"]
        .as_array()
        .context("cargo metadata")?;
    let needs = dependencies
        .iter()
        .map(|dependency| text(&dependency["name"]));
    Ok(Package {
        name: text(&package["name"])?,
        folder: format!("{}/", folder.strip_prefix(root)?.display()),
        needs: needs.collect::<Result<_, _>>()?,
    })
}

/// What the changed `files` concern. `readers` names the source files that read a file of no package.
pub(crate) fn concerned(
    packages: &[Package],
    files: &[String],
    readers: impl Fn(&str) -> Vec<String>,
) -> Concerned {
    let mut concerned = Concerned::default();
    let mut changed_inside = BTreeSet::new();
    for file in files {
        match package_of(packages, file) {
            Some(package) => {
                note(package, file, &mut concerned);
                // Others see a package's source, not its tests.
                if file.contains("/src/") || file.ends_with("/Cargo.toml") {
                    changed_inside.insert(&package.name);
                }
            }
            None if concerns_all(file) => concerned.everywhere.push(file.clone()),
            None => {
                for reader in readers(file) {
                    if let Some(package) = package_of(packages, &reader) {
                        note(package, &reader, &mut concerned);
                    }
                }
            }
        }
    }
    let depends = |package: &&Package| {
        changed_inside
            .iter()
            .any(|name| package.needs.contains(*name))
    };
    let dependents = packages.iter().filter(depends);
    concerned
        .packages
        .extend(dependents.map(|package| package.name.clone()));
    concerned
}

fn note(package: &Package, file: &str, concerned: &mut Concerned) {
    concerned.packages.insert(package.name.clone());
    let test = file
        .strip_prefix("tests/tests/")
        .and_then(|name| name.strip_suffix(".rs"));
    if package.name == END_TO_END && file != scenarios::PROGRAM {
        concerned.end_to_end.extend(test.map(str::to_owned));
    }
}

fn package_of<'a>(packages: &'a [Package], file: &str) -> Option<&'a Package> {
    packages
        .iter()
        .find(|package| file.starts_with(&package.folder))
}

fn concerns_all(file: &str) -> bool {
    let at_the_top = ["Cargo.toml", "Cargo.lock", "clippy.toml", "rustfmt.toml"];
    at_the_top.contains(&file)
        || [".cargo/", ".config/", "lints/pure/"]
            .iter()
            .any(|folder| file.starts_with(folder))
}

/// The source files with a string that ends in the path of `file`, or of its folder: a test reads it there.
pub(crate) fn readers(root: &Path, file: &str) -> Vec<String> {
    let mut paths = vec![format!("{file}\"")];
    if let Some((folder, _)) = file.rsplit_once('/')
        && folder.matches('/').count() >= 2
    {
        paths.push(format!("{folder}\""));
    }
    let mut arguments = vec!["grep", "--files-with-matches", "--fixed-strings"];
    arguments.extend(paths.iter().flat_map(|path| ["-e", path]));
    arguments.extend(["--", "*.rs"]);
    // Without a match git fails.
    let found = git::text(root, &arguments).unwrap_or_default();
    found.lines().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, folder: &str, needs: &[&str]) -> Package {
        Package {
            name: name.to_owned(),
            folder: folder.to_owned(),
            needs: needs.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    fn concerned_by(files: &[&str]) -> Concerned {
        let packages = [
            package("units", "crates/units/", &[]),
            package("cache", "crates/cache/", &["units"]),
            package("hearth", "crates/hearth/", &["cache"]),
            package(END_TO_END, "tests/", &[]),
        ];
        let files: Vec<String> = files.iter().map(|file| (*file).to_owned()).collect();
        concerned(&packages, &files, |file| match file {
            "book/src/metrics.md" => vec!["crates/hearth/tests/docs.rs".to_owned()],
            _ => Vec::new(),
        })
    }

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_package_and_those_that_depend_on_it_directly_are_concerned() {
        assert_eq!(
            concerned_by(&["crates/units/src/lib.rs"]).packages,
            names(&["units", "cache"])
        );
        assert_eq!(
            concerned_by(&["crates/cache/Cargo.toml"]).packages,
            names(&["cache", "hearth"])
        );
        assert_eq!(concerned_by(&["README.md"]), Concerned::default());
    }

    #[test]
    fn tests_concern_their_package_alone() {
        assert_eq!(
            concerned_by(&["crates/cache/tests/a.rs"]).packages,
            names(&["cache"])
        );
        let concerned = concerned_by(&["tests/tests/kill_amid.rs", "tests/src/lab.rs"]);
        assert_eq!(concerned.packages, names(&[END_TO_END]));
        assert_eq!(concerned.end_to_end, names(&["kill_amid"]));
    }

    #[test]
    fn a_page_concerns_the_package_whose_tests_read_it() {
        assert_eq!(
            concerned_by(&["book/src/metrics.md"]).packages,
            names(&["hearth"])
        );
    }

    #[test]
    fn what_concerns_every_package_is_named() {
        assert_eq!(concerned_by(&["Cargo.lock"]).everywhere, ["Cargo.lock"]);
    }

    #[test]
    fn committed_and_uncommitted_and_new_files_are_changes() {
        let root = tempfile::tempdir().unwrap();
        let write = |file: &str| std::fs::write(root.path().join(file), file).unwrap();
        let run = |arguments: &[&str]| git::as_somebody(root.path(), arguments);
        run(&["init", "--quiet", "--initial-branch", "main"]);
        for file in ["old", "changed", "deleted"] {
            write(file);
        }
        run(&["add", "."]);
        run(&["commit", "--quiet", "--message", "one"]);
        run(&["switch", "--quiet", "--create", "mine"]);
        write("committed");
        run(&["add", "."]);
        run(&["commit", "--quiet", "--message", "two"]);
        std::fs::write(root.path().join("changed"), "anew").unwrap();
        std::fs::remove_file(root.path().join("deleted")).unwrap();
        write("new");

        let files = |revision| since(root.path(), revision).unwrap().files;

        assert_eq!(files(None), ["changed", "committed", "deleted", "new"]);
        assert_eq!(files(Some("HEAD")), ["changed", "deleted", "new"]);
        assert!(since(root.path(), Some("nowhere")).is_err());
    }
}
