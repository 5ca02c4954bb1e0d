# SPDX-License-Identifier: Apache-2.0
"""Draws how time and memory grow with the database: two panels of plain SVG, log-log and flat."""

import math

WIDTH, HEIGHT = 460, 300
LEFT, TOP, RIGHT, BOTTOM = 62, 34, 16, 44
COLOURS = ["#1b6ca8", "#d1495b", "#2e933c", "#8f5fbf", "#888888", "#c77d0a"]
STYLE = "font-family='sans-serif' font-size='11'"


def decades(low, high):
    return [10.0**e for e in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)]


def panel(x0, title, series, ticks_y, unit, place_y):
    """One panel: `series` is {name: [(megabytes, value)]}."""
    sizes = sorted({size for line in series.values() for size, _ in line})
    low, high = sizes[0] * 0.8, sizes[-1] * 1.25

    def x(size):
        part = (math.log10(size) - math.log10(low)) / (math.log10(high) - math.log10(low))
        return x0 + LEFT + part * (WIDTH - LEFT - RIGHT)

    def y(value):
        return HEIGHT - BOTTOM - place_y(value) * (HEIGHT - TOP - BOTTOM)

    out = [f"<text x='{x0 + LEFT}' y='18' {STYLE} font-weight='bold'>{title}</text>"]
    for tick in ticks_y:
        out.append(
            f"<line x1='{x0 + LEFT}' x2='{x0 + WIDTH - RIGHT}' y1='{y(tick):.1f}' "
            f"y2='{y(tick):.1f}' stroke='#ddd'/><text x='{x0 + LEFT - 6}' y='{y(tick) + 4:.1f}' "
            f"{STYLE} text-anchor='end'>{tick:g} {unit}</text>"
        )
    for size in sizes:
        label = f"{size / 1000:.0f} GB" if size >= 950 else f"{size:.0f} MB"
        out.append(
            f"<text x='{x(size):.1f}' y='{HEIGHT - BOTTOM + 16}' {STYLE} "
            f"text-anchor='middle'>{label}</text>"
        )
    for line, colour in zip(series.values(), COLOURS, strict=False):
        points = " ".join(f"{x(size):.1f},{y(value):.1f}" for size, value in line)
        out.append(f"<polyline points='{points}' fill='none' stroke='{colour}' stroke-width='2'/>")
        out += [
            f"<circle cx='{x(size):.1f}' cy='{y(value):.1f}' r='2.5' fill='{colour}'/>"
            for size, value in line
        ]
    for i, (name, colour) in enumerate(zip(series, COLOURS, strict=False)):
        at = x0 + LEFT + i * (WIDTH - LEFT - RIGHT) / len(series)
        out.append(
            f"<text x='{at:.1f}' y='{HEIGHT - 8}' {STYLE} fill='{colour}' "
            f"font-weight='bold'>{name}</text>"
        )
    return out


def draw(points, path):
    """`points`: (command, megabytes, seconds, resident bytes, anonymous bytes)."""
    names = list(dict.fromkeys(point[0] for point in points))
    seconds = {n: [(p[1], p[2]) for p in points if p[0] == n] for n in names}
    memory = {n: [(p[1], p[4] / (1 << 20)) for p in points if p[0] == n] for n in names}
    values = [value for line in seconds.values() for _, value in line]
    ticks = decades(min(values), max(values))
    span = math.log10(ticks[-1]) - math.log10(ticks[0])

    def log_place(value):
        return (math.log10(value) - math.log10(ticks[0])) / span

    body = panel(0, "wall time", seconds, ticks, "s", log_place)
    body += panel(WIDTH, "anonymous memory", memory, [0, 4, 8, 12, 16], "MiB", lambda v: v / 16)
    path.write_text(
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{2 * WIDTH}' height='{HEIGHT}' "
        f"viewBox='0 0 {2 * WIDTH} {HEIGHT}'><rect width='100%' height='100%' fill='white'/>"
        + "".join(body)
        + "</svg>\n"
    )
