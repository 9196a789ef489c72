//! Which module of a crate uses which, and where they do so in a circle.
//!
//! The nodes are the modules directly below the root, each with all that is in it, and the root
//! itself, called `crate`, for what is defined there. An arrow is a path in the source that leads from
//! one into another: `crate::flash::Flash`, `super::flash`, in a `use`, in code or in a macro's
//! arguments. A name that the root only passes on (`pub use flash::Flash`) leads to where it comes
//! from; passing it on is no use of it. Tests draw no arrows.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, ImplItemFn, Item, ItemUse, Macro, Visibility};

use super::imports::flatten;
use super::source::{Module, is_test};

/// The root of a crate among its modules.
pub(crate) const ROOT: &str = "crate";

/// From which module to which.
pub(crate) type Arrows = BTreeSet<(String, String)>;

/// The arrows between the modules of a crate.
pub(crate) fn arrows(modules: &[Module]) -> Arrows {
    let root = Root::new(modules);
    let mut arrows = Arrows::new();
    for module in modules {
        let from = module.path.first().map_or(ROOT, String::as_str);
        let mut paths = Paths {
            at_root: module.path.is_empty().then_some(&root),
            found: Vec::new(),
        };
        for item in &module.items {
            paths.visit_item(item);
        }
        for path in paths.found {
            if let Some(to) = root.leads_to(&module.path, &path)
                && to != from
            {
                arrows.insert((from.to_owned(), to));
            }
        }
    }
    arrows
}

/// The circles: groups of modules each of which reaches every other one of its group, the largest first.
pub(crate) fn circles(arrows: &Arrows) -> Vec<Vec<String>> {
    let mut nodes: BTreeSet<&str> = BTreeSet::new();
    for (from, to) in arrows {
        nodes.extend([from.as_str(), to.as_str()]);
    }
    let reached: BTreeMap<&str, BTreeSet<&str>> = nodes
        .iter()
        .map(|node| (*node, reachable(arrows, node)))
        .collect();
    let mut circles: BTreeSet<Vec<String>> = BTreeSet::new();
    for (node, others) in &reached {
        let mutual = others
            .iter()
            .filter(|other| reached[**other].contains(node));
        let circle: Vec<String> = mutual.map(|name| (*name).to_owned()).collect();
        if circle.len() > 1 {
            circles.insert(circle);
        }
    }
    let mut circles: Vec<Vec<String>> = circles.into_iter().collect();
    circles.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
    circles
}

/// Where one comes from `start` along one arrow or more.
fn reachable<'a>(arrows: &'a Arrows, start: &str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut ahead = vec![start];
    while let Some(node) = ahead.pop() {
        for (_, to) in arrows.iter().filter(|(from, _)| from == node) {
            if reached.insert(to.as_str()) {
                ahead.push(to);
            }
        }
    }
    reached
}

/// What the names at the root of a crate stand for.
struct Root {
    /// The modules below the root.
    modules: BTreeSet<String>,
    /// What the root brings by `use`, with the path of each.
    imports: BTreeMap<String, Vec<String>>,
    /// Paths of which the root brings everything.
    globs: Vec<Vec<String>>,
    /// Names that are defined in the modules, with the module.
    defined: BTreeMap<String, BTreeSet<String>>,
    /// Macros for the whole crate, with the module that defines each.
    macros: BTreeMap<String, String>,
}

impl Root {
    fn new(modules: &[Module]) -> Self {
        let mut root = Self {
            modules: modules
                .iter()
                .filter(|module| module.path.len() == 1)
                .map(|module| module.path[0].clone())
                .collect(),
            imports: BTreeMap::new(),
            globs: Vec::new(),
            defined: BTreeMap::new(),
            macros: BTreeMap::new(),
        };
        for module in modules {
            for item in &module.items {
                match module.path.first() {
                    Some(name) => root.note_definition(name, item),
                    None => root.note_import(item),
                }
            }
        }
        root
    }

    fn note_import(&mut self, item: &Item) {
        let Item::Use(item) = item else { return };
        for import in flatten(&item.tree) {
            let mut path = import.path;
            if path
                .first()
                .is_some_and(|first| first == "self" || first == ROOT)
            {
                path.remove(0);
            }
            if import.name == "*" {
                self.globs.push(path);
            } else {
                self.imports.insert(import.name, path);
            }
        }
    }

    fn note_definition(&mut self, module: &str, item: &Item) {
        let name = match item {
            Item::Const(item) => &item.ident,
            Item::Enum(item) => &item.ident,
            Item::Fn(item) => &item.sig.ident,
            Item::Static(item) => &item.ident,
            Item::Struct(item) => &item.ident,
            Item::Trait(item) => &item.ident,
            Item::Type(item) => &item.ident,
            Item::Union(item) => &item.ident,
            Item::Macro(item) => {
                if let Some(name) = &item.ident {
                    self.macros.insert(name.to_string(), module.to_owned());
                }
                return;
            }
            _ => return,
        };
        let modules = self.defined.entry(name.to_string()).or_default();
        modules.insert(module.to_owned());
    }

    /// The module, or the root, that `path` leads to when it stands in the module `here`; `None` if it
    /// leads out of the crate.
    fn leads_to(&self, here: &[String], path: &[String]) -> Option<String> {
        let mut base = match path.first()?.as_str() {
            ROOT => &[],
            _ => here,
        };
        let mut rest = path;
        while let [first, others @ ..] = rest {
            match first.as_str() {
                "super" => base = base.split_last().map_or(&[][..], |(_, parents)| parents),
                "self" | ROOT => {}
                _ => break,
            }
            rest = others;
        }
        match (base.first(), rest.first()) {
            (Some(module), _) => Some(module.clone()),
            (None, Some(name)) => self.stands_for(name),
            (None, None) => Some(ROOT.to_owned()),
        }
    }

    /// Where a name at the root comes from.
    fn stands_for(&self, name: &str) -> Option<String> {
        if self.modules.contains(name) {
            return Some(name.to_owned());
        }
        if let Some(path) = self.imports.get(name) {
            let first = path.first()?;
            return self.modules.contains(first).then(|| first.clone());
        }
        let by_glob = self.globs.iter().find_map(|path| {
            let module = path.first()?;
            self.defined.get(name)?.get(module).cloned()
        });
        let found = by_glob.or_else(|| self.macros.get(name).cloned());
        Some(found.unwrap_or_else(|| ROOT.to_owned()))
    }
}

/// Collects the paths that may lead to another module.
struct Paths<'a> {
    /// Set in the root, where a path may begin with a module's name.
    at_root: Option<&'a Root>,
    found: Vec<Vec<String>>,
}

impl Paths<'_> {
    fn add(&mut self, path: Vec<String>) {
        let Some(first) = path.first() else { return };
        let from_the_root = self
            .at_root
            .is_some_and(|root| root.modules.contains(first));
        if from_the_root || [ROOT, "super", "self"].contains(&first.as_str()) && path.len() > 1 {
            self.found.push(path);
        }
    }

    /// The paths among the arguments of a macro.
    fn add_tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        // How many colons have come since the last name; another mark is none.
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(name) => {
                    if colons != 2 {
                        self.add(std::mem::take(&mut path));
                    }
                    path.push(name.to_string());
                    colons = 0;
                }
                TokenTree::Punct(mark) if mark.as_char() == ':' => colons += 1,
                TokenTree::Punct(_) | TokenTree::Literal(_) => colons = 0,
                TokenTree::Group(group) => {
                    self.add_tokens(group.stream());
                    colons = 0;
                }
            }
        }
        self.add(path);
    }
}

impl<'ast> Visit<'ast> for Paths<'_> {
    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        if self.at_root.is_some() && !matches!(item.vis, Visibility::Inherited) {
            return;
        }
        for import in flatten(&item.tree) {
            let mut path = import.path;
            if import.name == "*" {
                // `use super::*` ends where it begins: at the parent.
                path.push("*".to_owned());
            }
            self.add(path);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments = path.segments.iter();
        self.add(segments.map(|segment| segment.ident.to_string()).collect());
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, invoked: &'ast Macro) {
        self.visit_path(&invoked.path);
        self.add_tokens(invoked.tokens.clone());
    }

    fn visit_impl_item_fn(&mut self, method: &'ast ImplItemFn) {
        if !is_test(&method.attrs) {
            visit::visit_impl_item_fn(self, method);
        }
    }

    // How far something is visible is no use of a module, and neither is an attribute.
    fn visit_visibility(&mut self, _: &'ast Visibility) {}
    fn visit_attribute(&mut self, _: &'ast Attribute) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::structure::fixture;

    fn drawn(modules: &[(&str, &str)]) -> Vec<String> {
        let arrows = arrows(&fixture(modules));
        let line = |(from, to): &(String, String)| format!("{from} -> {to}");
        arrows.iter().map(line).collect()
    }

    #[test]
    fn paths_in_imports_in_code_and_in_macros_are_arrows() {
        let found = drawn(&[
            ("", ""),
            (
                "a",
                "use crate::b::B; fn f() { super::c::f(); assert_eq!(1, crate::d::f(2), x: crate::f::F); }",
            ),
            (
                "a::below",
                "use super::super::e::{E, F}; use super::own; use crate::a::A;",
            ),
            ("b", ""),
            ("c", ""),
            (
                "d",
                "use std::fmt; use serde::de; struct S { s: crate::a::A }",
            ),
            (
                "e",
                "#[cfg(test)] use crate::a::A; impl A { #[cfg(test)] fn f() { crate::b::f() } }",
            ),
            ("f", ""),
        ]);
        assert_eq!(
            found,
            ["a -> b", "a -> c", "a -> d", "a -> e", "a -> f", "d -> a"]
        );
    }

    #[test]
    fn a_name_that_the_root_passes_on_leads_to_its_module() {
        let found = drawn(&[
            (
                "",
                "pub use b::B; pub use c::*; pub use units::Bytes; pub struct Own; fn f() { d::f() }",
            ),
            ("a", "use crate::{B, Bytes, C, Own};"),
            ("b", ""),
            ("c", "pub struct C;"),
            ("d", "use super::*;"),
        ]);
        assert_eq!(
            found,
            ["a -> b", "a -> c", "a -> crate", "crate -> d", "d -> crate"]
        );
    }

    #[test]
    fn circles_are_groups_of_which_each_reaches_each() {
        let arrows: Arrows = ["a b", "b c", "c a", "c d", "d e", "e d", "e f"]
            .iter()
            .filter_map(|arrow| arrow.split_once(' '))
            .map(|(from, to)| (from.to_owned(), to.to_owned()))
            .collect();
        assert_eq!(circles(&arrows), [vec!["a", "b", "c"], vec!["d", "e"]]);
        assert_eq!(circles(&Arrows::new()), Vec::<Vec<String>>::new());
    }
}
