"""Tables and plots of series, for the terminal and for a page."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from benchmarks.series.measured import Point, Series


def table(series: Series, points: Sequence[Point]) -> str:
    """Return a Markdown table: a line for each size, and in its cells our time and the ratio of the peer."""
    tasks = list(dict.fromkeys(point.task for point in points))
    found = {(point.size, point.task): point for point in points}
    lines = [f"| {series.axis} | {' | '.join(tasks)} |", f"|---:|{'---:|' * len(tasks)}"]
    for size in sorted({point.size for point in points}):
        cells = [_cell(found[size, task]) for task in tasks if (size, task) in found]
        lines.append(f"| {size:,} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(point: Point) -> str:
    milliseconds = 1e3 * point.ours
    digits = 2 if milliseconds < 10 else 1 if milliseconds < 100 else 0
    return f"{milliseconds:,.{digits}f} ms, {point.ratio:.{1 if point.ratio >= 9.95 else 2}f}x"


def draw(series: Series, points: Sequence[Point], path: Path) -> None:
    """Draw the times of all tasks as SVG, ours and those of the peer."""
    import matplotlib as mpl  # of the extra `bench`

    mpl.use("svg")
    from matplotlib import pyplot

    # Equal figures give equal files.
    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": series.name, "font.size": 9})
    tasks = list(dict.fromkeys(point.task for point in points))
    figure, all_axes = pyplot.subplots(
        1, len(tasks), figsize=(3.1 * len(tasks), 2.8), sharey=True, squeeze=False, layout="constrained"
    )
    for axes, task in zip(all_axes[0], tasks, strict=True):
        of_task = sorted((point for point in points if point.task == task), key=lambda point: point.size)
        sizes = [point.size for point in of_task]
        axes.plot(sizes, [1e3 * point.ours for point in of_task], "o-", color="#d1495b", label="lance-flight")
        axes.plot(sizes, [1e3 * point.peer for point in of_task], "s--", color="#30638e", label=series.peer)
        axes.set(title=task, xlabel=series.axis, yscale="log", xscale="log" if min(sizes) else "linear")
        axes.grid(alpha=0.3)
    all_axes[0][0].set_ylabel(f"{series.times}, ms")
    all_axes[0][0].legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, format="svg", metadata={"Date": None})
    pyplot.close(figure)


def update(page: Path, series: Series, points: Sequence[Point]) -> None:
    """Put the table of a series between its marks in a page, and its plot into the folder beside the page.

    Raises:
        ValueError: The page has no marks for the series.
    """
    marks = f"<!-- series: {series.name} -->", f"<!-- end: {series.name} -->"
    text = page.read_text(encoding="utf-8")
    between = re.compile(re.escape(marks[0]) + ".*?" + re.escape(marks[1]), re.DOTALL)
    if not between.search(text):
        raise ValueError(f"{page.name} has no line `{marks[0]}` with a line `{marks[1]}` after it")
    plot = page.with_suffix("") / f"{series.name}.svg"
    link = f"![Times of the series of {series.name}]({plot.relative_to(page.parent).as_posix()})"
    filled = f"{marks[0]}\n{table(series, points)}\n\n{link}\n{marks[1]}"
    page.write_text(between.sub(lambda _: filled, text), encoding="utf-8")
    draw(series, points, plot)
