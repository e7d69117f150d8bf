# SPDX-License-Identifier: Apache-2.0
"""What each rank saves as its own, and how another number of ranks finds its way in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch

from hvd.errors import InvalidArgumentError


class Slice(NamedTuple):
    """What one rank has of a flat tensor that is cut between ranks.

    Parameters
    ----------
    tensor
        Of one dimension; may be empty.
    offset
        Where it begins in the whole.
    whole
        How many elements the whole has.

    >>> Slice(torch.zeros(3), offset=4, whole=7).offset
    4
    """

    tensor: torch.Tensor
    offset: int
    whole: int


class Row(NamedTuple):
    """What an index says of a slice."""

    offset: int
    length: int
    whole: int
    dtype: str


class Part(NamedTuple):
    """What an index says of what one rank saved."""

    name: str
    size: int
    crc32: int
    rows: dict[str, Row]


class Overlap(NamedTuple):
    """Elements of a cut that one part has."""

    part: int
    begin: int  # in the slice of the part
    end: int
    to: int  # in the cut


def even_cut(whole: int, size: int, rank: int) -> tuple[int, int]:
    """Offset and length of a rank where so many elements are cut evenly; the first have one more.

    >>> [even_cut(7, 3, rank) for rank in range(3)]
    [(0, 3), (3, 2), (5, 2)]
    """
    each, more = divmod(whole, size)
    return rank * each + min(rank, more), each + (rank < more)


def parts_of(count: int, size: int, rank: int) -> range:
    """Which of the parts belong to a rank, each to one; as many as ranks: its own.

    >>> [list(parts_of(3, 2, rank)) for rank in range(2)]
    [[0, 1], [2]]
    """
    first, length = even_cut(count, size, rank)
    return range(first, first + length)


def overlaps(rows: list[Row | None], offset: int, length: int) -> list[Overlap]:
    """Where the elements of a cut are, by part.

    >>> overlaps([Row(0, 4, 6, "float32"), None, Row(4, 2, 6, "float32")], offset=3, length=3)
    [Overlap(part=0, begin=3, end=4, to=0), Overlap(part=2, begin=0, end=2, to=1)]
    """
    found = []
    for part, row in enumerate(rows):
        if row is None:
            continue
        begin = max(offset, row.offset)
        end = min(offset + length, row.offset + row.length)
        if begin < end:
            found.append(Overlap(part, begin - row.offset, end - row.offset, begin - offset))
    return found


def mistake_in(tables: list[dict[str, Row]]) -> str | None:
    """What is wrong with the slices of all ranks: each element of a whole has one rank.

    >>> mistake_in([{"m": Row(0, 2, 4, "float32")}, {"m": Row(3, 1, 4, "float32")}])
    "slice 'm': no rank has elements 2 to 2 of 4"
    """
    for name in sorted(set().union(*tables)):
        rows = [(table[name], rank) for rank, table in enumerate(tables) if name in table]
        first, first_rank = rows[0]
        for row, rank in rows:
            if (row.whole, row.dtype) != (first.whole, first.dtype):
                return (
                    f"slice {name!r}: of {row.whole} elements of {row.dtype} on rank {rank}, of "
                    f"{first.whole} of {first.dtype} on rank {first_rank}"
                )
        end, before = 0, first_rank
        for row, rank in sorted(pair for pair in rows if pair[0].length):
            if row.offset > end:
                return (
                    f"slice {name!r}: no rank has elements {end} to {row.offset - 1} of {row.whole}"
                )
            if row.offset < end:
                return (
                    f"slice {name!r}: ranks {before} and {rank} both have element {row.offset} of "
                    f"{row.whole}"
                )
            end, before = row.offset + row.length, rank
        if end < first.whole:
            return (
                f"slice {name!r}: no rank has elements {end} to {first.whole - 1} of {first.whole}"
            )
    return None


def taken_apart(shard: Any) -> tuple[Any, dict[str, Row]]:
    """A shard with tensors in the place of slices, and what is to be known of these, by name.

    >>> taken_apart({"adam": {"m": Slice(torch.zeros(2), 1, 4)}})[1]
    {'adam.m': Row(offset=1, length=2, whole=4, dtype='float32')}
    """
    rows: dict[str, Row] = {}

    def note(name: str, one: Slice) -> torch.Tensor:
        if name in rows:
            raise InvalidArgumentError(f"shard: two slices have the name {name!r}: rename one")
        rows[name] = _checked(name, one)
        return one.tensor

    return _replaced(shard, "", lambda name, value: isinstance(value, Slice), note), rows


def put_together(shard: Any, rows: Mapping[str, Row]) -> Any:
    """The shard as it was before ``taken_apart()``."""

    def is_slice(name: str, value: Any) -> bool:
        return name in rows and isinstance(value, torch.Tensor)

    def slice_of(name: str, tensor: torch.Tensor) -> Slice:
        return Slice(tensor, rows[name].offset, rows[name].whole)

    return _replaced(shard, "", is_slice, slice_of)


def tensors_of(shard: Any, rows: Mapping[str, Row]) -> dict[str, torch.Tensor]:
    """The tensors of the slices of a part, by name."""
    found: dict[str, torch.Tensor] = {}

    def is_slice(name: str, value: Any) -> bool:
        return name in rows and isinstance(value, torch.Tensor)

    _replaced(shard, "", is_slice, found.__setitem__)
    return found


def _checked(name: str, one: Slice) -> Row:
    tensor, offset, whole = one
    if not isinstance(tensor, torch.Tensor) or tensor.dim() != 1:
        what = f"shape {list(tensor.shape)}" if hasattr(tensor, "shape") else type(tensor).__name__
        raise InvalidArgumentError(
            f"slice {name!r}: {what} is not a tensor of one dimension: flatten it"
        )
    if offset < 0 or offset + len(tensor) > whole:
        raise InvalidArgumentError(
            f"slice {name!r}: {len(tensor)} elements from {offset} on are not within {whole}"
        )
    dtype = str(tensor.dtype).removeprefix("torch.")
    return Row(int(offset), len(tensor), int(whole), dtype)


def _replaced(value: Any, name: str, fits: Callable[..., bool], change: Callable[..., Any]) -> Any:
    """A copy in which what fits is changed; names are those of keys and places, with dots between."""
    if fits(name, value):
        return change(name, value)
    begin = f"{name}." if name else ""
    if type(value) is dict:
        return {
            key: _replaced(entry, f"{begin}{key}", fits, change) for key, entry in value.items()
        }
    if type(value) in (list, tuple):
        return type(value)(
            _replaced(entry, f"{begin}{place}", fits, change) for place, entry in enumerate(value)
        )
    return value


class Shards:
    """What the ranks saved as ``shard``, which this rank reads when it is asked for.

    ``shards[k]`` is that of rank k of then, and ``len(shards)`` says how many there were. Reading is
    a matter of each rank alone: no other need do the same.

    Parameters
    ----------
    parts
        What the index says of each.
    rank, size
        Of this process now.
    read
        Gives the content of a part.
    """

    def __init__(self, parts: list[Part], rank: int, size: int, read: Callable[[int], Any]) -> None:
        self._parts = parts
        self._rank = rank
        self._size = size
        self._read = read

    def __len__(self) -> int:
        return len(self._parts)

    def __getitem__(self, rank: int) -> Any:
        if not 0 <= rank < len(self._parts):
            raise IndexError(f"shards[{rank}]: {len(self._parts)} ranks saved one")
        return put_together(self._read(rank), self._parts[rank].rows)

    def assigned(self) -> list[int]:
        """Whose this rank is to take over: its own where there are as many ranks as then.

        Each belongs to one rank; where there are fewer than ranks, some have none.
        """
        return list(parts_of(len(self._parts), self._size, self._rank))

    def slices(self, cut: Callable[[str, int], tuple[int, int]] | None = None) -> dict[str, Slice]:
        """What this rank has now of each flat tensor that was saved in slices.

        Parameters
        ----------
        cut
            Gives offset and length of this rank for the name of a slice and the length of the whole;
            as evenly as can be unless given. Names are the keys in the shard, with dots between.

        Raises
        ------
        InvalidArgumentError
            A cut is not within its whole.
        """
        wanted: dict[str, Slice] = {}
        pieces: dict[int, list[tuple[str, Overlap]]] = {}
        for name in sorted(set().union(*(part.rows for part in self._parts))):
            rows = [part.rows.get(name) for part in self._parts]
            row = next(filter(None, rows))
            whole = row.whole
            offset, length = cut(name, whole) if cut else even_cut(whole, self._size, self._rank)
            if offset < 0 or length < 0 or offset + length > whole:
                raise InvalidArgumentError(
                    f"rank {self._rank}: slices(): {length} elements from {offset} on of slice "
                    f"{name!r} are not within {whole}"
                )
            memory = torch.empty(length, dtype=getattr(torch, row.dtype))
            wanted[name] = Slice(memory, offset, whole)
            for overlap in overlaps(rows, offset, length):
                pieces.setdefault(overlap.part, []).append((name, overlap))
        for part, found in sorted(pieces.items()):
            tensors = tensors_of(self._read(part), self._parts[part].rows)
            for name, (_, begin, end, to) in found:
                wanted[name].tensor[to : to + end - begin] = tensors[name][begin:end]
        return wanted
