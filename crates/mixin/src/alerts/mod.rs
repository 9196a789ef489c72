//! The tables of alerts, a file for each group.

mod cluster;
mod daemon;
mod drives;
mod flash;
mod moves;
mod origin;
mod write_back;

use crate::alert::Group;

/// Every group, in the order of the rules.
pub(crate) const GROUPS: &[Group] = &[
    daemon::GROUP,
    flash::GROUP,
    drives::GROUP,
    origin::GROUP,
    write_back::GROUP,
    moves::GROUP,
    cluster::GROUP,
];

#[cfg(test)]
mod tests {
    use crate::{alerts, names};
    use std::collections::BTreeSet;
    use std::path::Path;

    #[test]
    fn names_are_unique_and_begin_with_hearth() {
        let all: BTreeSet<&str> = alerts().map(|alert| alert.name).collect();
        assert_eq!(all.len(), alerts().count());
        assert!(all.iter().all(|name| name.starts_with("Hearth")));
    }

    #[test]
    fn each_alert_tests_the_metrics_of_its_expression() {
        for alert in alerts() {
            let named: BTreeSet<&str> = names(alert.expression)
                .selectors
                .iter()
                .map(|selector| selector.metric)
                .collect();
            let tested: BTreeSet<&str> = alert.samples.iter().map(|sample| sample.metric).collect();
            assert_eq!(named, tested, "{}", alert.name);
        }
    }

    #[test]
    fn summaries_name_only_labels_of_the_alert() {
        for alert in alerts() {
            for text in [alert.summary, alert.description] {
                assert!(!alert.filled(text).contains("{{"), "{}", alert.name);
            }
        }
    }

    /// The sections of the runbook: heading and text.
    fn sections(runbook: &str) -> Vec<(&str, &str)> {
        let sections = runbook.split("\n## ").skip(1);
        sections
            .filter_map(|section| section.split_once('\n'))
            .collect()
    }

    #[test]
    fn the_runbook_has_a_section_for_each_alert_and_no_other() {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../book/src/runbook.md");
        let runbook = std::fs::read_to_string(page).unwrap();
        let sections = sections(&runbook);
        let headings: Vec<&str> = sections.iter().map(|(heading, _)| *heading).collect();
        let alerts: Vec<&str> = alerts().map(|alert| alert.name).collect();
        assert_eq!(headings, alerts);
        for (heading, text) in sections {
            for part in ["**It means**", "```sh\n", "**Do**", "**It ends**"] {
                assert_eq!(text.matches(part).count(), 1, "{heading}: {part}");
            }
        }
    }
}
