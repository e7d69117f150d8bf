# SPDX-License-Identifier: Apache-2.0
"""What autograd says of a backward pass: a gradient is complete, the pass is over."""

from __future__ import annotations

import functools
import os
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

import torch


def on_gradient(parameter: torch.Tensor, hook: Callable[[torch.Tensor], None]) -> tuple[Any, Any]:
    """Calls `hook(parameter)` when its gradient is complete; what keeps and what ends this."""
    register = getattr(parameter, "register_post_accumulate_grad_hook", None)
    if register is not None:
        return None, register(hook)
    # Before torch 2.1: the node that accumulates the gradient, found behind any view.
    with torch.enable_grad():  # off at the end of a backward pass
        node = parameter.expand_as(parameter).grad_fn.next_functions[0][0]  # type: ignore[union-attr]
    found = weakref.ref(parameter)

    def on_node(*unused: Any) -> None:
        found_parameter = found()
        if found_parameter is not None:
            hook(found_parameter)

    return node, node.register_hook(on_node)


def is_nested() -> bool:
    """True in a backward pass that another one calls, as reentrant checkpoints do."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "apply" and frame.f_code.co_filename.endswith(_FUNCTION):
            return True
        frame = frame.f_back
    return False


_FUNCTION = os.path.join("torch", "autograd", "function.py")

# Whose end is queued, so that an exception of one end does not leave out the others for ever: torch
# calls none after it.
_queued: weakref.WeakSet[PassEnd] = weakref.WeakSet()


class PassEnd:
    """Calls a function once at the end of each backward pass; its hooks call ``begin()``.

    Parameters
    ----------
    action
        Called on the thread that ends the pass, before ``backward()`` returns; what it raises,
        ``backward()`` raises. It is given whether the pass is nested in another. Referred to weakly:
        a bound method.
    is_used
        Whether it is called at all.
    """

    def __init__(self, action: Callable[[bool], None], is_used: bool) -> None:
        self._action = weakref.WeakMethod(action)
        self._is_used = is_used
        # In a list, for hooks that look at it in each call.
        self.is_queued = [False]
        self._thread = 0

    def begin(self) -> None:
        """A hook runs for the first time in this pass."""
        self.is_queued[0] = True
        if not self._is_used:
            return
        self._thread = threading.get_ident()
        _queued.add(self)
        end = functools.partial(self._end, is_nested())
        torch.autograd.Variable._execution_engine.queue_callback(end)  # type: ignore[attr-defined]

    def reset(self) -> None:
        """The next hook that runs is the first of a pass."""
        self.is_queued[0] = False
        _queued.discard(self)

    def _end(self, nested: bool) -> None:
        self.reset()
        action = self._action()
        if action is None:
            return
        try:
            action(nested)
        except BaseException:
            for other in list(_queued):
                if other._thread == self._thread:
                    other.reset()
            raise
