# SPDX-License-Identifier: Apache-2.0
"""Writes the page of figures, and its plots, from what compare.py --json has measured.

figures_page.py FILE PAGE: PAGE gets the tables, the folder "figures" beside it the plots (SVG, by
Matplotlib).
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import statistics
import sys

from measured import LIMIT, OURS, PEER, Measured, number

_BYTES = {"8B": 8, "1KB": 1 << 10, "16KB": 16 << 10, "256KB": 1 << 18}
_BYTES |= {"1MB": 1 << 20, "16MB": 16 << 20, "100MB": 100_000_000}
_HEAD = """# Figures beside the peers

Written by `scripts/bench.sh --page` from one run: {machine}.
Each library takes turns with ours, forwards and backwards; a figure is the median of its turns, each the median
of nine batches, for fresh buffers in memory of `std::vector`. Figures of different machines or runs must not be
compared. What they mean, and how each is measured, is in [Performance](performance.md).

In the last columns: our time over that of the fastest peer (**bold** where the peer is faster), and over that of
the least work there is, where two threads do it without name, agreement or copy.
"""


def table(measured: Measured) -> str:
    """As Markdown."""
    names = [column.name for column in measured.columns]
    has_limit = any(column.kind == LIMIT for column in measured.columns)
    head = ["µs", *names, "to the best peer", *(["to the least work"] if has_limit else [])]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for case in measured.cases:
        cells = [case.replace("_", " ")]
        cells += [number(column.median(case)) for column in measured.columns]
        ratio = measured.ratio(case, PEER)
        shown = "" if ratio is None else f"{ratio:.2f}"
        cells.append(f"**{shown}**" if ratio is not None and ratio > 1 else shown)
        if has_limit:
            ratio = measured.ratio(case, LIMIT)
            cells.append("" if ratio is None else f"{ratio:.2f}")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def plot(measured: Measured, operation: str, file: pathlib.Path) -> None:
    """Time over size of one operation, both in powers."""
    import matplotlib  # noqa: PLC0415 (only where there is something to draw)

    matplotlib.use("svg")
    from matplotlib import pyplot  # noqa: PLC0415

    pyplot.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "hvd", "font.size": 9})
    figure, axes = pyplot.subplots(figsize=(7.2, 3.6), layout="constrained")
    for index, column in enumerate(measured.columns):
        points = [
            (_BYTES[case.rpartition("_")[2]], statistics.median(values))
            for case, values in column.values.items()
            if case.startswith(f"{operation}_")
        ]
        if not points:
            continue
        style = {OURS: "-o", PEER: "--s", LIMIT: ":"}[column.kind]
        looks = {"color": f"C{index}", "markersize": 3, "linewidth": 1.2, "label": column.name}
        axes.plot(*zip(*sorted(points)), style, **looks)
    axes.set(xscale="log", yscale="log", xlabel="bytes", ylabel="µs", title=operation)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=7, frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    figure.savefig(file, metadata={"Date": None, "Creator": None})
    pyplot.close(figure)


def operations_of(measured: Measured) -> list[str]:
    """Those that were measured at several sizes."""
    stems = [case.rpartition("_") for case in measured.cases]
    return list(dict.fromkeys(stem for stem, _, size in stems if size in _BYTES and stem))


def main() -> None:
    source, page = map(pathlib.Path, sys.argv[1:3])
    facts = json.loads(source.read_text())
    folder = page.parent / "figures"
    folder.mkdir(exist_ok=True)
    os.environ.setdefault("SOURCE_DATE_EPOCH", "0")
    parts = [_HEAD.format(machine=facts["machine"])]
    for measured in map(Measured.of, facts["tables"]):
        title = measured.title[0].upper() + measured.title[1:]
        parts.append(f"## {title}\n\n{table(measured)}\n")
        for operation in operations_of(measured):
            name = re.sub(r"\W", "_", f"{measured.key}_{operation}") + ".svg"
            plot(measured, operation, folder / name)
            parts.append(f"![Time of {operation} over its size](figures/{name})\n")
    page.write_text("\n".join(parts))


if __name__ == "__main__":
    main()
