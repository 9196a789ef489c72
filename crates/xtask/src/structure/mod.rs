//! `cargo xtask structure`: how large the types of each crate are, and how its modules hang together.
//!
//! A file of 400 lines is no small room when the methods of one type fill twenty of them, and two
//! modules are one if each needs the other. So this counts methods a type, fields that others can
//! reach, and circles among modules; `cargo xtask tidy` lets none of them grow ([`ratchet`]).

mod arrows;
mod imports;
pub(crate) mod ratchet;
mod report;
mod source;
mod types;

use std::path::{Path, PathBuf};

use anyhow::Context;
use toml::Table;

use self::arrows::Arrows;
use self::types::Measured;

/// A library or program of the workspace, measured.
pub(crate) struct Crate {
    /// The package's name; with the program's behind it if the package is a library, too.
    name: String,
    /// Modules, those within files and the root included.
    modules: usize,
    /// Those with most methods first.
    types: Vec<Measured>,
    arrows: Arrows,
    /// The largest first.
    circles: Vec<Vec<String>>,
}

impl Crate {
    /// Fields that the rest of the crate can reach.
    fn open_fields(&self) -> usize {
        self.types.iter().map(|measured| measured.open_fields).sum()
    }

    /// Those of types that change themselves: whoever reaches them can change the type past its methods.
    fn open_state(&self) -> usize {
        let states = self.types.iter().filter(|measured| measured.changes);
        states.map(|measured| measured.open_fields).sum()
    }

    /// Modules that lie in a circle.
    fn in_circles(&self) -> usize {
        self.circles.iter().map(Vec::len).sum()
    }
}

/// How the measurements are printed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// For people: the largest types of each crate.
    Table,
    /// For programs: everything.
    Json,
}

/// Measures the workspace and prints it.
///
/// # Errors
///
/// When a source file cannot be read.
pub(crate) fn run(root: &Path, format: Format) -> anyhow::Result<()> {
    let crates = measure(root)?;
    match format {
        Format::Table => print!("{}", report::table(&crates)),
        Format::Json => println!("{:#}", report::json(&crates)),
    }
    Ok(())
}

/// Measures each library and program of the workspace, in the order of their names.
///
/// # Errors
///
/// When a source file cannot be read.
pub(crate) fn measure(root: &Path) -> anyhow::Result<Vec<Crate>> {
    let mut crates = Vec::new();
    for folder in packages(root)? {
        let manifest = std::fs::read_to_string(root.join(&folder).join("Cargo.toml"))?;
        let manifest: Table = manifest.parse().context("Cargo.toml")?;
        let package = manifest.get("package").and_then(|table| table.get("name"));
        let package = package.and_then(|name| name.as_str());
        let package = package.with_context(|| format!("{} has no name", folder.display()))?;
        for (index, entry) in entries(root, &folder)?.iter().enumerate() {
            let program = entry.file_stem().unwrap_or_default().to_string_lossy();
            let name = match index {
                0 => package.to_owned(),
                _ => format!("{package}/{program}"),
            };
            crates.push(measure_crate(name, &source::modules(root, entry)?));
        }
    }
    Ok(crates)
}

fn measure_crate(name: String, modules: &[source::Module]) -> Crate {
    let arrows = arrows::arrows(modules);
    Crate {
        name,
        modules: modules.len(),
        types: types::measure(modules),
        circles: arrows::circles(&arrows),
        arrows,
    }
}

/// The folders of the workspace's packages, sorted.
fn packages(root: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut folders = vec![PathBuf::from("tests")];
    for folder in std::fs::read_dir(root.join("crates")).context("listing crates/")? {
        folders.push(Path::new("crates").join(folder?.file_name()));
    }
    folders.retain(|folder| root.join(folder).join("Cargo.toml").is_file());
    folders.sort();
    Ok(folders)
}

/// The files at which the crates of a package begin: its library first, then its programs.
fn entries(root: &Path, folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut entries = vec![folder.join("src/lib.rs"), folder.join("src/main.rs")];
    if let Ok(programs) = std::fs::read_dir(root.join(folder).join("src/bin")) {
        let mut names = Vec::new();
        for program in programs {
            names.push(folder.join("src/bin").join(program?.file_name()));
        }
        names.sort();
        entries.append(&mut names);
    }
    entries.retain(|entry| root.join(entry).is_file());
    Ok(entries)
}

/// Modules for tests: the path and the text of each.
#[cfg(test)]
fn fixture(modules: &[(&str, &str)]) -> Vec<source::Module> {
    let module = |(path, text): &(&str, &str)| source::Module {
        path: path
            .split("::")
            .filter(|name| !name.is_empty())
            .map(str::to_owned)
            .collect(),
        file: PathBuf::from(format!("src/{path}.rs")),
        items: syn::parse_file(text)
            .unwrap()
            .items
            .into_iter()
            .filter(|item| !source::is_test(source::attributes(item)))
            .collect(),
    };
    modules.iter().map(module).collect()
}
