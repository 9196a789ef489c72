//! The metrics of events.

use super::encode::Number;
use super::family::{Family, Read, Series};
use events::EventKind;

/// Every one, in the order in which they are shown.
pub(super) const FAMILIES: &[Family] = &[Family {
    name: "events",
    unit: None,
    help: "Events of the daemon by kind, as `hearth events` shows them; the reference lists the kinds",
    labels: &["kind"],
    read: Read::Counter(|scrape, out| {
        for kind in EventKind::ALL {
            let count = scrape.events.get(kind).copied().unwrap_or(0);
            out.push(Series {
                labels: vec![("kind", kind.word())],
                value: Number::Whole(count),
            });
        }
    }),
}];
