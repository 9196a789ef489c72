//! Reads a crate as its modules: the files that its `mod` items lead to, parsed, without tests.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use syn::punctuated::Punctuated;
use syn::{Attribute, Item, Meta, Token};

/// A module of a crate: a file, or `mod name { .. }` within one.
pub(crate) struct Module {
    /// Its names from the root of the crate, which has none.
    pub(crate) path: Vec<String>,
    /// The file it stands in, relative to the workspace.
    pub(crate) file: PathBuf,
    /// What stands in it, without tests and without modules.
    pub(crate) items: Vec<Item>,
}

/// All modules of the crate whose root is the file `entry`, the root first.
///
/// # Errors
///
/// When a file is missing or is not Rust.
pub(crate) fn modules(root: &Path, entry: &Path) -> anyhow::Result<Vec<Module>> {
    let folder = entry.parent().context("a crate's root lies in a folder")?;
    let mut reader = Reader {
        root,
        modules: Vec::new(),
    };
    reader.read_file(entry, folder, &[])?;
    Ok(reader.modules)
}

struct Reader<'a> {
    root: &'a Path,
    modules: Vec<Module>,
}

impl Reader<'_> {
    /// Reads the module `path` from `file`. The files of the modules below it lie in `folder`.
    fn read_file(&mut self, file: &Path, folder: &Path, path: &[String]) -> anyhow::Result<()> {
        let text = std::fs::read_to_string(self.root.join(file))
            .with_context(|| format!("reading {}", file.display()))?;
        let parsed =
            syn::parse_file(&text).with_context(|| format!("parsing {}", file.display()))?;
        self.read_items(parsed.items, file, folder, path)
    }

    fn read_items(
        &mut self,
        items: Vec<Item>,
        file: &Path,
        folder: &Path,
        path: &[String],
    ) -> anyhow::Result<()> {
        let place = self.modules.len();
        self.modules.push(Module {
            path: path.to_vec(),
            file: file.to_owned(),
            items: Vec::new(),
        });
        for item in items {
            if is_test(attributes(&item)) {
                continue;
            }
            let Item::Mod(module) = item else {
                self.modules[place].items.push(item);
                continue;
            };
            let name = module.ident.to_string();
            let below = [path, std::slice::from_ref(&name)].concat();
            let folder_below = folder.join(&name);
            if let Some((_, content)) = module.content {
                self.read_items(content, file, &folder_below, &below)?;
            } else {
                let file = file_of(self.root, folder, &name)?;
                self.read_file(&file, &folder_below, &below)?;
            }
        }
        Ok(())
    }
}

/// `name.rs`, or the older `name/mod.rs`.
fn file_of(root: &Path, folder: &Path, name: &str) -> anyhow::Result<PathBuf> {
    let candidates = [
        folder.join(format!("{name}.rs")),
        folder.join(name).join("mod.rs"),
    ];
    for file in candidates {
        if root.join(&file).is_file() {
            return Ok(file);
        }
    }
    bail!("module {name} has no file in {}", folder.display());
}

/// Whether only a build of tests has what carries these attributes.
pub(crate) fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("test")
            || (attribute.path().is_ident("cfg")
                && attribute
                    .parse_args::<Meta>()
                    .is_ok_and(|condition| needs_test(&condition)))
    })
}

/// `test`, or `all(..)` with it.
fn needs_test(condition: &Meta) -> bool {
    match condition {
        Meta::Path(path) => path.is_ident("test"),
        Meta::List(list) if list.path.is_ident("all") => list
            .parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated)
            .is_ok_and(|all| all.iter().any(needs_test)),
        Meta::List(_) | Meta::NameValue(_) => false,
    }
}

pub(super) fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::ForeignMod(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::TraitAlias(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_found_in_files_in_folders_and_within_files() {
        let root = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| {
            let path = root.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write(
            "src/lib.rs",
            "mod a; mod b; mod c { mod d; } #[cfg(test)] mod tests;",
        );
        write("src/a.rs", "mod e; fn f() {} #[cfg(test)] fn g() {}");
        write("src/a/e.rs", "");
        write("src/b/mod.rs", "");
        write("src/c/d.rs", "");

        let modules = modules(root.path(), Path::new("src/lib.rs")).unwrap();

        let paths: Vec<String> = modules
            .iter()
            .map(|module| module.path.join("::"))
            .collect();
        assert_eq!(paths, ["", "a", "a::e", "b", "c", "c::d"]);
        assert_eq!(modules[1].items.len(), 1);
        assert_eq!(modules[5].file, Path::new("src/c/d.rs"));
    }

    #[test]
    fn only_what_tests_alone_have_is_a_test() {
        let is = |text: &str| is_test(attributes(&syn::parse_str(text).unwrap()));
        assert!(is("#[cfg(test)] fn f() {}"));
        assert!(is("#[cfg(all(test, unix))] use a::b;"));
        assert!(is("#[test] fn f() {}"));
        assert!(!is("#[cfg(any(test, feature = \"mutants\"))] fn f() {}"));
        assert!(!is("#[cfg(not(test))] fn f() {}"));
    }
}
