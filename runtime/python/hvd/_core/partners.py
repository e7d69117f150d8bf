# SPDX-License-Identifier: Apache-2.0
"""Copies of what each rank has of its own, in the memory of another rank."""

from __future__ import annotations

import socket
from array import array
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

from hvd._core import _lib, api, handles
from hvd._core._lib import quick
from hvd._core.work import Work
from hvd.errors import HvdError

# What trains goes first.
_PRIORITY = -1


def partners_of(nodes: Sequence[Hashable]) -> list[int]:
    """Which rank keeps the copies of each, from the node of each rank: one on the next node.

    On a single node the next rank; a rank that is alone has itself.

    >>> partners_of(["a", "a", "b", "b"]), partners_of("abab"), partners_of("aaa"), partners_of("a")
    ([2, 3, 0, 1], [1, 0, 3, 2], [1, 2, 0], [0])
    """
    members: dict[Hashable, list[int]] = {}
    for rank, node in enumerate(nodes):
        members.setdefault(node, []).append(rank)
    if len(members) == 1:
        return [(rank + 1) % len(nodes) for rank in range(len(nodes))]
    rows = list(members.values())
    partners = [0] * len(nodes)
    for row, following in zip(rows, [*rows[1:], rows[0]]):
        for place, rank in enumerate(row):
            partners[rank] = following[place % len(following)]
    return partners


def node_of_this_rank() -> Hashable:
    """What all ranks of a node have in common, and no other."""
    # Ranks of virtual nodes have one host; where nodes differ in size no number of ours says which.
    return api.cross_rank() if quick.hvd_is_homogeneous() else socket.gethostname()


class Standing(NamedTuple):
    """What a rank has of a version: its own values, and copies of others.

    Attributes
    ----------
    rank
        Which it was; -1: none.
    size
        How many there were; 0: it was none.
    held
        Ranks of then whose copies it keeps.
    is_live
        It has later values than those of the version: it has left without a loss.
    node
        Where it is.
    """

    rank: int
    size: int
    held: tuple[int, ...]
    is_live: bool
    node: Hashable


def holders_of(standings: Sequence[Standing]) -> list[int | None]:
    """For each rank of then the rank of now that has its values; None: nobody.

    >>> old, new = Standing(1, 2, (0,), False, ""), Standing(-1, 0, (), False, "")
    >>> holders_of([old, new])  # rank 0 of two was lost, and rank 1 has become rank 0
    [0, 0]
    >>> holders_of([new, old._replace(held=())])
    [None, 1]
    """
    found: list[int | None] = [None] * max(one.size for one in standings)
    for now, one in enumerate(standings):
        for then in one.held:
            if found[then] is None:
                found[then] = now
    for now, one in enumerate(standings):
        if one.rank >= 0:
            found[one.rank] = now
    return found


class OwnCopy:
    """What a rank had of its own at a save, packed, and what it keeps for others of that save.

    Attributes
    ----------
    rank, size
        Of then; -1 and 0: the job had not begun.
    data
        Its own values.
    is_whole
        The copies have gone out and come in.
    """

    def __init__(self, data: array) -> None:
        begun = api.is_initialized()
        self.rank = api.rank() if begun else -1
        self.size = api.size() if begun else 0
        self.data = data
        self.is_whole = False
        self.spare: array | None = None
        self._held: Mapping[int, memoryview] = {}

    def with_data(self, data: array) -> OwnCopy:
        """Other values of the same rank."""
        new = OwnCopy(data)
        new.rank, new.size = self.rank, self.size
        return new

    @property
    def held(self) -> tuple[int, ...]:
        """Ranks of then whose copies are here."""
        return tuple(self._held)

    def of(self, rank: int) -> Any:
        """The bytes of one of these, or of this rank."""
        return self.data if rank == self.rank else self._held[rank]

    def take(self, held: Mapping[int, memoryview], spare: array | None) -> None:
        """The copies are there; `spare` is the memory that they are in."""
        self._held, self.spare, self.is_whole = held, spare, True

    def add(self, held: Mapping[int, memoryview]) -> None:
        """Copies of more ranks are here."""
        self._held = {**self._held, **held}


class Exchange:
    """Bytes on their way to other ranks, and from them.

    Parameters
    ----------
    parts
        By rank: the bytes for it.
    name
        Of the operation, in which all ranks take part.
    into
        Memory that may be written to.
    """

    def __init__(self, parts: Mapping[int, Any], name: str, into: array | None = None) -> None:
        one = next(iter(parts.values()), None)
        if len(parts) == 1 and isinstance(one, array):
            data = one
        else:
            data = array("B", b"".join(parts[rank] for rank in sorted(parts)))
        splits = [len(parts.get(rank, b"")) for rank in range(api.size())]
        tensor = api.tensor_struct(
            *(_lib.DTYPES["uint8"], (len(data),), 0),
            *(_address(data), _address(into) if into is not None else 0),
        )
        tensor.splits = _lib.shape_array(tuple(splits))
        tensor.split_count = len(splits)
        tensor.output_bytes = len(into) if into is not None else 0
        self._job = api.job()

        def result(handle: int) -> tuple[dict[int, memoryview], array]:
            return _received(handle, into)

        work = Work(_lib.ALLTOALL, name, priority=_PRIORITY)
        self._handle = handles.start(work, [tensor], (data, into), result)

    def wait(self) -> tuple[dict[int, memoryview], array]:
        """What came, by rank, and the memory that it is in."""
        return handles.synchronize(self._handle)

    def result_if_over(self) -> tuple[dict[int, memoryview], array] | None:
        """The same without a wait; None: it is not there, and does not come any more."""
        try:
            # A handle of another job is a number that means nothing.
            if api.job() == self._job and handles.poll(self._handle):
                return self.wait()
        except HvdError:
            pass
        return None


def _address(memory: array) -> int:
    return memory.buffer_info()[0] if len(memory) else 0


def _received(handle: int, into: array | None) -> tuple[dict[int, memoryview], array]:
    gathered = api.gathered(handle)
    total = sum(gathered.rows)
    if into is None or not total or gathered.address != _address(into):
        into = array("B", _lib.bytes_at(gathered.address, total))
    view, begin, held = memoryview(into), 0, {}
    for rank, count in enumerate(gathered.rows):
        if count:
            held[rank] = view[begin : begin + count]
        begin += count
    return held, into


def exchanged(parts: Mapping[int, Any], name: str) -> Mapping[int, Any]:
    """What the other ranks have for this one, after all have given theirs.

    >>> {rank: bytes(part) for rank, part in exchanged({api.rank(): b"mine"}, "mine").items()}
    {0: b'mine'}
    """
    return Exchange(parts, name).wait()[0]
