//! A page of what came of a fleet, in the style of the report.

use super::chart::{Chart, Line, Marks};
use super::frame::Axis;
use super::label::Unit;
use super::look::Look;
use super::{label, page};
use crate::fleet::{Outcome, PROBE, Sample};
use crate::manifest::Manifest;
use std::fmt::{self, Write};
use units::Bytes;
use units::number::real;

/// A figure: title, caption, its axis, and what it shows of each window.
type Figure = (&'static str, &'static str, Axis, fn(&Sample) -> Option<f64>);

/// The page.
///
/// # Errors
/// Never in practice: writing to a string does not fail.
pub fn html(all: &[Outcome], manifest: &Manifest) -> Result<String, fmt::Error> {
    let mut out = String::new();
    let title = "A fleet whose flash is balanced by moves of VMs";
    page::begin(&mut out, title, "fleet", title)?;
    sums(&mut out, all)?;
    out.push_str("<section class=\"figures\">");
    let figures: [Figure; 4] = [
        (
            "Hosts above 90 %",
            "By what their VMs really need, at the beginning of each window.",
            Axis::linear("hosts", Unit::Count),
            |sample| Some(real(sample.overloaded as u64)),
        ),
        (
            "Deviation of load across hosts",
            "The paper's objective is its square.",
            Axis::linear("standard deviation", Unit::Number),
            |sample| Some(sample.load_stddev),
        ),
        (
            "Hits",
            "Of all reads, by each VM's curve at its share.",
            Axis::linear("hit ratio", Unit::Part),
            |sample| sample.hits,
        ),
        (
            "Moves that were done",
            "In each window.",
            Axis::linear("moves", Unit::Count),
            |sample| Some(real(sample.done as u64)),
        ),
    ];
    for (title, caption, y, of) in figures {
        page::figure(&mut out, title, caption, &chart(all, y, of).html()?, false)?;
    }
    out.push_str("</section>");
    violations(&mut out, all)?;
    page::provenance(&mut out, manifest)?;
    out.push_str(page::END);
    Ok(out)
}

fn chart(all: &[Outcome], y: Axis, of: fn(&Sample) -> Option<f64>) -> Chart {
    let line = |(place, one): (usize, &Outcome)| Line {
        name: one.rule.to_owned(),
        look: Look::of(place),
        notes: Vec::new(),
        points: one
            .samples
            .iter()
            .filter_map(|sample| Some((real(sample.window as u64), of(sample)?)))
            .collect(),
    };
    Chart {
        x: Axis::linear("window of two hours", Unit::Count),
        y,
        lines: all.iter().enumerate().map(line).collect(),
        marks: Marks::Plain,
        front: None,
    }
}

fn sums(out: &mut String, all: &[Outcome]) -> fmt::Result {
    out.push_str(
        "<section><div class=\"scroll\"><table><thead><tr><th class=\"word\">rule</th><th>above 90 %</th>\
         <th>deviation</th><th>moves</th><th>rolled back</th><th>failed</th><th>moved</th><th>hits</th>\
         <th>p90, ms</th></tr></thead><tbody>",
    );
    for one in all {
        let (rolled_back, failed) = one.not_done();
        write!(
            out,
            "<tr><td class=\"word\">{}</td><td>{}</td><td>{:.3}</td><td>{}</td><td>{rolled_back}</td><td>{failed}</td>\
             <td>{}</td><td>{}</td><td>{:.3}</td></tr>",
            one.rule,
            label::percent_exact(one.overloaded_part()),
            one.mean(|sample| Some(sample.load_stddev)),
            one.moves(),
            Bytes::new(one.moved_bytes()),
            label::percent_exact(one.mean(|sample| sample.hits)),
            one.mean(|sample| sample.p90_ms),
        )?;
    }
    for one in &PROBE {
        write!(
            out,
            "<tr><td class=\"word\">probe: {}</td><td>{}</td><td>{:.3}</td><td>{}</td><td></td><td></td><td></td>\
             <td></td><td></td></tr>",
            label::escape(one.rule),
            label::percent_exact(one.overloaded_part),
            one.load_stddev,
            one.moves,
        )?;
    }
    out.push_str("</tbody></table></div></section>");
    Ok(())
}

fn violations(out: &mut String, all: &[Outcome]) -> fmt::Result {
    out.push_str("<section><h3>Checks</h3>");
    for one in all {
        if one.violations.is_empty() {
            write!(
                out,
                "<p>{}: in every window each VM ran at one host, rested, moves kept to their limits, and each was ended.</p>",
                one.rule
            )?;
        }
        for wrong in &one.violations {
            write!(
                out,
                "<p>{}, window {}: {}</p>",
                one.rule,
                wrong.window,
                label::escape(&wrong.what)
            )?;
        }
    }
    out.push_str("</section>");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::{Rule, Settings, run};

    #[test]
    fn a_page_has_four_figures_and_the_probes_rows() {
        let settings = Settings {
            hosts: 4,
            vms: 3,
            windows: 4,
            ..Settings::new(Rule::Hearth, 1)
        };
        let outcome = run(&settings, &mut |_| {}).unwrap();
        let manifest = Manifest::new(Vec::new(), 1, serde_json::json!({}), Vec::new());
        let page = html(&[outcome], &manifest).unwrap();
        assert_eq!(page.matches("<figure>").count(), 4);
        assert!(page.contains("probe: 90 %, 3 windows"));
        assert!(!page.contains("http://"));
    }
}
