# SPDX-License-Identifier: Apache-2.0
"""torch's gradient scalers with a DistributedOptimizer: all ranks skip a step, or none does.

A scaler looks for infinite gradients when it divides them by the scale, and then decides whether to
step. Before that the gradients must be those of all ranks, and so must be what it found where
gradients stay local. The class of the scaler is changed for that, once.
"""

from __future__ import annotations

import functools
import threading
from typing import Any

import torch

_is_watched = False
# The scale of the loss whose backward pass runs in this thread.
_pass = threading.local()


def watch_scalers() -> None:
    """From now on every scaler asks a DistributedOptimizer; called where one is made."""
    global _is_watched
    if _is_watched:
        return
    _is_watched = True
    for module in (torch.cuda.amp, getattr(torch, "amp", None)):
        kind = getattr(module, "GradScaler", None)
        # Of a class and its subclass only where each is defined.
        for name, change in (("_unscale_grads_", _unscaling), ("step", _step), ("scale", _scaling)):
            if kind is not None and name in vars(kind):
                setattr(kind, name, change(vars(kind)[name]))


def loss_scale() -> float:
    """By what the loss was multiplied whose backward pass runs in this thread; 1 without a scaler.

    >>> loss_scale()
    1.0
    """
    scaler = getattr(_pass, "scaler", None)
    return 1.0 if scaler is None else float(scaler.get_scale())


def _unscaling(given: Any) -> Any:
    @functools.wraps(given)
    def unscale(self: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        settle = getattr(optimizer, "_hvd_before_unscale", None)
        if settle is not None:
            settle()
        found = given(self, optimizer, *args, **kwargs)
        agree = getattr(optimizer, "_hvd_agree_on_infinite", None)
        if agree is not None:
            agree(found)
        return found

    return unscale


def _step(given: Any) -> Any:
    @functools.wraps(given)
    def step(self: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        result = given(self, optimizer, *args, **kwargs)
        end = getattr(optimizer, "_hvd_end_step", None)
        if end is not None:
            end()  # also of a step that was skipped
        return result

    return step


def _scaling(given: Any) -> Any:
    @functools.wraps(given)
    def scale(self: Any, outputs: Any, *args: Any, **kwargs: Any) -> Any:
        result = given(self, outputs, *args, **kwargs)
        _end_scaled()  # of a pass that did not come to its end
        if self.is_enabled():
            for one in result if isinstance(result, (list, tuple)) else [result]:
                if isinstance(one, torch.Tensor) and one.requires_grad:
                    one.register_hook(functools.partial(_begin_scaled, self))
        return result

    return scale


def _begin_scaled(scaler: Any, gradient: torch.Tensor) -> None:
    """The backward pass of a scaled loss begins."""
    _pass.scaler = scaler
    torch.autograd.Variable._execution_engine.queue_callback(_end_scaled)  # type: ignore[attr-defined]


def _end_scaled() -> None:
    _pass.scaler = None
