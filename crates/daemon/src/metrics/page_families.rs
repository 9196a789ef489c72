//! The metrics of changes through the page.

use super::encode::Number;
use super::family::{Family, Read, Series};
use crate::page_access::Denied;

/// Every one, in the order in which they are shown.
pub(super) const FAMILIES: &[Family] = &[Family {
    name: "page_denied_requests",
    unit: None,
    help: "Requests to change something through the page of `[web]` that were denied, by reason: no token, a wrong one, a change that is not open",
    labels: &["reason"],
    read: Read::Counter(|scrape, out| {
        for (reason, count) in Denied::REASONS.into_iter().zip(scrape.page_denied) {
            out.push(Series {
                labels: vec![("reason", reason)],
                value: Number::Whole(count),
            });
        }
    }),
}];
