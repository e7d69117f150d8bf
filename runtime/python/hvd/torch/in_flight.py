# SPDX-License-Identifier: Apache-2.0
"""Gradients that the engine reads and writes, and whether they still are those of the model."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch

from hvd._core import api
from hvd.errors import BackwardPassError
from hvd.torch import tensors

# A gradient as it was when it was sent: itself, its storage, which keeps the memory whatever becomes
# of the tensor, its address, and how often it had been written.
# NEVER: it was written since.
NEVER = -1
Sent = tuple[torch.Tensor, Any, int, int]


def flat_gradient(parameter: torch.Tensor) -> torch.Tensor:
    """The gradient of a parameter as memory that can be replaced; zeros where there is none."""
    gradient = parameter.grad
    if gradient is None:
        return torch.zeros_like(parameter, requires_grad=False)
    flat = gradient
    if gradient.is_sparse:
        flat = gradient.to_dense()
    elif gradient.is_conj() or gradient.is_neg():
        flat = gradient.resolve_conj().resolve_neg()
    if tensors.layout_of(flat.shape, flat.stride()) is None:
        flat = torch.empty_like(parameter, requires_grad=False).copy_(flat)
    return flat


def spoil(wires: dict[int, Sent], index: int) -> None:
    """Another backward pass has written a gradient that is on its way."""
    if index in wires:
        wires[index] = *wires[index][:3], NEVER


def changes(
    wires: Mapping[int, Sent],
    parameters: Sequence[torch.Tensor],
    detached: Collection[int],
    are_read_later: bool,
) -> dict[int, str]:
    """What became of gradients since they were sent, by the index of the parameter.

    Parameters
    ----------
    wires
        The gradients that were sent.
    parameters
        Their parameters, by index.
    detached
        Indices of those that were sent without being the gradient of their parameter.
    are_read_later
        The program ran between sending and this: edits in place count as well. Those that leave no
        trace, by ``.data`` or NumPy, are not seen; views of one tensor have one count of edits.
    """
    changed = {}
    for index, (gradient, _, address, version) in wires.items():
        now: Any = parameters[index].grad
        is_same = now is gradient and now.data_ptr() == address
        is_edited = version == NEVER or (
            are_read_later and is_same and now._version != version and not now._is_view()
        )
        if is_same and not is_edited or index in detached:
            continue
        changed[index] = "removed" if now is None else "edited in place" if is_same else "replaced"
    return changed


def change_error(changed: Mapping[int, str], names: Sequence[str]) -> BackwardPassError:
    """The error of gradients that were changed while they were reduced.

    Parameters
    ----------
    changed
        As from ``changes()``.
    names
        Of the parameters, by index.
    """
    said = [f"'{names[index]}' was {how}" for index, how in changed.items()]
    more = f" and {len(said) - 3} more" if len(said) > 3 else ""
    return BackwardPassError(
        f"rank {api.rank()}: gradients were changed while they were reduced: "
        f"{', '.join(said[:3])}{more}. The other ranks go on with their step, and this one does not. "
        "Let backward() wait for the reduction (wait_in_backward=True), or call "
        "optimizer.synchronize() before you change gradients; a hook on a parameter that changes its "
        "gradient must be registered before the DistributedOptimizer is made"
    )
