//! The book's page of the kinds of events.

use super::NOTICE;
use events::EventKind;
use std::fmt::Write;

pub(super) fn page() -> String {
    let mut page = format!("# Events\n\n{NOTICE}\n");
    page.push_str(
        "The kinds of events that `hearth events` shows, `GET /v1/events` answers and `hearth_events_total` counts. A\n\
         log line that is an event has the kind in its field `event`, in the journal `EVENT`. A word never changes its\n\
         meaning. How to look at events, and what to expect, is in [Operations](../operations.md#events).\n\n\
         | kind | meaning |\n|---|---|\n",
    );
    for kind in EventKind::ALL {
        writeln!(page, "| `{}` | {} |", kind.word(), kind.meaning())
            .expect("writing to a string does not fail");
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn sources(folder: &Path, text: &mut String) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                sources(&path, text);
            } else if path.extension().is_some_and(|kind| kind == "rs") {
                text.push_str(&std::fs::read_to_string(&path).unwrap());
            }
        }
    }

    #[test]
    fn each_kind_is_told_of_somewhere() {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut text = String::new();
        for name in ["daemon", "executor", "link", "origin", "shard"] {
            sources(&crates.join(name).join("src"), &mut text);
        }
        for kind in EventKind::ALL {
            let named = format!("EventKind::{kind:?}");
            let is_named = |after: &str| !after.starts_with(char::is_alphanumeric);
            let mut found = text.split(&named).skip(1);
            assert!(found.any(is_named), "{named}");
        }
    }
}
