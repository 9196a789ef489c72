//! The metrics of traces.

use super::encode::Number;
use super::family::{Family, Read, Series};

/// Every one, in the order in which they are shown.
pub(super) const FAMILIES: &[Family] = &[Family {
    name: "telemetry_spans",
    unit: None,
    help: "Spans for the collector of `[telemetry]`, by result: delivered; dropped, since it was away, refused them, or too many waited for it. Not there without a collector",
    labels: &["result"],
    read: Read::Counter(|scrape, out| {
        let Some(spans) = scrape.spans else {
            return;
        };
        for (result, count) in [("delivered", spans.delivered), ("dropped", spans.dropped)] {
            out.push(Series {
                labels: vec![("result", result)],
                value: Number::Whole(count),
            });
        }
    }),
}];
