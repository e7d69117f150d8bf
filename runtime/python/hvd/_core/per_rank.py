# SPDX-License-Identifier: Apache-2.0
"""Values of an elastic state that each rank has of its own, and that outlive the rank."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hvd import objects
from hvd._core import api
from hvd._core.packing import pack, unpack
from hvd._core.partners import (
    Exchange,
    OwnCopy,
    Standing,
    exchanged,
    holders_of,
    node_of_this_rank,
    partners_of,
)
from hvd._core.refusals import refused
from hvd.errors import HvdError


class StateLostError(HvdError):
    """What a rank had of its own is lost: nobody has a copy of it."""


class PerRank:
    """Marks a value of an elastic state as each rank's own: others do not get that of rank 0.

    At each commit a copy goes to the memory of a partner, a rank of another node where there are
    several. The process that takes the place of a lost rank gets that rank's value of the last commit.

    A value with a method ``fresh_state(rank, size)``, as generators and what compression keeps have it,
    needs neither `reshard` nor `missing`: each rank has what the rank of its number had, the method
    makes what is new or missing, and what ranks of higher numbers had is dropped.

    Parameters
    ----------
    value
        The first value. The state has it under the name that it is given under, without this mark.
    reshard
        ``reshard(parts, rank, size)`` makes the value of this rank where the number of ranks is another
        than before: from `parts`, the values of all ranks of before.
    missing
        ``missing(rank, size)`` makes a value for a rank of before, of `size`, that was lost together with
        its partner. Without it that is a ``StateLostError`` on every rank.

    >>> from hvd import elastic
    >>> state = elastic.ObjectState(epoch=0, shard=elastic.PerRank([1.0, 2.0]))
    >>> state.shard
    [1.0, 2.0]
    """

    def __init__(
        self,
        value: Any,
        reshard: Callable[[list[Any], int, int], Any] | None = None,
        missing: Callable[[int, int], Any] | None = None,
    ) -> None:
        fresh = getattr(value, "fresh_state", None)
        self.value = value
        self.reshard = reshard or (fresh and _by_number(fresh))
        self.missing = missing or fresh


def _by_number(fresh: Callable[[int, int], Any]) -> Callable[[list[Any], int, int], Any]:
    """Gives each rank what the rank of its number had, and the others something fresh."""

    def reshard(parts: list[Any], rank: int, size: int) -> Any:
        return parts[rank] if rank < len(parts) else fresh(rank, size)

    return reshard


def without_marks(values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, PerRank]]:
    """The values as a program sees them, and the marks, by name."""
    marks = {name: value for name, value in values.items() if isinstance(value, PerRank)}
    return {name: marks[name].value if name in marks else values[name] for name in values}, marks


class OwnValues:
    """The values of this rank, where their copies are, and how they come back.

    Parameters
    ----------
    marks
        By name.
    read
        Gives the value of a name.
    write
        Takes the value of a name.
    """

    def __init__(
        self,
        marks: Mapping[str, PerRank],
        read: Callable[[str], Any],
        write: Callable[[str, Any], None],
    ) -> None:
        self.marks = marks
        self.partner_bytes = 0
        self._read = read
        self._write = write
        self._partner: int | None = None
        self._on_its_way: tuple[Exchange, OwnCopy] | None = None

    def copy(self, old: OwnCopy | None) -> OwnCopy:
        """The values as they are now, in the memory of an older copy where they fit."""
        new = OwnCopy(pack(self._values(), None if old is None else old.data))
        new.spare = None if old is None else old.spare
        return new

    def _values(self) -> dict[str, Any]:
        return {name: self._read(name) for name in self.marks}

    def _take(self, values: Mapping[str, Any]) -> None:
        for name, value in values.items():
            self._write(name, value)

    def bring_back(self, copy: OwnCopy) -> None:
        """Makes the values what they were."""
        self._take(unpack(copy.data))

    def send(self, copy: OwnCopy) -> None:
        """Starts the way of a copy to the partner, and of another rank's copy to here."""
        if self._partner is None or self._partner == api.rank():
            copy.is_whole = True
            return
        parts = {self._partner: copy.data}
        self._on_its_way = Exchange(parts, "elastic.partner", copy.spare), copy
        self.partner_bytes += len(copy.data)

    def wait(self) -> None:
        """Until the copies are where they belong, as far as this rank knows."""
        if self._on_its_way is not None:
            exchange, copy = self._on_its_way
            copy.take(*exchange.wait())
            self._on_its_way = None

    def gather(self, copy: OwnCopy) -> None:
        """Gives rank 0, which stays in every job, the copies of all: of the others any may go."""
        parts = {} if api.rank() == 0 else {0: copy.data}
        copy.add(exchanged(parts, "elastic.leaving"))

    def note_arrival(self) -> None:
        """Before this rank leaves a job that has failed: the copies have come, or they never will."""
        if self._on_its_way is not None:
            exchange, copy = self._on_its_way
            self._on_its_way = None
            result = exchange.result_if_over()
            if result is not None:
                copy.take(*result)

    def place(self, copy: OwnCopy | None, version: int, is_live: bool) -> bool:
        """Gives each rank of now its values of a version, or those of now, where all have them.

        Parameters
        ----------
        copy
            Of this version; None: this rank has none.
        version
            The same on all ranks.
        is_live
            This rank has left without a loss.

        Returns
        -------
        bool
            False: all values of the state have to be those of the version, as some are lost.
        """
        standing = Standing(-1, 0, (), False, node_of_this_rank())
        if copy is not None:
            standing = Standing(copy.rank, copy.size, copy.held, is_live, standing.node)
        standings = objects.allgather_object(standing, "elastic.own")
        self._partner = partners_of([one.node for one in standings])[api.rank()]
        size = max(one.size for one in standings)
        if version == 0 and size in (0, api.size()):
            return True  # first values: who takes a place has its own
        old = [one for one in standings if one.rank >= 0]
        keeps_live = len(old) == size and all(one.is_live for one in old)
        if keeps_live and copy is not None:
            copy = copy.with_data(pack(self._values()))
        self._distribute(copy, standings, not keeps_live)
        return keeps_live

    def _distribute(
        self, copy: OwnCopy | None, standings: Sequence[Standing], restores: bool
    ) -> None:
        holders = holders_of(standings)
        lost = [rank for rank, holder in enumerate(holders) if holder is None]
        self._check(lost, len(holders))
        if len(holders) != api.size():
            self._reshard(copy, holders)
            return
        rank = api.rank()
        moves = {
            then: copy.of(then)
            for then, holder in enumerate(holders)
            if copy is not None and holder == rank and then != rank
        }
        # All ranks know whether there are any.
        came: Mapping[int, Any] = {}
        if any(holder not in (None, then) for then, holder in enumerate(holders)):
            came = exchanged(moves, "elastic.moved")
        if holders[rank] is None:
            self._take({name: self._missing(name, rank, len(holders)) for name in self.marks})
        elif holders[rank] != rank:
            self._take(unpack(came[holders[rank]]))  # type: ignore[index]
        elif copy is not None and (restores or copy.rank != rank):
            self._take(unpack(copy.of(rank)))

    def _reshard(self, copy: OwnCopy | None, holders: Sequence[int | None]) -> None:
        mine = {
            then: bytes(copy.of(then))
            for then, holder in enumerate(holders)
            if copy is not None and holder == api.rank()
        }
        packed: dict[int, bytes] = {}
        for one in objects.allgather_object(mine, "elastic.parts"):
            packed.update(one)
        parts = {then: unpack(data) for then, data in packed.items()}
        made = {}
        for name, mark in self.marks.items():
            of_all = [
                parts[then][name] if then in parts else self._missing(name, then, len(holders))
                for then in range(len(holders))
            ]
            assert mark.reshard is not None
            made[name] = mark.reshard(of_all, api.rank(), api.size())
        self._take(made)

    def _missing(self, name: str, rank: int, size: int) -> Any:
        missing = self.marks[name].missing
        assert missing is not None
        return missing(rank, size)

    def _check(self, lost: Sequence[int], size: int) -> None:
        """Raises the same error on all ranks where values are lost, or do not fit the new number."""
        names = [name for name, mark in self.marks.items() if mark.missing is None]
        if lost and names:
            raise StateLostError(
                f"elastic: rank {api.rank()}: {_listed(names)} of rank {_numbers(lost)} lost: the "
                "process that had it, and the partner with the copy, are gone; give "
                "PerRank(..., missing=...), which makes another, or start again from a checkpoint"
            )
        names = [name for name, mark in self.marks.items() if mark.reshard is None]
        if size != api.size() and names:
            raise refused(
                f"elastic: {_listed(names)} is each rank's own, and there are {api.size()} ranks "
                f"now, {size} before: give PerRank(..., reshard=...), which makes the values of "
                "now from those of before, or as many spares as ranks may be lost"
            )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)


def _numbers(ranks: Sequence[int]) -> str:
    verb = "is" if len(ranks) == 1 else "are"
    return f"{', '.join(map(str, ranks))} {verb}"
