//! The tables of dashboards, a file each.

mod host;
mod migrations;
mod vms;
mod wear;
mod write_back;

use crate::dashboard::Dashboard;

/// Every dashboard.
pub const DASHBOARDS: &[Dashboard] = &[
    host::DASHBOARD,
    vms::DASHBOARD,
    wear::DASHBOARD,
    write_back::DASHBOARD,
    migrations::DASHBOARD,
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names;
    use serde_json::Value;
    use std::collections::BTreeSet;

    #[test]
    fn each_model_is_json_whose_panels_have_ids_of_their_own() {
        let mut uids = BTreeSet::new();
        for dashboard in DASHBOARDS {
            let model: Value = serde_json::from_str(&dashboard.json()).unwrap();
            assert!(uids.insert(model["uid"].as_str().unwrap().to_owned()));
            let panels = model["panels"].as_array().unwrap();
            let ids: BTreeSet<u64> = panels
                .iter()
                .filter_map(|panel| panel["id"].as_u64())
                .collect();
            assert_eq!(ids.len(), panels.len(), "{}", dashboard.uid);
        }
    }

    #[test]
    fn each_row_fits_the_grid() {
        for row in DASHBOARDS.iter().flat_map(|dashboard| dashboard.rows) {
            assert!((1..=4).contains(&row.panels.len()), "{}", row.title);
            assert!(row.panels.iter().all(|panel| !panel.queries.is_empty()));
        }
    }

    #[test]
    fn each_metric_is_chosen_by_host_and_by_vm_if_vms_can_be_chosen() {
        for dashboard in DASHBOARDS {
            let wanted: &[&str] = if dashboard.chooses_vms {
                &["instance", "vm"]
            } else {
                &["instance"]
            };
            for query in dashboard.queries() {
                for selector in names(query.expression).selectors {
                    let has_all = wanted.iter().all(|label| selector.labels.contains(label));
                    assert!(has_all, "{}: {}", dashboard.uid, query.expression);
                }
            }
        }
    }
}
