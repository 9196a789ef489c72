//! What Prometheus and Grafana are given: rules, their tests, dashboards.

/// Each file: its path in the source tree and its content.
pub(super) fn files() -> Vec<(String, String)> {
    let rules = [
        ("hearth.rules.yml", mixin::rules()),
        ("hearth.rules.test.yml", mixin::rule_tests()),
    ];
    let rules = rules
        .into_iter()
        .map(|(name, content)| (format!("packaging/prometheus/{name}"), content));
    let dashboards = mixin::DASHBOARDS.iter().map(|dashboard| {
        let path = format!("packaging/grafana/{}.json", dashboard.uid);
        (path, dashboard.json())
    });
    rules.chain(dashboards).collect()
}

#[cfg(test)]
mod tests {
    use crate::cli::args::Cli;
    use clap::Parser;
    use daemon::metrics::{Kind, families};
    use mixin::names;
    use std::collections::{BTreeMap, BTreeSet};
    use std::path::Path;

    /// Labels that Prometheus adds to what it scrapes.
    const SCRAPED: [&str; 2] = ["instance", "job"];

    /// Each name that a scrape can have, and its labels.
    fn exported() -> BTreeMap<String, BTreeSet<&'static str>> {
        let mut exported = BTreeMap::from([("up".to_owned(), BTreeSet::from(SCRAPED))]);
        for family in families() {
            let name = family.full_name();
            let labels: BTreeSet<&str> = family.labels.iter().copied().chain(SCRAPED).collect();
            if family.kind() == Kind::Histogram {
                exported.insert(format!("{name}_sum"), labels.clone());
                exported.insert(format!("{name}_count"), labels.clone());
                let of_buckets = labels.into_iter().chain(["le"]).collect();
                exported.insert(format!("{name}_bucket"), of_buckets);
            } else {
                exported.insert(name, labels);
            }
        }
        exported
    }

    /// What of an expression no scrape can have.
    fn unknown(expression: &str, exported: &BTreeMap<String, BTreeSet<&str>>) -> Vec<String> {
        let names = names(expression);
        let mut unknown = Vec::new();
        let mut all_labels: BTreeSet<&str> = BTreeSet::new();
        for selector in &names.selectors {
            let Some(labels) = exported.get(selector.metric) else {
                unknown.push(selector.metric.to_owned());
                continue;
            };
            all_labels.extend(labels.iter().copied());
            let strange = selector
                .labels
                .iter()
                .filter(|label| !labels.contains(*label));
            unknown.extend(strange.map(|label| format!("{}{{{label}}}", selector.metric)));
        }
        let strange = names
            .groupings
            .iter()
            .filter(|label| !all_labels.contains(*label));
        unknown.extend(strange.map(|label| (*label).to_owned()));
        unknown
    }

    #[test]
    fn a_metric_or_label_that_does_not_exist_is_found() {
        let exported = exported();
        let expression =
            "sum by (disc) (rate(hearth_nonsense_total[5m])) / hearth_disk_locked{cash=\"a\"}";
        let expected = ["hearth_nonsense_total", "hearth_disk_locked{cash}", "disc"];
        assert_eq!(unknown(expression, &exported), expected);
    }

    #[test]
    fn alerts_and_dashboards_name_only_metrics_and_labels_that_exist() {
        let exported = exported();
        let of_alerts = mixin::alerts().map(|alert| alert.expression);
        let panels = mixin::DASHBOARDS.iter().flat_map(mixin::Dashboard::queries);
        for expression in of_alerts.chain(panels.map(|query| query.expression)) {
            let unknown = unknown(expression, &exported);
            assert!(unknown.is_empty(), "{expression}: there is no {unknown:?}");
        }
    }

    #[test]
    fn commands_of_the_runbook_are_commands() {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../book/src/runbook.md");
        let runbook = std::fs::read_to_string(page).unwrap();
        let in_blocks = runbook.lines().filter(|line| line.starts_with("hearth "));
        let in_text = runbook.split('`').skip(1).step_by(2);
        let commands: Vec<&str> = in_blocks
            .chain(in_text.filter(|text| text.starts_with("hearth ")))
            .collect();
        assert!(commands.len() > 30, "{}", commands.len());
        for command in commands {
            let words = command
                .split('#')
                .next()
                .unwrap_or_default()
                .split_whitespace();
            let parsed = Cli::try_parse_from(words.clone());
            // A command without its arguments is a mention.
            let is_mention = parsed.as_ref().is_err_and(|error| {
                error.kind() == clap::error::ErrorKind::MissingRequiredArgument
            });
            assert!(parsed.is_ok() || is_mention, "{command}");
        }
    }
}
