# SPDX-License-Identifier: Apache-2.0
"""One process group: how its operations run, and what PyTorch asks of it."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from typing import Any

from hvd._core import _lib, api, handles
from hvd._core.handles import Described
from hvd.torch.distributed import futures
from hvd.torch.distributed.completion import Completions
from hvd.torch.distributed.futures import Place
from hvd.torch.distributed.work import HvdWork, Operation

KINDS = {
    _lib.ALLREDUCE: "all_reduce",
    _lib.REDUCE: "reduce",
    _lib.REDUCESCATTER: "reduce_scatter",
    _lib.BROADCAST: "broadcast",
    _lib.ALLGATHER: "all_gather",
    _lib.GATHER: "gather",
    _lib.SCATTER: "scatter",
    _lib.ALLTOALL: "all_to_all",
    _lib.BARRIER: "barrier",
}
# Names come again, so that their descriptions are compared once; operations of one name queue.
# Those of callbacks need not start in order, and come again later.
_NAMES = 64
_PLACES = 1024


_ordinals: dict[int, itertools.count[int]] = {}  # by job


def _ordinal() -> int:
    return next(_ordinals.setdefault(api.joins(), itertools.count()))


class Group:
    """One process group: what ``torch.distributed`` calls, for our process set `number`."""

    def __init__(
        self,
        label: str,
        number: int,
        ranks: Sequence[int],
        timeout: float,
        completions: Completions,
    ) -> None:
        self._label = label
        self._set = number
        self._ranks = list(ranks)
        self._timeout = timeout
        self._numbers = itertools.count()
        self._completions = completions
        self._ordinal = _ordinal()

    def _name(self) -> tuple[str, Place]:
        """The name of the next operation, and where callbacks of its future are counted from."""
        place = futures.current()
        if place is not None:
            path = place.name(self._label)
            return f"torch.{self._label}.{path}", Place(path, self._label, self._ordinal)
        count = next(self._numbers)
        place = Place(str(count % _PLACES), self._label, self._ordinal)
        return f"torch.{self._label}.{count % _NAMES}", place

    def _start(
        self,
        work: handles.Work,
        tensors: Sequence[Described],
        options: Any,
        borrowed: Any,
        result: Any,
        finish: Callable[[int], None] | None = None,
    ) -> Any:
        """A ``Work`` of an operation whose memory is `borrowed`; done where nobody wants to go on."""
        name, place = self._name()
        work = work._replace(name=name, process_set=self._set)
        waits = not getattr(options, "asyncOp", True)
        given = getattr(options, "timeout", None)
        seconds = given.total_seconds() if given is not None else -1.0
        deadline = time.monotonic() + (seconds if seconds >= 0 else self._timeout)
        handle = handles.submit(work, tensors, waits)
        api.borrowed["torch.distributed", handle] = borrowed
        what = f"operation '{name}' of process group '{self._label}' ({KINDS[work.kind]})"
        operation = Operation(handle, deadline, what, finish, self._completions)
        started = HvdWork(operation, result, place)
        if waits:
            started.wait()
        self._completions.keep(started)
        return started

    def _root(self, options: Any) -> int:
        return self._ranks[options.rootRank]

    def getBackendName(self) -> str:  # noqa: N802 (PyTorch's name)
        """For ``torch.distributed``."""
        return "hvd"

    name = _get_backend_name = getBackendName

    @property
    def supports_splitting(self) -> bool:
        """Whether a group can be split by its members alone."""
        return False

    @property
    def supports_coalescing(self) -> bool:
        """Whether operations can be recorded one by one to run as one."""
        return False

    def set_timeout(self, timeout: Any) -> None:
        """For operations that start from now on."""
        self._timeout = timeout.total_seconds()

    def shutdown(self) -> None:
        """The group is no longer used."""
        self._completions.stop()

    abort = shutdown
