//! An interval as a table: on a terminal, or as text.

use super::args::SortBy;
use super::interval::{CacheRow, DiskRow, Interval};
use super::vms;
use crate::terminal::quantity::{bytes, count, percent, rate, time};
use crate::terminal::{Side, Table};
use clap::ValueEnum;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Paragraph, Row, Table as Grid};

/// What the viewer chose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct View {
    pub(super) sort: SortBy,
    pub(super) reverse: bool,
    pub(super) paused: bool,
    /// VMs instead of disks.
    pub(super) vms: bool,
}

impl View {
    /// The sorting column next to the present one, wrapping around.
    pub(super) fn move_sort(&mut self, forward: bool) {
        let columns = SortBy::value_variants();
        let at = columns.iter().position(|c| *c == self.sort).unwrap_or(0);
        let step = if forward { 1 } else { columns.len() - 1 };
        self.sort = columns[(at + step) % columns.len()];
    }
}

/// The columns: heading, width, side, and what sorts by it.
const COLUMNS: [(&str, u16, Side, Option<SortBy>); 17] = [
    ("disk", 16, Side::Left, Some(SortBy::Disk)),
    ("vm", 12, Side::Left, None),
    ("read/s", 8, Side::Right, Some(SortBy::Iops)),
    ("write/s", 8, Side::Right, None),
    ("read B/s", 9, Side::Right, Some(SortBy::Bytes)),
    ("write B/s", 9, Side::Right, None),
    ("hit", 6, Side::Right, Some(SortBy::Hit)),
    ("ram", 6, Side::Right, None),
    ("hot", 6, Side::Right, None),
    ("ahead", 6, Side::Right, None),
    ("p50", 7, Side::Right, None),
    ("p99", 7, Side::Right, Some(SortBy::P99)),
    ("flash w/s", 10, Side::Right, Some(SortBy::Flash)),
    ("origin r/s", 11, Side::Right, Some(SortBy::Origin)),
    ("dirty", 8, Side::Right, Some(SortBy::Dirty)),
    ("age", 6, Side::Right, None),
    ("destage", 17, Side::Left, None),
];

/// The columns by what a viewer would miss most; a narrow terminal has as many as fit.
const BY_WORTH: [usize; 17] = [0, 2, 3, 6, 11, 14, 4, 5, 16, 10, 12, 13, 15, 7, 1, 9, 8];

fn cells(row: &DiskRow) -> [String; 17] {
    let [dirty, age, destage] =
        super::words::dirty_cells(row.dirty_bytes, row.dirty_oldest_seconds, row.destage);
    let blocks = row.hit_blocks + row.miss_blocks;
    [
        row.disk.clone(),
        row.vm.clone(),
        count(row.reads_per_second),
        count(row.writes_per_second),
        rate(row.read_bytes_per_second),
        rate(row.written_bytes_per_second),
        percent(row.hit_blocks, blocks),
        percent(row.memory_hit_blocks.total(), blocks),
        percent(row.memory_hit_blocks.hot, blocks),
        percent(row.memory_hit_blocks.ahead, blocks),
        time(row.p50_seconds),
        time(row.p99_seconds),
        rate(row.flash_written_bytes_per_second),
        rate(row.origin_read_bytes_per_second),
        dirty,
        age,
        destage,
    ]
}

fn cache_line(row: &CacheRow) -> String {
    let state = if row.bypassed { " BYPASSED" } else { "" };
    format!(
        "cache {}{state}: {} cached, {} segments free, flash {}/s written, {}/s read, read p50 {} p99 {}",
        row.cache,
        bytes(row.cached_blocks.saturating_mul(units::BLOCK_BYTES)),
        row.segments_free,
        rate(row.flash_written_bytes_per_second),
        rate(row.flash_read_bytes_per_second),
        time(row.flash_read_p50_seconds),
        time(row.flash_read_p99_seconds),
    )
}

/// A line in pieces that are no longer than `width`, where it has commas.
fn wrapped(line: &str, width: u16) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for part in line.split_inclusive(", ") {
        match lines.last_mut() {
            Some(last) if last.len() + part.trim_end().len() <= usize::from(width) => {
                last.push_str(part);
            }
            Some(_) => lines.push(format!("  {part}")),
            None => lines.push(part.to_owned()),
        }
    }
    lines
}

/// The interval as text.
pub(super) fn text(interval: &Interval, of_vms: bool) -> String {
    let mut out = String::new();
    for row in &interval.caches {
        out.push_str(&cache_line(row));
        out.push('\n');
    }
    let mut of_rows = vms::by_worth(&interval.vms);
    of_rows.sort_unstable();
    let mut table = if of_vms {
        let heading = vms::COLUMNS.map(|(name, _, side)| (name, side));
        Table::new(&pick(&heading, &of_rows))
    } else {
        Table::new(&COLUMNS.map(|(name, _, side, _)| (name, side)))
    };
    if of_vms {
        for row in &interval.vms {
            table.row(pick(&vms::cells(row, interval.seconds), &of_rows));
        }
    } else {
        for row in &interval.disks {
            table.row(cells(row).to_vec());
        }
    }
    out.push_str(&table.to_string());
    out
}

/// The interval on a terminal.
pub(super) fn draw(frame: &mut Frame<'_>, interval: &Interval, view: View) {
    let width = frame.area().width;
    let lines: Vec<Line<'_>> = interval
        .caches
        .iter()
        .flat_map(|row| wrapped(&cache_line(row), width))
        .map(Line::from)
        .collect();
    let heads_height = u16::try_from(lines.len()).unwrap_or(u16::MAX);
    let [top, middle, bottom] = Layout::vertical([
        Constraint::Length(heads_height.min(8)),
        Constraint::Min(2),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(Paragraph::new(lines), top);

    if view.vms {
        frame.render_widget(vm_grid(interval, width), middle);
    } else {
        frame.render_widget(disk_grid(interval, view, width), middle);
    }
    let paused = if view.paused { "  PAUSED" } else { "" };
    let keys = if view.vms {
        format!("q quit  v disks  p pause{paused}")
    } else {
        let sort = view.sort;
        format!("q quit  < > sort by {sort}  r reverse  v VMs  p pause{paused}")
    };
    frame.render_widget(Paragraph::new(keys), bottom);
}

fn disk_grid(interval: &Interval, view: View, width: u16) -> Grid<'static> {
    let sorts = |at: &usize| COLUMNS[*at].3 == Some(view.sort);
    let mut by_worth = BY_WORTH.to_vec();
    // Whatever it is sorted by is worth most, behind the name.
    by_worth[1..].sort_by_key(|at| !sorts(at));
    let shown = fitting(&by_worth, &COLUMNS.map(|(_, width, ..)| width), width);
    let heading = COLUMNS.map(|(name, width, side, sort)| {
        let mark = match (sort == Some(view.sort), view.reverse) {
            (false, _) => "",
            (true, false) => "v",
            (true, true) => "^",
        };
        (format!("{name}{mark}"), width, side)
    });
    let rows = interval.disks.iter().map(|row| cells(row).to_vec());
    grid(&pick(&heading, &shown), rows.map(|row| pick(&row, &shown)))
}

fn vm_grid(interval: &Interval, width: u16) -> Grid<'static> {
    let heading = vms::COLUMNS.map(|(name, width, side)| (name.to_owned(), width, side));
    let widths = vms::COLUMNS.map(|(_, width, _)| width);
    let shown = fitting(&vms::by_worth(&interval.vms), &widths, width);
    let rows = interval
        .vms
        .iter()
        .map(|row| vms::cells(row, interval.seconds).to_vec());
    grid(&pick(&heading, &shown), rows.map(|row| pick(&row, &shown)))
}

/// The columns that fit into `width`, in their order: those that are worth most, each with a space
/// between it and the next, and always the first.
fn fitting(by_worth: &[usize], widths: &[u16], width: u16) -> Vec<usize> {
    let mut shown = Vec::new();
    let mut taken = 0;
    for at in by_worth {
        let with_it = taken + usize::from(widths[*at]) + usize::from(!shown.is_empty());
        if shown.is_empty() || with_it <= usize::from(width) {
            shown.push(*at);
            taken = with_it;
        }
    }
    shown.sort_unstable();
    shown
}

fn pick<T: Clone>(all: &[T], shown: &[usize]) -> Vec<T> {
    shown.iter().map(|at| all[*at].clone()).collect()
}

fn grid(heading: &[(String, u16, Side)], rows: impl Iterator<Item = Vec<String>>) -> Grid<'static> {
    let line = |cells: &[String]| {
        let columns = cells.iter().zip(heading);
        let cells =
            columns.map(|(cell, (_, width, side))| Cell::from(aligned(cell, *width, *side)));
        Row::new(cells.collect::<Vec<_>>())
    };
    let rows: Vec<Row<'static>> = rows.map(|cells| line(&cells)).collect();
    let names: Vec<String> = heading.iter().map(|(name, _, _)| name.clone()).collect();
    let widths = heading
        .iter()
        .map(|(_, width, _)| Constraint::Length(*width));
    let bold = Style::new().add_modifier(Modifier::BOLD);
    Grid::new(rows, widths).header(line(&names).style(bold))
}

fn aligned(text: &str, width: u16, side: Side) -> String {
    let width = usize::from(width);
    let fitting: String = text.chars().take(width).collect();
    match side {
        Side::Left => format!("{fitting:<width$}"),
        Side::Right => format!("{fitting:>width$}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::interval::tests::two_looks;
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn interval() -> Interval {
        let (before, now) = two_looks();
        let mut interval = Interval::between(&before, &now);
        interval.sort(SortBy::Iops, false);
        interval
    }

    #[test]
    fn text_shows_a_line_to_a_disk() {
        let text = text(&interval(), false);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{text}");
        assert!(lines[0].starts_with("cache main: 3.81GiB cached"), "{text}");
        assert!(lines[1].starts_with("DISK   VM"), "{text}");
        let cells: Vec<&str> = lines[2].split_whitespace().collect();
        assert_eq!(
            cells,
            [
                "web-1", "web-1", "100", "10", "400KiB", "0B", "75.0%", "15.0%", "5.0%", "7.5%",
                "80.0us", "2.00ms", "0B", "0B", "200MiB", "31.5s", "FAILING"
            ]
        );
    }

    #[test]
    fn vms_have_a_view_of_their_own() {
        let text = text(&interval(), true);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].starts_with("VM "), "{text}");
        let web = lines.iter().find(|line| line.starts_with("web ")).unwrap();
        assert!(web.contains("4.00GiB"), "{text}");
        assert!(text.contains("debian-12 (image)"), "{text}");
        assert!(lines.iter().all(|line| line.len() <= 170), "{text}");
    }

    #[test]
    fn the_screen_marks_the_column_that_sorts() {
        let mut terminal = Terminal::new(TestBackend::new(120, 6)).unwrap();
        let view = View {
            sort: SortBy::P99,
            reverse: false,
            paused: true,
            vms: false,
        };
        terminal
            .draw(|frame| draw(frame, &interval(), view))
            .unwrap();
        let screen = terminal.backend().to_string();
        assert!(screen.contains("p99v"), "{screen}");
        assert!(screen.contains("web-1"), "{screen}");
        assert!(screen.contains("sort by p99"), "{screen}");
        assert!(screen.contains("PAUSED"), "{screen}");
    }

    fn screen(width: u16, sort: SortBy, vms: bool) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, 10)).unwrap();
        let view = View {
            sort,
            reverse: false,
            paused: false,
            vms,
        };
        terminal
            .draw(|frame| draw(frame, &interval(), view))
            .unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn at_80_columns_every_column_that_is_shown_is_whole() {
        let shown = screen(80, SortBy::Iops, false);
        for whole in [
            "disk ",
            "read/sv",
            "write/s",
            "hit",
            "p99",
            "dirty",
            "read B/s",
            "write B/s",
            "400KiB",
            "75.0%",
            "2.00ms",
            "200MiB",
        ] {
            assert!(shown.contains(whole), "{whole}\n{shown}");
        }
        assert!(!shown.contains("origin r"), "{shown}");
        assert!(
            shown.contains("p99 "),
            "the line of the cache is whole: {shown}"
        );
        let shown = screen(80, SortBy::Origin, false);
        assert!(shown.contains("origin r/sv"), "{shown}");
        let shown = screen(80, SortBy::Iops, true);
        assert!(
            shown.contains("blocks/s") && shown.contains("refused/s"),
            "{shown}"
        );
        let shown = screen(160, SortBy::Iops, false);
        assert!(
            shown.contains("destage") && shown.contains("vm "),
            "{shown}"
        );
    }

    #[test]
    fn a_tiny_terminal_is_no_trouble() {
        for (width, height) in [(1, 1), (5, 2), (20, 3)] {
            let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
            let view = View {
                sort: SortBy::Iops,
                reverse: true,
                paused: false,
                vms: width > 5,
            };
            terminal
                .draw(|frame| draw(frame, &interval(), view))
                .unwrap();
        }
    }

    #[test]
    fn the_sorting_column_wraps_around() {
        let mut view = View {
            sort: SortBy::Disk,
            reverse: false,
            paused: false,
            vms: false,
        };
        view.move_sort(false);
        assert_eq!(view.sort, SortBy::Dirty);
        view.move_sort(true);
        assert_eq!(view.sort, SortBy::Disk);
    }
}
