//! The footprint of a volume as SVG: time along, address up, the darker the more accesses.

use super::label::{self, Unit};
use super::scale::{Kind, Scale, TICKS};
use crate::heat::{COLUMNS, HeatMap, ROWS};
use crate::number::real;
use crate::series::Axis;
use std::fmt::{self, Write};

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 84.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 8.0;
const BOTTOM: f64 = 44.0;
/// Shades that the page's style names `h1` and so on; cells without accesses are not drawn.
const SHADES: u64 = 9;

/// The map as an SVG element.
pub(super) fn html(map: &HeatMap, axis: Axis) -> Result<String, fmt::Error> {
    let extent = Extent::of(map);
    let mut out = String::new();
    write!(
        out,
        "<svg class=\"chart\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"accesses by time and address\">"
    )?;
    let (width, height) = (WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM);
    let (wide, high) = (width / real(extent.columns), height / real(extent.rows));
    let most = real(map.cells.iter().copied().max().unwrap_or(1).max(1));
    for row in 0..extent.rows {
        shaded(
            &mut out,
            map,
            row,
            &extent,
            |column, length, shade, out| {
                write!(
                    out,
                    "<rect class=\"h{shade}\" x=\"{:.2}\" y=\"{:.2}\" width=\"{:.2}\" height=\"{:.2}\"/>",
                    LEFT + real(column) * wide,
                    TOP + height - real(row + 1) * high,
                    real(length) * wide + 0.2,
                    high + 0.2,
                )
            },
            most,
        )?;
    }
    axes(&mut out, map, axis, &extent)?;
    out.push_str("</svg>");
    Ok(out)
}

/// The part of the map that holds anything.
struct Extent {
    columns: u64,
    rows: u64,
}

impl Extent {
    fn of(map: &HeatMap) -> Self {
        let mut extent = Self {
            columns: 1,
            rows: 1,
        };
        for (place, blocks) in (0_u64..).zip(&map.cells) {
            if *blocks > 0 {
                extent.columns = extent.columns.max(place % COLUMNS as u64 + 1);
                extent.rows = extent.rows.max(place / COLUMNS as u64 + 1);
            }
        }
        extent
    }
}

/// Calls `draw` for each run of cells of a row that have one shade.
fn shaded(
    out: &mut String,
    map: &HeatMap,
    row: u64,
    extent: &Extent,
    draw: impl Fn(u64, u64, u64, &mut String) -> fmt::Result,
    most: f64,
) -> fmt::Result {
    let first = usize::try_from(row).unwrap_or(ROWS) * COLUMNS;
    let shade = |column: u64| {
        let place = first + usize::try_from(column).unwrap_or(COLUMNS);
        shade_of(map.cells.get(place).copied().unwrap_or(0), most)
    };
    let mut begin = 0;
    while begin < extent.columns {
        let mut end = begin + 1;
        while end < extent.columns && shade(end) == shade(begin) {
            end += 1;
        }
        if shade(begin) > 0 {
            draw(begin, end - begin, shade(begin), out)?;
        }
        begin = end;
    }
    Ok(())
}

/// Shades are logarithmic: a cell of one access shows beside one of a million.
fn shade_of(blocks: u64, most: f64) -> u64 {
    if blocks == 0 {
        return 0;
    }
    let part = (real(blocks) + 1.0).ln() / (most + 1.0).ln();
    crate::number::count(part * real(SHADES)).clamp(1, SHADES)
}

fn axes(out: &mut String, map: &HeatMap, axis: Axis, extent: &Extent) -> fmt::Result {
    let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
    let (time_kind, unit) = match axis {
        Axis::TimeUs => (Kind::Time, Unit::Time),
        Axis::Accesses => (Kind::Linear, Unit::Count),
    };
    let (time, address) = (
        real(map.column) * real(extent.columns),
        real(map.row_bytes) * real(extent.rows),
    );
    let times = Scale::up_to(time_kind, time);
    let (ticks, step) = times.ticks(TICKS);
    for tick in ticks {
        write!(
            out,
            "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            LEFT + times.place(tick) * (right - LEFT),
            bottom + 16.0,
            unit.tick(tick, step),
        )?;
    }
    let addresses = Scale::up_to(Kind::Bytes, address);
    for tick in addresses.ticks(TICKS).0 {
        write!(
            out,
            "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 8.0,
            bottom - addresses.place(tick) * (bottom - TOP) + 4.0,
            label::bytes(tick),
        )?;
    }
    let name = match axis {
        Axis::TimeUs => "time",
        Axis::Accesses => "accesses",
    };
    write!(
        out,
        "<path class=\"axis\" d=\"M{LEFT} {TOP}V{bottom}H{right}\"/>\
         <text class=\"name\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{name}</text>\
         <text class=\"name\" transform=\"translate(14 {:.1}) rotate(-90)\" text-anchor=\"middle\">address</text>",
        f64::midpoint(LEFT, right),
        HEIGHT - 8.0,
        f64::midpoint(TOP, bottom),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shades_are_logarithmic_and_nothing_has_none() {
        assert_eq!(shade_of(0, 1e6), 0);
        assert_eq!(shade_of(1, 1e6), 1);
        assert_eq!(shade_of(1_000_000, 1e6), SHADES);
        assert_eq!(shade_of(1, 1.0), SHADES);
    }

    #[test]
    fn equal_neighbours_are_one_rectangle() {
        let mut map = HeatMap {
            column: 1,
            row_bytes: 4096,
            cells: vec![0; COLUMNS * ROWS],
            accesses: 12,
        };
        map.cells[2..5].fill(4);
        let html = html(&map, Axis::Accesses).unwrap();
        assert_eq!(html.matches("<rect").count(), 1, "{html}");
    }
}
