# SPDX-License-Identifier: Apache-2.0
"""Making all ranks equal: parameters, optimizer state, objects."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import torch
from torch.nn.modules.module import _EXTRA_STATE_KEY_SUFFIX

from hvd._core import api, newcomers
from hvd._core.handles import synchronize
from hvd._core.refusals import refused
from hvd.errors import MismatchError
from hvd.objects import allgather_object, broadcast_object
from hvd.process_sets import ProcessSet, global_process_set
from hvd.torch.ops.allgather import allgather_async
from hvd.torch.ops.broadcast import broadcast_async_

__all__ = [
    "allgather_object",
    "broadcast_object",
    "broadcast_optimizer_state",
    "broadcast_parameters",
]


def broadcast_parameters(
    params: Any,
    root_rank: int = 0,
    process_set: ProcessSet = global_process_set,
) -> None:
    """Replaces parameters by those of rank `root_rank`.

    A process that comes to an elastic job at work does nothing here: it gets the state with
    ``hvd.elastic.run``.

    Parameters
    ----------
    params
        A ``state_dict()``, or (name, tensor) pairs such as ``model.named_parameters()``. Entries
        that are not tensors must be equal already.
    root_rank
        The rank of the job whose values they are.
    process_set
        The ranks that take part, each of which calls it.

    Raises
    ------
    MismatchError
        On every rank, if names differ between ranks.

    >>> model = torch.nn.Linear(2, 1)
    >>> broadcast_parameters(model.state_dict(), root_rank=0)
    """
    if newcomers.is_one:
        return
    pairs: Iterable[tuple[str, Any]]
    if isinstance(params, Mapping):
        if "param_groups" in params:
            raise refused(
                "broadcast_parameters: this is the state of an optimizer: use "
                "broadcast_optimizer_state(optimizer, root_rank)"
            )
        pairs = sorted(params.items(), key=lambda pair: str(pair[0]))
    elif isinstance(params, torch.nn.Module):
        raise refused(
            "broadcast_parameters: pass model.state_dict() or model.named_parameters(), not the "
            f"model ({type(params).__name__})"
        )
    else:
        pairs = [
            entry if isinstance(entry, tuple) else (str(number), entry)  # type: ignore[misc]
            for number, entry in enumerate(params)
        ]
    named = [(name, tensor.data) for name, tensor in pairs if isinstance(tensor, torch.Tensor)]
    _check_names(sorted(str(name) for name, _ in named), process_set)
    handles = [
        broadcast_async_(tensor, root_rank, f"broadcast.{name}", process_set)
        for name, tensor in named
    ]
    for handle in handles:
        synchronize(handle)


def broadcast_module(model: torch.nn.Module, root_rank: int = 0) -> None:
    """Replaces the whole state of a module by that of rank `root_rank`.

    Unlike ``broadcast_parameters()`` also what is not a parameter or buffer of it: ``get_extra_state()``
    and what its ``state_dict()`` makes anew.

    >>> broadcast_module(torch.nn.Linear(2, 1))
    """
    state = model.state_dict()
    extra = {
        name: value
        for name, value in state.items()
        if name.endswith(_EXTRA_STATE_KEY_SUFFIX) or not isinstance(value, torch.Tensor)
    }
    shared = {name: value for name, value in state.items() if name not in extra}
    broadcast_parameters(shared, root_rank)
    gpu = next((one.device for one in model.parameters() if one.is_cuda), torch.device("cuda"))
    extra = _broadcast_state(extra, root_rank, gpu, "module_state", global_process_set)
    if api.rank() != root_rank:
        model.load_state_dict({**shared, **extra})


def _check_names(names: list[str], process_set: ProcessSet) -> None:
    """Refuses, on every rank, parameters that not all ranks have: they would wait for ever."""
    mark = torch.tensor([[len(names), zlib.crc32("\n".join(names).encode())]])
    marks = synchronize(allgather_async(mark, "broadcast_parameters.names", process_set))
    if bool((marks == marks[0]).all()):
        return
    ranks = process_set.ranks or []
    every = allgather_object(names, "broadcast_parameters.names", process_set)
    common = set(every[0]).intersection(*every)
    extra = {rank: sorted(set(mine) - common)[:5] for rank, mine in zip(ranks, every)}
    what = "; ".join(f"rank {rank} alone has {found}" for rank, found in extra.items() if found)
    counts = ", ".join(f"{len(mine)} on rank {rank}" for rank, mine in zip(ranks, every))
    raise MismatchError(
        f"rank {api.rank()}: broadcast_parameters: ranks have different parameters ({counts}): "
        f"{what or 'some have a name more than once'}; build the same model on every rank"
    )


class _Placeholder(NamedTuple):
    """Stands for a tensor in a pickled state."""

    index: int  # type: ignore[assignment]
    shape: tuple[int, ...]
    dtype: torch.dtype
    is_on_gpu: bool


def _without_tensors(value: Any, found: list[torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        found.append(value.detach().contiguous())
        return _Placeholder(len(found) - 1, tuple(value.shape), value.dtype, value.is_cuda)
    if isinstance(value, dict):
        before = len(found)
        plain = {key: _without_tensors(entry, found) for key, entry in value.items()}
        return plain if len(found) > before else value  # of its own class, where it can be
    if type(value) in (list, tuple):
        return type(value)(_without_tensors(entry, found) for entry in value)
    return value


def _with_tensors(value: Any, tensors: dict[int, torch.Tensor], gpu: torch.device) -> Any:
    if isinstance(value, _Placeholder):
        if value.index not in tensors:
            device = gpu if value.is_on_gpu else torch.device("cpu")
            tensors[value.index] = torch.empty(value.shape, dtype=value.dtype, device=device)
        return tensors[value.index]
    if isinstance(value, dict):
        return {key: _with_tensors(entry, tensors, gpu) for key, entry in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_with_tensors(entry, tensors, gpu) for entry in value)
    return value


def _gpu_of(optimizer: torch.optim.Optimizer) -> torch.device:
    """Where the state of this rank belongs that is on a GPU of the root."""
    parameters = (one for group in optimizer.param_groups for one in group["params"])
    return next((one.device for one in parameters if one.is_cuda), torch.device("cuda"))


def broadcast_optimizer_state(
    optimizer: torch.optim.Optimizer,
    root_rank: int = 0,
    model: torch.nn.Module | None = None,
    process_set: ProcessSet = global_process_set,
) -> None:
    """Replaces the state of an optimizer by that of rank `root_rank`.

    The other ranks may have none yet (never stepped), or another one; whatever
    ``optimizer.state_dict()`` of the root holds arrives, learning rates included.

    A process that comes to an elastic job at work does nothing here, as in
    :func:`broadcast_parameters`.

    Parameters
    ----------
    optimizer
        Any optimizer of torch.
    root_rank
        The rank of the job whose state it is.
    model
        As in Horovod, which needs it for some optimizers; not used.
    process_set
        The ranks that take part, each of which calls it.

    >>> model = torch.nn.Linear(2, 1)
    >>> broadcast_optimizer_state(torch.optim.Adam(model.parameters()), root_rank=0)
    """
    if newcomers.is_one:
        return
    state = _broadcast_state(
        optimizer.state_dict(), root_rank, _gpu_of(optimizer), "optimizer_state", process_set
    )
    # On the root as well: torch casts what it loads to the types of the parameters.
    optimizer.load_state_dict(state)


def _broadcast_state(
    state: Any, root_rank: int, gpu: torch.device, name: str, process_set: ProcessSet
) -> Any:
    """The root's state on every rank: tensors as such, all else as objects."""
    found: list[torch.Tensor] = []
    skeleton = _without_tensors(state, found)
    skeleton = broadcast_object(skeleton, root_rank, name, process_set)
    tensors = dict(enumerate(found)) if api.rank() == root_rank else {}
    result = _with_tensors(skeleton, tensors, gpu)
    handles = [
        broadcast_async_(tensors[index], root_rank, f"{name}.{index}", process_set)
        for index in sorted(tensors)
    ]
    for handle in handles:
        synchronize(handle)
    return result
