# SPDX-License-Identifier: Apache-2.0
"""What a thread that reads ahead shares with the thread that it reads for."""

from __future__ import annotations

import contextlib
import contextvars
import os
import pickle
import random
import sys
from collections.abc import Callable
from typing import Any


def taken_over() -> Callable[[Callable[[], None]], None]:
    """A function that runs another one, on any thread, as this thread would run it.

    With the context variables and, where PyTorch is imported, the gradient mode, the inference
    mode, autocast, the GPU and the stream that this thread has now.

    >>> results = []
    >>> taken_over()(lambda: results.append("run"))
    >>> results
    ['run']
    """
    context = contextvars.copy_context()
    managers = _modes_of_torch()

    def run(action: Callable[[], None]) -> None:
        with contextlib.ExitStack() as stack:
            for make in managers:
                stack.enter_context(make())
            context.run(action)

    return run


def _modes_of_torch() -> list[Callable[[], Any]]:
    torch: Any = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "inference_mode"):  # it is being imported, at most
        return []
    is_inference, has_gradients = torch.is_inference_mode_enabled(), torch.is_grad_enabled()
    modes: list[Callable[[], Any]] = [
        lambda: torch.inference_mode(is_inference),
        lambda: torch.set_grad_enabled(has_gradients),
        _autocast(torch, "cpu"),
    ]
    if torch.cuda.is_initialized():
        device, stream = torch.cuda.current_device(), torch.cuda.current_stream()
        modes.append(lambda: torch.cuda.device(device))
        modes.append(lambda: torch.cuda.stream(stream))
        modes.append(_autocast(torch, "cuda"))
    return modes


def _autocast(torch: Any, kind: str) -> Callable[[], Any]:
    if hasattr(torch, "get_autocast_dtype"):
        enabled, dtype = torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)
    elif kind == "cpu":
        enabled, dtype = torch.is_autocast_cpu_enabled(), torch.get_autocast_cpu_dtype()
    else:
        enabled, dtype = torch.is_autocast_enabled(), torch.get_autocast_gpu_dtype()
    cached = torch.is_autocast_cache_enabled()
    if not enabled:
        return contextlib.nullcontext
    return lambda: torch.autocast(kind, dtype, enabled, cached)


# Functions of torch that draw from its process-wide generator, unless they are given another.
_DRAWING = frozenset(
    """alpha_dropout bernoulli bernoulli_ binomial cauchy_ dropout exponential_ feature_alpha_dropout
    feature_dropout geometric_ log_normal_ multinomial native_dropout normal normal_ poisson rand
    rand_like randint randint_like randn randn_like random_ randperm rrelu rrelu_ uniform_
    _sample_dirichlet _standard_gamma""".split()
)


def draws_after(wait: Callable[[], None]) -> contextlib.AbstractContextManager[Any]:
    """While it is entered, `wait` is called before this thread draws from torch's generator.

    >>> with draws_after(lambda: None):
    ...     pass
    """
    overrides: Any = sys.modules.get("torch.overrides")
    if not hasattr(overrides, "TorchFunctionMode"):
        return contextlib.nullcontext()
    process = os.getpid()  # a worker that is forked from this thread draws for itself alone

    class Waiting(overrides.TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(
            self, function: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            kwargs = kwargs or {}
            if getattr(function, "__name__", "") in _DRAWING and kwargs.get("generator") is None:
                if os.getpid() == process:
                    wait()
            return function(*args, **kwargs)

    return Waiting()


class Generators:
    """Where the process-wide random generators of this process stand."""

    def __init__(self) -> None:
        self._states: dict[str, Any] = {"random": random.getstate()}
        if "numpy.random" in sys.modules:
            state = sys.modules["numpy.random"].get_state(legacy=False)
            self._states["numpy.random"] = pickle.dumps(state)
        torch = sys.modules.get("torch")
        if torch is not None and hasattr(torch, "get_rng_state"):
            self._states["torch"] = _bytes_of(torch.get_rng_state())
            if torch.cuda.is_initialized():
                self._states["torch.cuda"] = _bytes_of(torch.cuda.get_rng_state())

    def moved(self) -> list[str]:
        """The names of those that were drawn from since.

        >>> before = Generators()
        >>> _ = random.random()
        >>> before.moved()
        ['random']
        """
        now = Generators()._states
        return [name for name, state in self._states.items() if state != now[name]]


def _bytes_of(state: Any) -> bytes:
    return pickle.dumps(state.tolist())
