# SPDX-License-Identifier: Apache-2.0
"""Making all ranks equal: parameters, optimizer state, objects."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import torch

from hvd import _lib, api
from hvd.process_sets import ProcessSet, global_process_set
from hvd.torch import differentiable, operations


def broadcast_parameters(
    params: Any,
    root_rank: int = 0,
    process_set: ProcessSet = global_process_set,
) -> None:
    """Replaces parameters by those of rank `root_rank`.

    Parameters
    ----------
    params
        A ``state_dict()``, or (name, tensor) pairs such as ``model.named_parameters()``. Entries
        that are no tensors, or none on some rank, must be equal already.

    >>> model = torch.nn.Linear(2, 1)
    >>> broadcast_parameters(model.state_dict(), root_rank=0)
    """
    pairs: Iterable[tuple[str, Any]]
    if isinstance(params, Mapping):
        pairs = sorted(params.items(), key=lambda pair: str(pair[0]))
    else:
        pairs = [
            entry if isinstance(entry, tuple) else (str(number), entry)  # type: ignore[misc]
            for number, entry in enumerate(params)
        ]
    handles = [
        operations.broadcast_async_(tensor.data, root_rank, f"broadcast.{name}", process_set)
        for name, tensor in pairs
        if isinstance(tensor, torch.Tensor)
    ]
    for handle in handles:
        operations.synchronize(handle)


def _bytes(tensor: torch.Tensor) -> bytes:
    return _lib.bytes_at(tensor.data_ptr(), tensor.numel())


def broadcast_object(
    obj: Any = None,
    root_rank: int = 0,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """The object of rank `root_rank`, on every rank; anything that pickle can take.

    >>> broadcast_object({"epoch": 3})
    {'epoch': 3}
    """
    name = name or "object"
    is_root = api.rank() == root_rank
    data = bytearray(pickle.dumps(obj)) if is_root else bytearray()
    length = torch.tensor([len(data)], dtype=torch.int64)
    length = differentiable.broadcast(
        length, root_rank, f"broadcast_object.{name}.size", process_set
    )
    if is_root:
        payload = torch.frombuffer(data, dtype=torch.uint8)
    else:
        payload = torch.empty(int(length), dtype=torch.uint8)
    differentiable.broadcast_(payload, root_rank, f"broadcast_object.{name}.data", process_set)
    return obj if is_root else pickle.loads(_bytes(payload))


def allgather_object(
    obj: Any,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> list[Any]:
    """The objects of all ranks, by rank.

    >>> allgather_object(api.rank()) == list(range(api.size()))
    True
    """
    name = name or "object"
    data = torch.frombuffer(bytearray(pickle.dumps(obj)), dtype=torch.uint8)
    lengths = differentiable.allgather(
        torch.tensor([len(data)], dtype=torch.int64), f"allgather_object.{name}.size", process_set
    )
    everything = _bytes(
        differentiable.allgather(data, f"allgather_object.{name}.data", process_set)
    )
    objects = []
    begin = 0
    for length in lengths.tolist():
        objects.append(pickle.loads(everything[begin : begin + length]))
        begin += length
    return objects


class _Placeholder(NamedTuple):
    """Stands for a tensor in a pickled state."""

    index: int  # type: ignore[assignment]
    shape: tuple[int, ...]
    dtype: torch.dtype


def _without_tensors(value: Any, found: list[torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        found.append(value.detach().contiguous())
        return _Placeholder(len(found) - 1, tuple(value.shape), value.dtype)
    if isinstance(value, dict):
        return {key: _without_tensors(entry, found) for key, entry in value.items()}
    if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
        return type(value)(_without_tensors(entry, found) for entry in value)
    return value


def _with_tensors(value: Any, tensors: dict[int, torch.Tensor]) -> Any:
    if isinstance(value, _Placeholder):
        if value.index not in tensors:
            tensors[value.index] = torch.empty(value.shape, dtype=value.dtype)
        return tensors[value.index]
    if isinstance(value, dict):
        return {key: _with_tensors(entry, tensors) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_with_tensors(entry, tensors) for entry in value)
    return value


def broadcast_optimizer_state(
    optimizer: torch.optim.Optimizer,
    root_rank: int = 0,
    process_set: ProcessSet = global_process_set,
) -> None:
    """Replaces the state of an optimizer by that of rank `root_rank`.

    The other ranks may have none yet (never stepped), or another one; whatever
    ``optimizer.state_dict()`` of the root holds arrives, learning rates included.

    >>> optimizer = torch.optim.Adam(torch.nn.Linear(2, 1).parameters())
    >>> broadcast_optimizer_state(optimizer, root_rank=0)
    """
    found: list[torch.Tensor] = []
    skeleton = _without_tensors(optimizer.state_dict(), found)
    skeleton = broadcast_object(skeleton, root_rank, "optimizer_state", process_set)
    is_root = api.rank() == root_rank
    tensors = dict(enumerate(found)) if is_root else {}
    state = _with_tensors(skeleton, tensors)
    handles = [
        operations.broadcast_async_(
            tensors[index], root_rank, f"optimizer_state.{index}", process_set
        )
        for index in sorted(tensors)
    ]
    for handle in handles:
        operations.synchronize(handle)
    if not is_root:
        optimizer.load_state_dict(state)
