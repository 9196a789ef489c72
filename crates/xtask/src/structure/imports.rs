//! `use` items as a list: one path for each name that they bring.

use syn::UseTree;

/// One name that a `use` item brings.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Import {
    /// Where it comes from, segment by segment; of `a::*` it is `a`.
    pub(crate) path: Vec<String>,
    /// What it is called here; `*` for everything.
    pub(crate) name: String,
}

/// The names that a `use` item brings, in their order.
pub(crate) fn flatten(tree: &UseTree) -> Vec<Import> {
    let mut imports = Vec::new();
    walk(tree, &mut Vec::new(), &mut imports);
    imports
}

fn walk(tree: &UseTree, prefix: &mut Vec<String>, imports: &mut Vec<Import>) {
    let mut bring = |last: Option<String>, name: String| {
        let mut path = prefix.clone();
        // `a::{self}` brings `a`.
        path.extend(last.filter(|last| last != "self" || prefix.is_empty()));
        let name = match path.last() {
            Some(itself) if name == "self" => itself.clone(),
            _ => name,
        };
        imports.push(Import { path, name });
    };
    match tree {
        UseTree::Path(tree) => {
            prefix.push(tree.ident.to_string());
            walk(&tree.tree, prefix, imports);
            prefix.pop();
        }
        UseTree::Name(tree) => bring(Some(tree.ident.to_string()), tree.ident.to_string()),
        UseTree::Rename(tree) => bring(Some(tree.ident.to_string()), tree.rename.to_string()),
        UseTree::Glob(_) => bring(None, "*".to_owned()),
        UseTree::Group(tree) => {
            for tree in &tree.items {
                walk(tree, prefix, imports);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_has_its_path() {
        let item: syn::ItemUse =
            syn::parse_str("use crate::{a::{self, B, C as D}, super_::*, E};").unwrap();
        let imports: Vec<String> = flatten(&item.tree)
            .iter()
            .map(|import| format!("{} = {}", import.name, import.path.join("::")))
            .collect();
        assert_eq!(
            imports,
            [
                "a = crate::a",
                "B = crate::a::B",
                "D = crate::a::C",
                "* = crate::super_",
                "E = crate::E",
            ]
        );
    }
}
