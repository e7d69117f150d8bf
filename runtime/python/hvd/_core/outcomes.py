# SPDX-License-Identifier: Apache-2.0
"""What the ranks of ``hvd.run()`` left in its folder: their results, or the failure to raise."""

from __future__ import annotations

import json
import pickle
import re
import time
from pathlib import Path
from typing import Any, NamedTuple

from hvd.errors import DeadlineError, HvdError, RankFailedError

# "hvdrun: rank 2 on host jz2 failed first: exit code 7"
_FIRST_FAILURE = re.compile(
    r"^hvdrun: rank (\d+) on host (\S+) (?:failed first|ended while others worked with it): ([^;\n]*)",
    re.M,
)


class Records(NamedTuple):
    """What each rank that got so far has reported, by rank; `size` is 0 when no rank did."""

    by_rank: dict[int, dict[str, Any]]
    size: int

    @property
    def missing(self) -> list[int]:
        """Ranks that reported nothing."""
        return [rank for rank in range(self.size) if rank not in self.by_rank]


def _record(folder: Path, rank: int) -> dict[str, Any] | None:
    # By name: the list of a folder may be stale where another node wrote the file.
    try:
        return json.loads((folder / f"rank-{rank}.json").read_text())
    except FileNotFoundError:
        return None


def read(folder: Path, expected: int) -> Records:
    """The records of the folder; `expected` ranks, or 0 when only they know."""
    size = expected
    if size == 0:
        numbers = [int(path.stem[5:]) for path in folder.glob("rank-*.json")]
        records = [_record(folder, number) for number in [0, *numbers]]
        size = max((record["size"] for record in records if record), default=0)
    found = {rank: _record(folder, rank) for rank in range(size)}
    return Records({rank: record for rank, record in found.items() if record}, size)


def read_all(folder: Path, expected: int, seconds: float) -> Records:
    """As `read`, of ranks that have ended well: a network file system may show it that late."""
    deadline = time.monotonic() + seconds
    while True:
        records = read(folder, expected)
        if (records.size and not records.missing) or time.monotonic() >= deadline:
            return records
        time.sleep(0.05)


def value_of(folder: Path, rank: int) -> Any:
    """What the function returned on a rank."""
    try:
        return pickle.loads((folder / f"rank-{rank}.value").read_bytes())
    except Exception as failure:
        raise RankFailedError(
            f"the result of rank {rank} cannot be unpickled here: {type(failure).__name__}: "
            f"{failure}",
            rank=rank,
        ) from failure


def check_reported(folder: Path, records: Records, code: int, error_text: str) -> None:
    """Raises the failure that came first, if there is any."""
    raised = [record for record in records.by_rank.values() if not record["ok"]]
    causes = [record for record in raised if not record.get("consequence")]
    if causes:
        raise_reported(folder, min(causes, key=lambda record: record["time"]), raised)
    told = _FIRST_FAILURE.search(error_text)
    if told and int(told.group(1)) not in records.by_rank:
        others = tuple(record["rank"] for record in raised)
        raise RankFailedError(
            f"rank {told.group(1)} on {told.group(2)} ended without a result: {told.group(3)}",
            rank=int(told.group(1)),
            host=told.group(2),
            others=others,
        )
    if raised:
        raise_reported(folder, min(raised, key=lambda record: record["time"]), raised)
    if code != 0:
        last = error_text.strip().splitlines()[-5:]
        raise RankFailedError(
            f"hvdrun ended with exit code {code} before a rank reported anything"
            + ("".join("\n  " + line for line in last) if last else "")
        )
    if records.missing or records.size == 0:
        missing = records.missing or [0]
        raise RankFailedError(
            f"rank {missing[0]} ended with exit code 0 and no result: os._exit()? "
            f"(ranks without a result: {', '.join(map(str, missing))})",
            rank=missing[0],
            others=tuple(missing[1:]),
        )


def raise_reported(folder: Path, first: dict[str, Any], raised: list[dict[str, Any]]) -> None:
    """Raises what a rank reported, with its own exception as the cause."""
    rank = first["rank"]
    others = tuple(record["rank"] for record in raised if record["rank"] != rank)
    text = f"rank {rank} on {first['host']}: {first['type']}: {first['message']}"
    if others:
        text += f"\n(ranks that failed, too: {', '.join(map(str, others))})"
    if first["traceback"]:
        text += f"\n\nThe traceback of rank {rank}:\n{first['traceback'].rstrip()}"
    error = RankFailedError(
        text, rank, first["host"], first["type"], first["traceback"], others=others
    )
    try:
        original = pickle.loads((folder / f"rank-{rank}.value").read_bytes())
    except Exception:
        original = None  # The text tells as much.
    raise error from (original if isinstance(original, BaseException) else None)


def late(folder: Path, records: Records, expected: int, seconds: float) -> HvdError:
    """The error for ranks that did not return in time, with what they were doing."""
    missing = records.missing or list(range(expected))
    who = f"ranks {', '.join(map(str, missing))}" if missing else "the ranks"
    text = f"{who} did not return within {seconds:g} s (timeout=)"
    for rank in missing:
        try:
            stack = (folder / f"rank-{rank}.stack").read_text().rstrip()
        except OSError:
            stack = ""
        if stack:
            text += f"\n\nrank {rank}:\n{stack}"
    return DeadlineError(text)


def stacks_are_there(folder: Path, records: Records) -> bool:
    """True when every rank that has not returned has said where it is."""
    for rank in records.missing:
        path = folder / f"rank-{rank}.stack"
        if not path.exists() or path.stat().st_size == 0:
            return False
    return True
