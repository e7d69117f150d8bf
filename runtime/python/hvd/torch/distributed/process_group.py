# SPDX-License-Identifier: Apache-2.0
"""How the backend comes to be: its name, its rendezvous, its process sets."""

from __future__ import annotations

import datetime
import functools
import os
import re
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch.distributed as dist
from torch._C import _distributed_c10d as _c10d
from torch.distributed import distributed_c10d

from hvd import process_sets
from hvd._core import api, newcomers
from hvd.errors import InvalidArgumentError, UnsupportedError
from hvd.process_sets import ProcessSet
from hvd.torch import state
from hvd.torch.distributed import futures
from hvd.torch.distributed.collectives import Collectives

NAME = "hvd"


def _base() -> type:
    """What PyTorch lets Python subclass: Backend in newer versions, ProcessGroup in older ones."""
    backend = getattr(_c10d, "Backend", None)
    if backend is None:
        return _c10d.ProcessGroup
    try:
        type("Probe", (backend,), {})(0, 1)
    except TypeError:  # it has no constructor for Python
        return _c10d.ProcessGroup
    return backend


_BASE: Any = _base()


class HvdProcessGroup(Collectives, _BASE):
    """The ranks of a process group, over one of our process sets."""

    def __init__(
        self,
        label: str,
        group_rank: int,
        ranks: Sequence[int],
        timeout: datetime.timedelta,
        store: Any,
    ) -> None:
        _BASE.__init__(self, group_rank, len(ranks))
        number = _set_of(ranks)
        keeps = _BASE is _c10d.ProcessGroup
        Collectives.__init__(self, label, number, ranks, timeout.total_seconds(), keeps, store)


def _set_of(ranks: Sequence[int]) -> int:
    """The number of the process set of these ranks, which is there."""
    wanted = sorted(ranks)
    if wanted != list(ranks):
        raise UnsupportedError(
            f"the ranks {list(ranks)} of a process group of the backend '{NAME}' must be in "
            "ascending order: leave out sort_ranks=False"
        )
    for number in process_sets.process_set_ids():
        if process_sets.process_set_ranks(number) == wanted:
            return number
    raise UnsupportedError(
        f"the ranks {wanted} are not a process set yet: create the group with "
        "torch.distributed.new_group(), which every rank of the job calls"
    )


def _add_set(ranks: Sequence[int]) -> None:
    """Makes the ranks a process set unless they are one; every rank of the job calls it."""
    wanted = sorted(ranks)
    if all(process_sets.process_set_ranks(one) != wanted for one in process_sets.process_set_ids()):
        process_sets.add_process_set(ProcessSet(wanted))


def create(options: Any, unused: Any = None) -> HvdProcessGroup:
    """What ``torch.distributed`` calls for each new process group."""
    ranks = list(options.global_ranks_in_group)
    if not ranks:
        _join(options.group_rank, options.group_size)
        ranks = list(range(options.group_size))
    label, rank = str(options.group_id), options.group_rank
    return HvdProcessGroup(label, rank, ranks, options.timeout, options.store)


def _join(rank: int, size: int) -> None:
    """Joins the job as the rank that the caller says this process is."""
    if not api.is_initialized():
        with _described_as(rank, size):
            process_sets.init()
    if (api.rank(), api.size()) != (rank, size):
        raise InvalidArgumentError(
            f"init_process_group('{NAME}'): this process is rank {api.rank()} of {api.size()} for "
            f"hvd, but rank {rank} of {size} for torch.distributed: start the ranks with "
            "'hvdrun -np N python ...' and init_method='hvd://', or with torchrun"
        )


@contextmanager
def _described_as(rank: int, size: int) -> Iterator[None]:
    """Tells hvd what a script told ``init_process_group()``, where no launcher has said a rank."""
    told = {"RANK": str(rank), "WORLD_SIZE": str(size)}
    missing = [name for name in told if name not in os.environ]
    if len(missing) < len(told) or "HVD_RANK" in os.environ:
        missing = []
    os.environ.update({name: told[name] for name in missing})
    try:
        yield
    finally:
        for name in missing:
            del os.environ[name]


def _rendezvous(url: str, timeout: Any = None, **unused: Any) -> Iterator[tuple[Any, int, int]]:
    """``init_method="hvd://"``: rank and size are hvd's; rank 0 keeps the store."""
    process_sets.init()
    rank, size = api.rank(), api.size()
    if newcomers.is_one:
        raise InvalidArgumentError(
            f"rank {rank}: init_process_group('{NAME}'): this process has come to a job that is at "
            "work: make the group, and the model of DDP, at the head of the function under "
            "hvd.elastic.run, after destroy_process_group() where there is one, and nowhere else"
        )
    limit = timeout if isinstance(timeout, datetime.timedelta) else datetime.timedelta(minutes=30)
    store = None
    if rank == 0:
        name = "localhost" if api.local_size() == size else _name_of_this_host()
        store = dist.TCPStore(name, 0, size, True, limit, False)
        address = (name, store.port)
        state.broadcast_object(address, 0, name="hvd.torch.distributed.store")
    else:
        host, port = state.broadcast_object(None, 0, name="hvd.torch.distributed.store")
        store = dist.TCPStore(host, port, size, False, limit, False)
    yield store, rank, size
    raise RuntimeError("a job that was joined by hvd:// cannot be joined again by the same call")


def _name_of_this_host() -> str:
    """Return the name under which the other hosts find this one.

    A launcher says it in ``MASTER_ADDR`` where it is another one than the host's own: ``n1i`` for
    ``n1``, on the fast network. What names another host (``n10``) was left by another job.
    """
    own = socket.gethostname()
    told = os.environ.get("MASTER_ADDR", "")
    if not re.match(re.escape(own.partition(".")[0]) + r"(?!\d)", told):
        return own
    try:
        socket.getaddrinfo(told, None)
    except OSError:
        return own
    return told


def _names_us(backend: Any) -> bool:
    return NAME in re.split("[:,]", str(backend).lower())


def _prepare_new_groups() -> None:
    """Makes process sets where ``torch.distributed`` creates groups.

    Our process sets are made by all ranks of the job. All ranks call ``new_group()``, but those
    outside of the new group never reach its backend, so the step before that is the place.
    """
    create_group: Any = distributed_c10d._new_process_group_helper

    @functools.wraps(create_group)
    def with_process_set(
        size: Any, rank: Any, ranks: Any, backend: Any, *args: Any, **kwargs: Any
    ) -> Any:
        if ranks and _names_us(backend):
            _add_set(ranks)
        return create_group(size, rank, ranks, backend, *args, **kwargs)

    distributed_c10d._new_process_group_helper = with_process_set
    tagged: Any = getattr(distributed_c10d, "_new_group_with_tag", None)
    if tagged is None:
        return

    @functools.wraps(tagged)
    def by_all_ranks(ranks: Any = None, *args: Any, **kwargs: Any) -> Any:
        backend = (args[1] if len(args) > 1 else kwargs.get("backend")) or dist.get_backend()
        alone = args[4] if len(args) > 4 else kwargs.get("use_local_synchronization")
        if alone and ranks is not None and _names_us(backend):
            raise UnsupportedError(
                f"new_group(use_local_synchronization=True): a group of the backend '{NAME}' is "
                "made by all ranks of the job: leave the argument out and call it everywhere"
            )
        return tagged(ranks, *args, **kwargs)

    distributed_c10d._new_group_with_tag = by_all_ranks


def register() -> None:
    """Makes the backend known to ``torch.distributed``; also its entry point. Again: does nothing.

    Raises
    ------
    UnsupportedError
        This PyTorch has no torch.distributed.

    >>> register()
    """
    if not dist.is_available():
        raise UnsupportedError("this PyTorch was built without torch.distributed")
    if NAME.upper() in dist.Backend._plugins:
        return
    if _BASE.__name__ == "Backend":
        dist.Backend.register_backend(NAME, create, extended_api=True, devices=["cpu"])
    else:
        dist.Backend.register_backend(NAME, create, extended_api=True)
    dist.register_rendezvous_handler(NAME, _rendezvous)
    _prepare_new_groups()
    futures.install()
