//! How large the types of a crate are: methods, files that they are spread over, fields that the
//! rest of the crate can reach.
//!
//! A method is a function in an `impl Type` block, wherever in the crate that stands; what a trait
//! asks for does not count, nor do tests. A field is open if it is `pub(crate)`, `pub(super)` or
//! `pub(in ..)`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use syn::{FnArg, ImplItem, Item, ReceiverKind, Type, Visibility};

use super::source::{Module, is_test};

/// A type of a crate, measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Measured {
    /// Its name; with the modules before it if the crate has several of that name.
    pub(crate) name: String,
    /// Functions in its own `impl` blocks.
    pub(crate) methods: usize,
    /// Files that have such a block.
    pub(crate) files: usize,
    /// Fields that are neither private nor `pub`.
    pub(crate) open_fields: usize,
    /// Whether a method changes it (`&mut self`): then its open fields can be changed past its methods.
    pub(crate) changes: bool,
}

#[derive(Default)]
struct Parts<'a> {
    methods: usize,
    files: BTreeSet<&'a Path>,
    open_fields: usize,
    changes: bool,
}

/// A type's module and name.
type Key = (Vec<String>, String);

/// Measures the types of a crate, those with most methods first.
pub(crate) fn measure(modules: &[Module]) -> Vec<Measured> {
    let mut types: BTreeMap<Key, Parts> = BTreeMap::new();
    let definitions = modules
        .iter()
        .flat_map(|module| module.items.iter().map(move |item| (module, item)));
    for (module, item) in definitions {
        if let Some((name, open_fields)) = definition(item) {
            let parts = types.entry((module.path.clone(), name)).or_default();
            parts.open_fields += open_fields;
        }
    }
    for module in modules {
        for item in &module.items {
            if let Item::Impl(block) = item
                && block.trait_.is_none()
                && let Some(written) = written_name(&block.self_ty)
            {
                let key = defining(&types, module, &written);
                count_methods(&block.items, module, types.entry(key).or_default());
            }
        }
    }
    named(types)
}

/// The name of the type that an item defines, and how many of its fields are open.
fn definition(item: &Item) -> Option<(String, usize)> {
    let (name, fields) = match item {
        Item::Struct(item) => (&item.ident, Some(&item.fields)),
        Item::Enum(item) => (&item.ident, None),
        Item::Union(item) => (&item.ident, None),
        _ => return None,
    };
    let open = fields.into_iter().flatten().filter(|field| {
        matches!(&field.vis, Visibility::Restricted(within) if !within.path.is_ident("self"))
    });
    Some((name.to_string(), open.count()))
}

/// The path by which an `impl` block names its type.
fn written_name(written: &Type) -> Option<Vec<String>> {
    let Type::Path(path) = written else {
        return None;
    };
    let segments = path.path.segments.iter();
    Some(segments.map(|segment| segment.ident.to_string()).collect())
}

/// Which type of the crate `written` means in `module`. Of several with the name it is the one that is
/// defined there, then the one that the path or an import names, then the nearest.
fn defining(types: &BTreeMap<Key, Parts>, module: &Module, written: &[String]) -> Key {
    let name = written.last().cloned().unwrap_or_default();
    let candidates: Vec<&Key> = types.keys().filter(|key| key.1 == name).collect();
    if let [only] = candidates.as_slice() {
        return (*only).clone();
    }
    let path = if written.len() > 1 {
        written.to_vec()
    } else {
        import_of(module, &name)
    };
    let parent = path
        .len()
        .checked_sub(2)
        .map(|parent| path[parent].as_str());
    let nearness = |key: &&&Key| {
        let here = key.0 == module.path;
        let named = parent.is_some_and(|parent| key.0.last().is_some_and(|last| last == parent));
        let shared = key.0.iter().zip(&module.path);
        (here, named, shared.take_while(|(a, b)| a == b).count())
    };
    let nearest = candidates.iter().max_by_key(nearness);
    nearest.map_or_else(|| (module.path.clone(), name), |key| (*key).clone())
}

/// The path by which `module` imports `name`; none if it does not.
fn import_of(module: &Module, name: &str) -> Vec<String> {
    let imports = module.items.iter().filter_map(|item| match item {
        Item::Use(item) => Some(super::imports::flatten(&item.tree)),
        _ => None,
    });
    let found = imports.flatten().find(|import| import.name == name);
    found.map(|import| import.path).unwrap_or_default()
}

fn count_methods<'a>(items: &[ImplItem], module: &'a Module, parts: &mut Parts<'a>) {
    for item in items {
        if let ImplItem::Fn(method) = item
            && !is_test(&method.attrs)
        {
            parts.methods += 1;
            parts.files.insert(&module.file);
            parts.changes |= matches!(
                method.sig.inputs.first(),
                Some(FnArg::Receiver(receiver)) if matches!(receiver.kind, ReceiverKind::Reference(_, _, Some(_)))
            );
        }
    }
}

fn named(types: BTreeMap<Key, Parts>) -> Vec<Measured> {
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    for (_, name) in types.keys() {
        *times.entry(name.clone()).or_default() += 1;
    }
    let mut measured: Vec<Measured> = types
        .into_iter()
        .map(|((path, name), parts)| Measured {
            name: if times[&name] == 1 || path.is_empty() {
                name
            } else {
                format!("{}::{name}", path.join("::"))
            },
            methods: parts.methods,
            files: parts.files.len(),
            open_fields: parts.open_fields,
            changes: parts.changes,
        })
        .collect();
    measured.sort_by(|a, b| b.methods.cmp(&a.methods).then_with(|| a.name.cmp(&b.name)));
    measured
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::structure::fixture;

    #[test]
    fn methods_of_all_blocks_count_those_of_traits_and_tests_do_not() {
        let modules = fixture(&[
            (
                "",
                "pub struct Cache<T> { index: T }
                 impl<T> Cache<T> { fn new() {} fn read(&self) {} #[cfg(test)] fn check(&self) {} }
                 impl<T> Drop for Cache<T> { fn drop(&mut self) {} }",
            ),
            (
                "write",
                "use crate::Cache; impl<T> Cache<T> { fn write(&mut self) {} }",
            ),
        ]);
        assert_eq!(
            measure(&modules),
            [Measured {
                name: "Cache".to_owned(),
                methods: 3,
                files: 2,
                open_fields: 0,
                changes: true,
            }]
        );
    }

    #[test]
    fn fields_are_open_if_the_crate_can_reach_them() {
        let modules = fixture(&[(
            "",
            "struct S { a: u8, pub b: u8, pub(crate) c: u8, pub(super) d: u8, pub(in crate::x) e: u8, pub(self) f: u8 }
             impl S { fn a(&self) {} }",
        )]);
        let measured = measure(&modules);
        assert_eq!(measured[0].open_fields, 3);
        assert!(!measured[0].changes, "no method of it takes &mut self");
    }

    #[test]
    fn types_of_one_name_are_told_apart() {
        let modules = fixture(&[
            ("lru", "pub struct Queue; impl Queue { fn a(&self) {} }"),
            (
                "arc",
                "pub struct Queue; impl Queue { fn a(&self) {} fn b(&self) {} }",
            ),
            (
                "extra",
                "use crate::arc::Queue; impl Queue { fn c(&self) {} }",
            ),
            ("more", "impl super::lru::Queue { fn c(&self) {} }"),
        ]);
        let counts: Vec<(String, usize)> = measure(&modules)
            .into_iter()
            .map(|measured| (measured.name, measured.methods))
            .collect();
        assert_eq!(
            counts,
            [("arc::Queue".to_owned(), 3), ("lru::Queue".to_owned(), 2)]
        );
    }
}
