//! What every page begins and ends with.

use super::STYLE;
use super::chart;
use super::label::escape;
use crate::manifest::Manifest;
use std::fmt::{self, Write};

/// What every page ends with.
pub(super) const END: &str = "</main></body></html>\n";

/// The beginning of a page: `kind` says of what sort it is.
pub(super) fn begin(out: &mut String, title: &str, kind: &str, heading: &str) -> fmt::Result {
    write!(
        out,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <title>{} · Hearth</title><style>{STYLE}{}</style></head><body><header>\
         <p class=\"brand\">Hearth · {kind}</p><h1>{}</h1></header><main>",
        escape(title),
        chart::rules(),
        escape(heading)
    )
}

/// Why what follows is wrong, if it is.
pub(super) fn ruins(out: &mut String, ruins: &[String]) -> fmt::Result {
    for ruin in ruins {
        let ruin = escape(ruin);
        write!(
            out,
            "<p class=\"ruins\"><strong>These results are wrong</strong> {ruin}</p>"
        )?;
    }
    Ok(())
}

/// A picture with its heading; a wide one takes the whole width of the page.
pub(super) fn figure(
    out: &mut String,
    title: &str,
    caption: &str,
    html: &str,
    is_wide: bool,
) -> fmt::Result {
    write!(
        out,
        "<figure{}><figcaption><h3>{}</h3><p>{}</p></figcaption>{html}</figure>",
        if is_wide { " class=\"wide\"" } else { "" },
        escape(title),
        escape(caption)
    )
}

/// Where the results of a page come from.
pub(super) fn provenance(out: &mut String, manifest: &Manifest) -> fmt::Result {
    let text = manifest.to_json().map_err(|_| fmt::Error)?;
    write!(
        out,
        "<section><h3>Manifest</h3><pre id=\"manifest\">{}</pre></section>",
        escape(&String::from_utf8_lossy(&text))
    )
}
