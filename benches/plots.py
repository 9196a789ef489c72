#!/usr/bin/env python3
"""Draws the plots of book/src/performance.md from the tables in benches/results.

    benches/plots.py
"""

import os
import re
from html import escape

import rig as bench

FIGURES = os.path.join(bench.ROOT, "book", "src", "figures")
WIDTH, HEIGHT = 720, 320
LEFT, RIGHT, TOP, BOTTOM = 48, 12, 12, 42
LEGEND_ROW = 18
COLOURS = ["#1971c2", "#74c0fc", "#e8590c", "#868e96"]


def tables(name):
    """The tables of a result: each a header and rows, of cells without their emphasis."""
    with open(os.path.join(bench.RESULTS, f"{name}.md"), encoding="utf-8") as file:
        blocks = re.findall(r"(?:^\|.*\n)+", file.read(), re.MULTILINE)
    found = []
    for block in blocks:
        lines = [[cell.strip().replace("**", "") for cell in line.strip("|\n ").split("|")] for line in block.splitlines()]
        found.append((lines[0], lines[2:]))
    return found


def bars(groups, series, values, up):
    """Bars by group and series, with a line at 1; `values` has (middle, low, high) by (group, series)."""
    top = max(high for _, _, high in values.values()) * 1.04
    bottom_edge, right_edge = HEIGHT - BOTTOM, WIDTH - RIGHT
    place = lambda value: bottom_edge - value / top * (bottom_edge - TOP)
    rows = (len(series) + 1) // 2
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT + rows * LEGEND_ROW + 8}" '
           'font-family="sans-serif" font-size="12">',
           '<rect width="100%" height="100%" fill="#fff"/>']
    for tick in range(int(top / 0.5) + 1):
        at = place(tick / 2)
        stroke = "#212529" if tick == 2 else "#e9ecef"
        out.append(f'<path d="M{LEFT} {at:.1f}H{right_edge}" stroke="{stroke}"/><text x="{LEFT - 8}" y="{at + 4:.1f}" '
                   f'text-anchor="end">{tick / 2:.1f}</text>')
    out.append(f'<text transform="translate(14 {(TOP + bottom_edge) / 2}) rotate(-90)" text-anchor="middle">{escape(up)}</text>')
    room = (right_edge - LEFT) / len(groups)
    wide = room * 0.8 / len(series)
    for order, group in enumerate(groups):
        left = LEFT + order * room + room * 0.1
        for row, words in enumerate(group.split(", ", 1)):
            out.append(f'<text x="{left + room * 0.4:.1f}" y="{bottom_edge + 16 + row * 14}" text-anchor="middle">{escape(words)}</text>')
        for column, name in enumerate(series):
            middle, low, high = values[group, name]
            x, y = left + column * wide, place(middle)
            out.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{wide * 0.9:.1f}" height="{bottom_edge - y:.1f}" fill="{COLOURS[column]}">'
                       f"<title>{escape(name)}, {escape(group)}: {middle:.2f}</title></rect>")
            if low != high:
                out.append(f'<path d="M{x + wide * 0.45:.1f} {place(low):.1f}V{place(high):.1f}" stroke="#212529"/>')
    for order, name in enumerate(series):
        left, line = LEFT + order % 2 * (right_edge - LEFT) / 2, HEIGHT + order // 2 * LEGEND_ROW + 8
        out.append(f'<rect x="{left}" y="{line - 6}" width="12" height="12" fill="{COLOURS[order]}"/>'
                   f'<text x="{left + 18}" y="{line + 4}">{escape(name)}</text>')
    return "\n".join([*out, "</svg>", ""])


def read_hits():
    """Read hits by target and depth, to raw flash in the same round; medians with quartiles."""
    series = ["hearth, vhost-user", "hearth, NBD", "qemu-storage-daemon, vhost-user, O_DIRECT", "qemu-nbd, O_DIRECT"]
    groups, values = [], {}
    for header, rows in tables("bars"):
        groups.append(header[0])
        of = {row[0]: row[2] for row in rows}
        for name in series:
            values[groups[-1], name] = tuple(float(figure) for figure in re.findall(r"\d+\.\d+", of[name]))
    return bars(groups, series, values, "requests a second, raw flash = 1")


def writes():
    """Writes under write-back by target and load, to raw flash."""
    series = {"hearth, vhost-user : raw": "hearth, vhost-user", "hearth, NBD : raw": "hearth, NBD",
              "nbdkit : raw": "nbdkit, cache filter, writeback (page cache)"}
    (header, rows), = tables("back_writes")
    groups, values = header[1:], {}
    for row in rows:
        if row[0] in series:
            for group, figure in zip(groups, row[1:]):
                values[group, series[row[0]]] = (float(figure),) * 3
    return bars(groups, list(series.values()), values, "writes a second, raw flash = 1")


def main():
    for name, picture in (("read-hits", read_hits()), ("writes", writes())):
        with open(os.path.join(FIGURES, f"{name}.svg"), "w", encoding="utf-8") as file:
            file.write(picture)


main()
