//! A plan as SVG: an arc diagram. VMs stand in the order in which they cross, waves are bands, and an arc is the traffic of a
//! pair: blue within a wave, which never crosses the link, and orange between waves, which crosses while they are split.
//!
//! ```text
//!            .-----------.           width of an arc: the root of the pair's rate
//!          .-+-.   .---. |
//!   |wave 1| a  b |wave 2| c  d |
//! ```
//! The picture needs nothing else: its colours are in it, for light and dark, and there are no scripts. Names are escaped.

use crate::terminal::quantity;
use groups::{Plan, Problem};
use std::fmt::{self, Write};
use units::number::{count_near, real};

/// Room for a VM: between these, so that few VMs fill the width, in the picture's units.
const STEPS: [f64; 2] = [22.0, 80.0];
/// What few VMs fill.
const WIDTH: f64 = 720.0;
/// Room left and right.
const SIDE: f64 = 40.0;
/// Room above the arcs, for the waves' numbers and times.
const TOP: f64 = 48.0;
/// The highest arc.
const TALLEST: f64 = 340.0;
/// Room below the VMs, for their names and the legend.
const BOTTOM: f64 = 190.0;
/// The widest arc.
const WIDEST: f64 = 7.0;
/// Pairs that are drawn, those with the highest rates: more are a blot.
const ARCS_MAX: usize = 600;
/// Room that a wave's time needs; in narrower bands only the tip has it.
const TIME_WIDTH: f64 = 110.0;
/// Characters of a name that fit below its VM; the whole name is in its tip.
const NAME_CHARS: usize = 22;

const STYLE: &str = ":root{color-scheme:light dark;--ink:#1d2330;--soft:#5c6579;--band:#eef0f5;--paper:#fff;--within:#4269d0;--across:#e8590c}\
@media (prefers-color-scheme:dark){:root{--ink:#e8eaf0;--soft:#9aa3b5;--band:#232937;--paper:#181c25;--within:#7c9dff;--across:#ff9f5a}}\
text{font:12px system-ui,sans-serif;fill:var(--ink)}.soft{fill:var(--soft)}.paper{fill:var(--paper)}.band{fill:var(--band)}\
.within,.across{fill:none;stroke-opacity:.55}.within{stroke:var(--within)}.across{stroke:var(--across)}\
.within:hover,.across:hover{stroke-opacity:1}circle{fill:var(--ink)}";

/// Where things are.
#[derive(Clone, Copy)]
struct Layout {
    step: f64,
    /// Where the VMs stand.
    base: f64,
    width: f64,
}

impl Layout {
    fn of(vms: usize) -> Self {
        let vms = real(vms as u64);
        let step = (WIDTH / vms).clamp(STEPS[0], STEPS[1]);
        Self {
            step,
            base: TOP + (step * vms / 2.0).min(TALLEST),
            width: (step * vms).max(WIDTH) + 2.0 * SIDE,
        }
    }

    fn middle(self, place: usize) -> f64 {
        SIDE + self.step * (real(place as u64) + 0.5)
    }
}

/// The picture.
///
/// # Errors
/// Never in practice: writing to a string does not fail.
pub(super) fn svg(problem: &Problem, plan: &Plan) -> Result<String, fmt::Error> {
    let order = plan.grouped().concat();
    let layout = Layout::of(order.len());
    let (width, height) = (layout.width, layout.base + BOTTOM);
    let mut out = String::new();
    write!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\" \
         aria-label=\"Waves of VMs and their traffic\"><style>{STYLE}</style>\
         <rect class=\"paper\" width=\"{width:.0}\" height=\"{height:.0}\"/>"
    )?;
    bands(&mut out, plan, layout)?;
    arcs(&mut out, problem, plan, &order, layout)?;
    for (place, vm) in order.iter().enumerate() {
        let name = &problem.traffic().names()[*vm];
        let short: String = name.chars().take(NAME_CHARS).collect();
        let at = layout.middle(place);
        write!(
            out,
            "<g><title>{}</title><circle cx=\"{at:.1}\" cy=\"{:.1}\" r=\"4\"/>\
             <text transform=\"translate({:.1} {:.1}) rotate(-60)\" text-anchor=\"end\">{}</text></g>",
            escape(name),
            layout.base,
            at + 4.0,
            layout.base + 16.0,
            escape(&short)
        )?;
    }
    write!(
        out,
        "<text class=\"soft\" x=\"{SIDE}\" y=\"{:.1}\">Blue: traffic within a wave. Orange: traffic that crosses the \
         link while its ends are on different sides.</text></svg>",
        height - 14.0
    )?;
    Ok(out)
}

fn bands(out: &mut String, plan: &Plan, layout: Layout) -> fmt::Result {
    let mut from = 0;
    for (at, wave) in plan.waves().iter().enumerate() {
        let to = from + wave.vms.len();
        let half = layout.step / 2.0;
        let (left, right) = (layout.middle(from) - half, layout.middle(to) - half);
        let time = wave.timing.as_ref().map_or_else(
            |_| "does not converge".to_owned(),
            |timing| quantity::time(timing.time_s),
        );
        if at % 2 == 0 {
            write!(
                out,
                "<rect class=\"band\" x=\"{left:.1}\" y=\"0\" width=\"{:.1}\" height=\"{:.1}\"/>",
                right - left,
                layout.base + 10.0
            )?;
        }
        let middle = f64::midpoint(left, right);
        write!(
            out,
            "<g><title>wave {}: {time}</title><text x=\"{middle:.1}\" y=\"18\" text-anchor=\"middle\">{}</text>",
            at + 1,
            at + 1
        )?;
        if right - left >= TIME_WIDTH {
            write!(
                out,
                "<text class=\"soft\" x=\"{middle:.1}\" y=\"34\" text-anchor=\"middle\">{time}</text>"
            )?;
        }
        out.push_str("</g>");
        from = to;
    }
    Ok(())
}

fn arcs(
    out: &mut String,
    problem: &Problem,
    plan: &Plan,
    order: &[usize],
    layout: Layout,
) -> fmt::Result {
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
    let base = layout.base;
    // The strongest are drawn last, on top.
    for (rate, left, right) in pairs.into_iter().rev() {
        let (from, to) = (layout.middle(left), layout.middle(right));
        let height = ((to - from) / 2.0).min(TALLEST);
        let class = if wave_of[left] == wave_of[right] {
            "within"
        } else {
            "across"
        };
        write!(
            out,
            "<path class=\"{class}\" stroke-width=\"{:.2}\" d=\"M{from:.1} {base:.1}A{:.1} {height:.1} 0 0 1 {to:.1} {base:.1}\">\
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
