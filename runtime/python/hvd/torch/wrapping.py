# SPDX-License-Identifier: Apache-2.0
"""Optimizers that take the place of another one of the same class."""

from __future__ import annotations

from typing import Any


class Wrapped:
    """What an optimizer that stands for another shares with it."""

    _hvd_given: Any

    def _givens(self) -> list[Any]:
        """The optimizers that this one was made of."""
        found: list[Any] = []
        inner: Any = self
        while inner is not None:
            inner = inner.__dict__.get("_hvd_given")
            if inner is not None:
                found.append(inner)
        return found

    def _tell_schedulers(self) -> None:
        # One made before the wrapping looks at the optimizer it was given, and would warn.
        for given in self._givens():
            given._opt_called = True
            given._step_count = getattr(given, "_step_count", 0) + 1

    def load_state_dict(self, *args: Any, **kwargs: Any) -> None:
        """Takes over what ``state_dict()`` gave, also for schedulers of the given optimizer."""
        super().load_state_dict(*args, **kwargs)  # type: ignore[misc]
        for given in self._givens():
            for name in ("state", "param_groups"):
                given.__dict__[name] = self.__dict__[name]

    def __reduce_ex__(self, protocol: Any) -> Any:
        if len(self._givens()) > 1:
            return self._hvd_given.__reduce_ex__(protocol)
        # The hooks belong to this process: a copy, or what a file gives, is the plain optimizer.
        return plain, (type(self._hvd_given), self.__getstate__())  # type: ignore[attr-defined]


def plain(kind: type, state: dict[str, Any]) -> Any:
    """An optimizer of this class with this state."""
    made: Any = object.__new__(kind)
    made.__setstate__(state)
    return made


def wrap(optimizer: Any, kind: type) -> Any:
    """An optimizer of the class of `optimizer` with `kind` before it, which shares its state."""
    given = type(optimizer)
    wrapped: Any = object.__new__(type(given.__name__, (kind, given), {}))
    wrapped.__dict__.update(optimizer.__dict__)
    # A scheduler made before may have put its own step into the instance, bound to `optimizer`.
    wrapped.__dict__.pop("step", None)
    wrapped._hvd_given = optimizer
    return wrapped
