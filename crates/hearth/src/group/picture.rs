//! A plan as SVG: an arc diagram. VMs stand in the order in which they cross, waves are bands, and an arc is the traffic of a
//! pair: blue within a wave, which never crosses the link, and orange between waves, which crosses while they are split.
//!
//! ```text
//!            .-----------.           width of an arc: the root of the pair's rate
//!          .-+-.   .---. |
//!   |wave 1| a  b |wave 2| c  d |
//! ```
//! The picture needs nothing else: its colours are in it, for light and dark, and there are no scripts. Names are escaped.

use super::render::span;
use crate::terminal::quantity;
use groups::{Plan, Problem};
use std::fmt::{self, Write};
use units::number::{count_near, real};

/// Room for a VM, in the picture's units.
const STEP: f64 = 22.0;
/// Room left and right.
const SIDE: f64 = 40.0;
/// Where the VMs stand.
const BASE: f64 = 380.0;
/// Height of the picture: names stand below the base.
const HEIGHT: f64 = 560.0;
/// The widest arc.
const WIDEST: f64 = 7.0;
/// Pairs that are drawn, those with the highest rates: more are a blot.
const ARCS_MAX: usize = 600;
/// Characters of a name that fit below its VM; the whole name is in its tip.
const NAME_CHARS: usize = 22;

const STYLE: &str = ":root{color-scheme:light dark;--ink:#1d2330;--soft:#5c6579;--band:#eef0f5;--paper:#fff;--within:#4269d0;--across:#e8590c}\
@media (prefers-color-scheme:dark){:root{--ink:#e8eaf0;--soft:#9aa3b5;--band:#232937;--paper:#181c25;--within:#7c9dff;--across:#ff9f5a}}\
text{font:12px system-ui,sans-serif;fill:var(--ink)}.soft{fill:var(--soft)}.paper{fill:var(--paper)}.band{fill:var(--band)}\
.within,.across{fill:none;stroke-opacity:.55}.within{stroke:var(--within)}.across{stroke:var(--across)}\
.within:hover,.across:hover{stroke-opacity:1}circle{fill:var(--ink)}";

/// The picture.
///
/// # Errors
/// Never in practice: writing to a string does not fail.
pub(super) fn svg(problem: &Problem, plan: &Plan) -> Result<String, fmt::Error> {
    let order = plan.grouped().concat();
    let width = SIDE * 2.0 + STEP * real(order.len() as u64);
    let width = width.max(420.0);
    let mut out = String::new();
    write!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {HEIGHT}\" role=\"img\" \
         aria-label=\"Waves of VMs and their traffic\"><style>{STYLE}</style>\
         <rect class=\"paper\" width=\"{width}\" height=\"{HEIGHT}\"/>"
    )?;
    bands(&mut out, plan)?;
    arcs(&mut out, problem, plan, &order)?;
    for (place, vm) in order.iter().enumerate() {
        let name = &problem.traffic().names()[*vm];
        let short: String = name.chars().take(NAME_CHARS).collect();
        let at = middle(place);
        write!(
            out,
            "<g><title>{}</title><circle cx=\"{at:.1}\" cy=\"{BASE}\" r=\"4\"/>\
             <text transform=\"translate({:.1} {:.1}) rotate(-60)\" text-anchor=\"end\">{}</text></g>",
            escape(name),
            at + 4.0,
            BASE + 16.0,
            escape(&short)
        )?;
    }
    write!(
        out,
        "<text class=\"soft\" x=\"{SIDE}\" y=\"{:.1}\">Blue: within a wave. Orange: crosses the link while \
         its ends are on different sides.</text></svg>",
        HEIGHT - 14.0
    )?;
    Ok(out)
}

fn bands(out: &mut String, plan: &Plan) -> fmt::Result {
    let mut from = 0;
    for (at, wave) in plan.waves().iter().enumerate() {
        let to = from + wave.vms.len();
        let (left, right) = (middle(from) - STEP / 2.0, middle(to) - STEP / 2.0);
        let time = wave.timing.as_ref().map_or_else(
            |_| "does not converge".to_owned(),
            |timing| span(timing.time_s),
        );
        if at % 2 == 0 {
            write!(
                out,
                "<rect class=\"band\" x=\"{left:.1}\" y=\"0\" width=\"{:.1}\" height=\"{:.1}\"/>",
                right - left,
                BASE + 10.0
            )?;
        }
        write!(
            out,
            "<g><title>wave {}: {time}</title><text class=\"soft\" x=\"{:.1}\" y=\"18\" text-anchor=\"middle\">{}</text></g>",
            at + 1,
            f64::midpoint(left, right),
            at + 1
        )?;
        from = to;
    }
    Ok(())
}

fn arcs(out: &mut String, problem: &Problem, plan: &Plan, order: &[usize]) -> fmt::Result {
    let wave_of: Vec<usize> = plan
        .waves()
        .iter()
        .enumerate()
        .flat_map(|(at, wave)| wave.vms.iter().map(move |_| at))
        .collect();
    let mut pairs: Vec<(f64, usize, usize)> = Vec::new();
    for (right, other) in order.iter().enumerate() {
        for (left, one) in order[..right].iter().enumerate() {
            let rate = problem.traffic().rate(*one, *other);
            if rate > 0.0 {
                pairs.push((rate, left, right));
            }
        }
    }
    pairs.sort_by(|one, other| other.0.total_cmp(&one.0));
    pairs.truncate(ARCS_MAX);
    let most = pairs.first().map_or(1.0, |pair| pair.0);
    let names = problem.traffic().names();
    let tallest = BASE - 40.0;
    // The strongest are drawn last, on top.
    for (rate, left, right) in pairs.into_iter().rev() {
        let (from, to) = (middle(left), middle(right));
        let height = ((to - from) / 2.0).min(tallest);
        let class = if wave_of[left] == wave_of[right] {
            "within"
        } else {
            "across"
        };
        write!(
            out,
            "<path class=\"{class}\" stroke-width=\"{:.2}\" d=\"M{from:.1} {BASE}A{:.1} {height:.1} 0 0 1 {to:.1} {BASE}\">\
             <title>{} and {}: {}/s</title></path>",
            (WIDEST * (rate / most).sqrt()).max(0.3),
            (to - from) / 2.0,
            escape(&names[order[left]]),
            escape(&names[order[right]]),
            quantity::bytes(count_near(rate))
        )?;
    }
    Ok(())
}

fn middle(place: usize) -> f64 {
    SIDE + STEP * (real(place as u64) + 0.5)
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use groups::{Load, Method, Rate, Sizes, Split, TrafficMatrix};
    use units::Bytes;

    fn picture(pairs: &[(&str, &str, f64)], size: usize) -> String {
        let traffic = TrafficMatrix::from_pairs(pairs.iter().copied()).unwrap();
        let load = Load {
            size: Bytes::gib(1),
            dirty: Rate::ZERO,
        };
        let loads = vec![load; traffic.vms()];
        let problem = Problem::new(traffic, loads, Rate::new(1e8).unwrap(), Split::Dealt).unwrap();
        let plan = Method::Annealed
            .plan(&problem, &Sizes::Each(size), 1)
            .unwrap();
        svg(&problem, &plan).unwrap()
    }

    #[test]
    fn pairs_of_one_wave_are_blue_and_others_orange() {
        let svg = picture(&[("a", "b", 9e6), ("c", "d", 8e6), ("b", "c", 1e3)], 2);
        assert_eq!(svg.matches("class=\"within\"").count(), 2);
        assert_eq!(svg.matches("class=\"across\"").count(), 1);
        assert_eq!(svg.matches("<circle").count(), 4);
    }

    #[test]
    fn names_are_texts_and_nothing_else() {
        let svg = picture(&[("<script>alert(1)</script>", "\"&'", 1.0)], 1);
        assert!(!svg.contains("<script"));
        assert!(svg.contains("&lt;script&gt;alert(1)"));
        assert!(svg.contains("&quot;&amp;'"));
    }

    #[test]
    fn the_strongest_pairs_are_drawn_if_they_are_many() {
        let names: Vec<String> = (0..60).map(|vm| format!("vm{vm}")).collect();
        let mut pairs = Vec::new();
        for one in 0..60 {
            for other in 0..one {
                pairs.push((names[one].as_str(), names[other].as_str(), 1.0));
            }
        }
        let svg = picture(&pairs, 10);
        assert_eq!(svg.matches("<path").count(), ARCS_MAX);
    }
}
