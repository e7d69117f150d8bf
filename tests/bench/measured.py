# SPDX-License-Identifier: Apache-2.0
"""Figures of libraries that took turns, and what they say of ours."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable
from typing import Any

OURS, PEER, LIMIT = "ours", "peer", "limit"


@dataclasses.dataclass
class Column:
    """One library, or one way to use it."""

    name: str
    kind: str  # OURS, PEER or LIMIT
    run: Callable[[], dict[str, float]]
    values: dict[str, list[float]] = dataclasses.field(default_factory=dict)

    def median(self, case: str) -> float | None:
        """Of its turns; None where it has no such case."""
        return statistics.median(self.values[case]) if case in self.values else None


@dataclasses.dataclass
class Measured:
    """A table: cases by columns, microseconds unless `unit` says otherwise."""

    title: str
    key: str
    columns: list[Column]

    def take_turns(self, rounds: int) -> Measured:
        """Runs each column so many times, forwards and backwards in turn (ABBA), so that a machine
        that changes underneath falls on all."""
        failed: set[str] = set()
        for turn in range(rounds):
            for column in self.columns[:: 1 if turn % 2 == 0 else -1]:
                if column.name in failed:
                    continue
                got = column.run()
                if not got:
                    failed.add(column.name)  # said by then
                for case, value in got.items():
                    if value > 0:  # below: what DDP adds to a step is lost in the step
                        column.values.setdefault(case, []).append(value)
        self.columns = [column for column in self.columns if column.values]
        return self

    @property
    def cases(self) -> list[str]:
        """In the order in which they were measured."""
        return list(dict.fromkeys(case for column in self.columns for case in column.values))

    def best(self, case: str, kind: str) -> tuple[float, str] | None:
        """The least median of the columns of a kind, and whose it is."""
        found = [
            (median, column.name)
            for column in self.columns
            if column.kind == kind and (median := column.median(case)) is not None
        ]
        return min(found) if found else None

    def ratio(self, case: str, kind: str) -> float | None:
        """Time of the first column of ours over the best of a kind; None: one of them is missing."""
        ours = next((column for column in self.columns if column.kind == OURS), None)
        mine = None if ours is None else ours.median(case)
        best = self.best(case, kind)
        return None if mine is None or best is None else mine / best[0]

    def lost(self) -> list[str]:
        """Cases in which a peer is faster than the first column of ours."""
        return [case for case in self.cases if (self.ratio(case, PEER) or 0) > 1]

    def facts(self) -> dict[str, Any]:
        """For a file."""
        columns = [
            {"name": column.name, "kind": column.kind, "values": column.values}
            for column in self.columns
        ]
        return {"title": self.title, "key": self.key, "columns": columns}

    @classmethod
    def of(cls, facts: dict[str, Any]) -> Measured:
        """What facts() told."""
        columns = [
            Column(one["name"], one["kind"], dict, one["values"]) for one in facts["columns"]
        ]
        return cls(facts["title"], facts["key"], columns)


def number(value: float | None) -> str:
    """As tables write it: three digits, or all before the point."""
    if value is None:
        return ""
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"


def text_table(measured: Measured) -> str:
    """For a terminal: median and least of each column; a star where a peer is faster."""
    lines = [f"\n{measured.title}; median (least) of turns", ""]
    head = f"{'':22}" + "".join(f"{column.name:>24}" for column in measured.columns)
    lines[1] = head + f"{'to best peer':>16}{'to limit':>10}"
    for case in measured.cases:
        row = f"{case:22}"
        for column in measured.columns:
            values = column.values.get(case)
            shown = "-"
            if values:
                shown = f"{number(statistics.median(values))} ({number(min(values))})"
            row += f"{shown:>24}"
        to_best, to_limit = measured.ratio(case, PEER), measured.ratio(case, LIMIT)
        star = " *" if to_best is not None and to_best > 1 else "  "
        row += f"{'-' if to_best is None else f'{to_best:.2f}{star}':>16}"
        lines.append(row + f"{'-' if to_limit is None else f'{to_limit:.2f}':>10}")
    if any(column.kind == PEER for column in measured.columns):
        lost = measured.lost()
        compared = sum(measured.ratio(case, PEER) is not None for case in measured.cases)
        lines.append(
            f"no peer is faster in {compared - len(lost)} of {compared} cases"
            + (f"; * one is in: {', '.join(lost)}" if lost else "")
        )
    return "\n".join(lines)
