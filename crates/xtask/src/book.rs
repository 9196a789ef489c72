//! What a reader of the book relies on: the summary names every page, links lead somewhere, a
//! decision record is short, and the page of dependencies has none that is gone.

use std::path::{Component, Path, PathBuf};

use crate::findings::Findings;
use crate::tree;

/// A record says what was decided, why, and what was refused: tables of runs lie in `benches/results`.
const RECORD_WORDS_MAX: usize = 1200;

/// Looks at every page of Markdown.
pub(crate) fn check(root: &Path, files: &[PathBuf], findings: &mut Findings) -> anyhow::Result<()> {
    check_summary(root, files, findings);
    check_dependencies(root, files, findings)?;
    for file in files.iter().filter(|file| is_page(file)) {
        let Some(text) = tree::text(root, file)? else {
            continue;
        };
        let name = file.display().to_string();
        if file.starts_with("book/src/decisions") {
            check_length(&name, &text, findings);
        }
        for link in links(&text) {
            if !leads_somewhere(root, file, &text, link)? {
                findings.add(name.clone(), format!("{link} leads nowhere"));
            }
        }
    }
    Ok(())
}

/// Every page that the book's summary names exists, and every page is named.
fn check_summary(root: &Path, files: &[PathBuf], findings: &mut Findings) {
    let Ok(summary) = std::fs::read_to_string(root.join("book/src/SUMMARY.md")) else {
        return;
    };
    let named: Vec<&str> = summary
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next())
        .collect();
    for page in &named {
        if !root
            .join("book/src")
            .join(page.trim_start_matches("./"))
            .is_file()
        {
            findings.add(
                "book/src/SUMMARY.md",
                format!("names {page}, which is not there"),
            );
        }
    }
    for file in files {
        let Ok(page) = file.strip_prefix("book/src") else {
            continue;
        };
        let is_page = page.extension().is_some_and(|extension| extension == "md");
        let page = page.display().to_string();
        if is_page
            && page != "SUMMARY.md"
            && !named
                .iter()
                .any(|name| name.trim_start_matches("./") == page)
        {
            findings.add(
                format!("book/src/{page}"),
                "is not in SUMMARY.md, so no reader finds it",
            );
        }
    }
}

fn is_page(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == "md")
}

fn check_length(name: &str, text: &str, findings: &mut Findings) {
    let words = text.split_whitespace().count();
    if words > RECORD_WORDS_MAX {
        findings.add(
            name,
            format!("{words} words, and a decision record has {RECORD_WORDS_MAX} at most"),
        );
    }
}

/// That every dependency has its line is checked with the layers.
fn check_dependencies(
    root: &Path,
    files: &[PathBuf],
    findings: &mut Findings,
) -> anyhow::Result<()> {
    let page = Path::new("book/src/dependencies.md");
    let Some(text) = tree::text(root, page)? else {
        return Ok(());
    };
    let mut manifests = String::new();
    for file in files.iter().filter(|file| file.ends_with("Cargo.toml")) {
        manifests += &tree::text(root, file)?.unwrap_or_default();
    }
    for name in gone(&text, &manifests) {
        findings.add(
            page.display().to_string(),
            format!("no crate depends on {name}"),
        );
    }
    Ok(())
}

/// The names in the page's first column that no manifest has.
fn gone<'a>(page: &'a str, manifests: &str) -> Vec<&'a str> {
    let is_there = |name: &str| {
        manifests
            .lines()
            .filter_map(|line| line.strip_prefix(name))
            .any(|rest| rest.starts_with([' ', '.', '=']))
    };
    page.lines()
        .filter_map(|line| line.strip_prefix("| ")?.split(" | ").next())
        // What stands in brackets is where it is used, or a feature.
        .filter_map(|cell| cell.split('(').next())
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .filter(|name| !is_there(name))
        .collect()
}

/// Lines outside of fenced blocks.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    text.split("```").step_by(2).flat_map(str::lines)
}

/// Links to files and headings of the tree.
fn links(text: &str) -> impl Iterator<Item = &str> {
    prose(text)
        .flat_map(|line| line.split("](").skip(1))
        .filter_map(|rest| rest.split(')').next())
        .filter(|link| !link.contains("://") && !link.contains(' ') && !link.is_empty())
}

fn leads_somewhere(root: &Path, from: &Path, text: &str, link: &str) -> anyhow::Result<bool> {
    let (path, heading) = link.split_once('#').unwrap_or((link, ""));
    if path.is_empty() {
        return Ok(has_heading(text, heading));
    }
    let target = resolved(&from.with_file_name("").join(path));
    if !root.join(&target).exists() {
        return Ok(false);
    }
    if heading.is_empty() || !is_page(&target) {
        return Ok(true);
    }
    let page = tree::text(root, &target)?;
    Ok(page.is_some_and(|page| has_heading(&page, heading)))
}

/// A path without `..`: what it leads out of need not be there.
fn resolved(path: &Path) -> PathBuf {
    let mut resolved = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                resolved.pop();
            }
            Component::CurDir => {}
            part => resolved.push(part),
        }
    }
    resolved
}

/// Whether the page has a heading that mdBook gives this anchor.
fn has_heading(text: &str, anchor: &str) -> bool {
    prose(text)
        .filter_map(|line| line.strip_prefix('#'))
        .any(|line| anchor_of(line.trim_start_matches('#').trim()) == anchor)
}

fn anchor_of(heading: &str) -> String {
    heading
        .chars()
        .filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'))
        .map(|letter| if letter == ' ' { '-' } else { letter })
        .flat_map(char::to_lowercase)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_leads_to_a_file_and_to_a_heading_of_it() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("book/decisions")).unwrap();
        let page = "# A\n\n## How fast is a `read hit`?\n\n```\n## not this\n[x](gone.md)\n```\n";
        std::fs::write(root.path().join("book/page.md"), page).unwrap();
        let from = Path::new("book/decisions/0001.md");
        for (link, leads) in [
            ("../page.md", true),
            ("../page.md#how-fast-is-a-read-hit", true),
            ("../page.md#not-this", false),
            ("page.md", false),
            ("#here", true),
            ("#there", false),
        ] {
            let found = leads_somewhere(root.path(), from, "## Here\n", link).unwrap();
            assert_eq!(found, leads, "{link}");
        }
        assert_eq!(links(page).count(), 0);
        assert_eq!(
            links("[a](b.md) and [c](https://d)").collect::<Vec<_>>(),
            ["b.md"]
        );
    }

    #[test]
    fn a_long_decision_record_is_found() {
        let mut findings = Findings::default();
        check_length("a.md", &"word ".repeat(1200), &mut findings);
        assert_eq!(findings.lines(), [] as [String; 0]);
        check_length("a.md", &"word ".repeat(1201), &mut findings);
        assert_eq!(
            findings.lines(),
            ["a.md: 1201 words, and a decision record has 1200 at most"]
        );
    }
    #[test]
    fn a_dependency_that_is_gone_is_found() {
        let page =
            "| crate | what for |\n|---|---|\n| `a-b`, `c` (with `d`) | e `f` |\n| `a` | |\n";
        assert_eq!(gone(page, "[dependencies]\na-b = \"1\"\n"), ["c", "a"]);
        assert!(gone(page, "a-b.workspace = true\nc = {}\na={}\n").is_empty());
    }
}
