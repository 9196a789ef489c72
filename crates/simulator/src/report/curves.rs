//! A page of miss-ratio curves, in the style of the report: for each trace or volume two figures, one whose
//! sizes grow in equal steps and one in equal factors.

use super::chart::{Chart, Line, Marks};
use super::frame::Axis;
use super::label::Unit;
use super::look::Look;
use super::scale::Kind;
use super::{base_name, label, page};
use std::fmt::{self, Write};

/// The curves of a trace or of a volume, drawn together.
#[derive(Clone, Debug)]
pub struct CurvePlot {
    /// What they are of: a trace's path.
    pub of: String,
    /// What is to be known of it, in a line.
    pub about: String,
    /// Why the curves are wrong.
    pub ruins: Vec<String>,
    /// One for each policy.
    pub lines: Vec<CurveLine>,
}

/// A curve.
#[derive(Clone, Debug)]
pub struct CurveLine {
    /// Its name in the legend.
    pub name: String,
    /// Size in bytes and miss ratio, by rising size.
    pub points: Vec<(f64, f64)>,
}

/// The page. `counted` says what the ratios are over.
///
/// # Errors
/// Never in practice: writing to a string does not fail.
pub fn html(plots: &[CurvePlot], counted: &str) -> Result<String, fmt::Error> {
    let mut out = String::new();
    let heading = format!("Misses of {counted}");
    page::begin(&mut out, "Miss-ratio curves", "miss-ratio curves", &heading)?;
    for plot in plots {
        write!(
            out,
            "<h2 class=\"trace\">{}</h2><p>{}</p>",
            label::escape(base_name(&plot.of)),
            label::escape(&plot.about)
        )?;
        page::ruins(&mut out, &plot.ruins)?;
        out.push_str("<section class=\"figures\">");
        for (title, kind) in [
            ("Sizes in equal steps", Kind::Bytes),
            ("Sizes by factors", Kind::Log2),
        ] {
            write!(
                out,
                "<figure><figcaption><h3>{title}</h3></figcaption>{}</figure>",
                chart(plot, kind).html()?
            )?;
        }
        out.push_str("</section>");
    }
    out.push_str(page::END);
    Ok(out)
}

fn chart(plot: &CurvePlot, kind: Kind) -> Chart {
    let line = |(place, line): (usize, &CurveLine)| Line {
        name: line.name.clone(),
        look: Look::of(place),
        notes: Vec::new(),
        points: line
            .points
            .iter()
            .copied()
            .filter(|point| point.0 > 0.0)
            .collect(),
    };
    Chart {
        x: Axis {
            label: "cache size",
            kind,
            unit: Unit::Bytes,
        },
        y: Axis::linear("miss ratio", Unit::Part),
        lines: plot.lines.iter().enumerate().map(line).collect(),
        marks: Marks::Plain,
        front: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_two_figures_a_trace_and_no_markup_from_names() {
        let plot = CurvePlot {
            of: "traces/<b>.csv".to_owned(),
            about: "10 accesses & more".to_owned(),
            ruins: vec!["every I/O <twice>".to_owned()],
            lines: vec![CurveLine {
                name: "lru".to_owned(),
                points: vec![(0.0, 1.0), (4096.0, 0.5), (8192.0, 0.1)],
            }],
        };
        let page = html(&[plot], "reads").unwrap();
        assert_eq!(page.matches("<figure>").count(), 2);
        assert!(page.contains("&lt;b&gt;.csv"));
        assert!(page.contains("10 accesses &amp; more"));
        assert!(page.contains("every I/O &lt;twice&gt;"));
        assert!(!page.contains("<b>"));
        assert!(!page.contains("http://"));
    }
}
