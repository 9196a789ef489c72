"""Hits against flash writes as SVG: lines with a dot for each size, writes on a scale of powers of ten.

What `hearth sim --report` draws for one trace is drawn here for means over traces; on white, so that it can be
read on a dark page too.
"""

import math
from html import escape

WIDTH, HEIGHT = 720, 420
LEFT, RIGHT, TOP, BOTTOM = 56, 16, 12, 44
LEGEND_ROW = 18
COLOURS = ["#868e96", "#e8590c", "#2b8a3e", "#9c6ade", "#1971c2", "#0c8599", "#d6336c", "#b08900"]


def svg(lines, across, up):
    """`lines` by name, each of (writes, hits); the same name before a comma gets the same colour, "in place" dashes."""
    xs = [x for points in lines.values() for x, _ in points if x > 0]
    ys = [y for points in lines.values() for _, y in points]
    low, high = math.floor(math.log10(min(xs)) * 4) / 4, math.ceil(math.log10(max(xs)) * 4) / 4
    top = math.ceil(max(ys) * 20) / 20
    bottom_edge, right_edge = HEIGHT - BOTTOM, WIDTH - RIGHT
    place_x = lambda x: LEFT + (math.log10(x) - low) / (high - low) * (right_edge - LEFT)
    place_y = lambda y: bottom_edge - y / top * (bottom_edge - TOP)
    rows = (len(lines) + 1) // 2
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT + rows * LEGEND_ROW + 8}" '
           'font-family="sans-serif" font-size="12">',
           '<rect width="100%" height="100%" fill="#fff"/>']
    for power in range(math.floor(low), math.ceil(high) + 1):
        for digit in (1, 2, 5):
            value = digit * 10.0 ** power
            if low <= math.log10(value) <= high:
                at = place_x(value)
                out.append(f'<path d="M{at:.1f} {TOP}V{bottom_edge}" stroke="#e9ecef"/><text x="{at:.1f}" y="{bottom_edge + 16}" '
                           f'text-anchor="middle">{value:g}</text>')
    for tenth in range(math.floor(top * 10) + 1):
        at = place_y(tenth / 10)
        out.append(f'<path d="M{LEFT} {at:.1f}H{right_edge}" stroke="#e9ecef"/><text x="{LEFT - 8}" y="{at + 4:.1f}" '
                   f'text-anchor="end">{tenth / 10:.1f}</text>')
    out.append(f'<text x="{(LEFT + right_edge) / 2}" y="{HEIGHT - 8}" text-anchor="middle">{escape(across)}</text>')
    out.append(f'<text transform="translate(14 {(TOP + bottom_edge) / 2}) rotate(-90)" text-anchor="middle">{escape(up)}</text>')
    owners = list(dict.fromkeys(name.rsplit(", ", 1)[0] for name in lines))
    for order, (name, points) in enumerate(lines.items()):
        colour = COLOURS[owners.index(name.rsplit(", ", 1)[0]) % len(COLOURS)]
        dash = ' stroke-dasharray="4 3"' if name.endswith("in place") else ""
        places = [(place_x(x), place_y(y)) for x, y in points if x > 0]
        path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
        out.append(f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>')
        out += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"><title>{escape(name)}: {hits:.4f} at {writes:.4f}</title></circle>'
                for (x, y), (writes, hits) in zip(places, points)]
        left, line = LEFT + order % 2 * (right_edge - LEFT) / 2, HEIGHT + order // 2 * LEGEND_ROW + 8
        out.append(f'<path d="M{left} {line}h24" stroke="{colour}" stroke-width="2"{dash}/><text x="{left + 30}" y="{line + 4}">'
                   f'{escape(name)}</text>')
    return "\n".join([*out, "</svg>", ""])
