# SPDX-License-Identifier: Apache-2.0
"""Elastic states that save some values in a way of their own, for any framework."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from hvd._core.copies import copied
from hvd._core.per_rank import without_marks
from hvd._core.refusals import refused
from hvd.data.elastic import ElasticIndices
from hvd.elastic import ObjectState
from hvd.objects import broadcast_object


class StateHandler:
    """How values of one type are saved, restored and made equal; for types of your own, too.

    Parameters
    ----------
    value
        What the state was given.
    """

    def __init__(self, value: Any) -> None:
        self.value = value

    def save(self) -> None:
        """Keeps a copy of the value's state in memory."""

    def restore(self) -> None:
        """Brings back what ``save()`` kept."""

    def sync(self) -> None:
        """Gives every rank the state of rank 0."""

    def reset(self) -> None:
        """Adapts to the job that has started again."""

    def set_value(self, value: Any) -> None:
        """Takes another value in place of the first.

        Parameters
        ----------
        value
            Of the same type.
        """
        self.value = value
        self.save()


class CopiedStateHandler(StateHandler, ABC):
    """How values of one type give and take what is to be kept of them; the state keeps the copies.

    Derive from it, rather than from ``StateHandler``, for types of your own: copies then lie in memory
    that is there, and a commit that is broken off leaves the last one whole.

    Parameters
    ----------
    value
        What the state was given.
    """

    _saved: Any = None

    def __init__(self, value: Any) -> None:
        super().__init__(value)
        self.save()

    @abstractmethod
    def read(self) -> Any:
        """What is to be kept, as it is now: tensors need not be copies."""

    @abstractmethod
    def write(self, kept: Any) -> None:
        """Takes over what ``read()`` gave.

        Parameters
        ----------
        kept
            A copy of that, which must stay as it is.
        """

    def save(self) -> None:
        self._saved = copied(self.read(), self._saved)

    def restore(self) -> None:
        if self._saved is not None:
            self.write(self._saved)


class SamplerStateHandler(CopiedStateHandler):
    """Epoch and progress of an ``ElasticIndices``, as ``hvd.torch.elastic.ElasticSampler`` is.

    Parameters
    ----------
    sampler
        What tells the samples of an epoch that are left.
    """

    def __init__(self, sampler: ElasticIndices) -> None:
        super().__init__(sampler)

    def read(self) -> dict[str, Any]:
        return self.value.state_dict()

    def write(self, kept: dict[str, Any]) -> None:
        # reset() follows, when there is a job again to share the rest out in.
        self.value.epoch = kept["epoch"]
        self.value.processed_num = kept["processed_num"]

    def sync(self) -> None:
        self.value.load_state_dict(broadcast_object(self.value.state_dict(), 0, "sampler"))

    def reset(self) -> None:
        self.value.reset()


@runtime_checkable
class Stateful(Protocol):
    """What gives and takes its state: a scheduler of learning rates, a scaler of losses."""

    def state_dict(self) -> dict[str, Any]:
        """Its state."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Takes a state.

        Parameters
        ----------
        state
            What ``state_dict()`` gave.
        """


class StatefulHandler(CopiedStateHandler):
    """The state of an object that gives and takes it; the object itself stays.

    Parameters
    ----------
    value
        A copy of its state is kept.
    """

    def __init__(self, value: Stateful) -> None:
        super().__init__(value)

    def read(self) -> dict[str, Any]:
        return self.value.state_dict()

    def write(self, kept: dict[str, Any]) -> None:
        self.value.load_state_dict(copy.deepcopy(kept))

    def sync(self) -> None:
        self.value.load_state_dict(broadcast_object(self.value.state_dict(), 0, "stateful"))


Registry = list[tuple[type, Callable[[Any], StateHandler]]]

# What needs no framework; a registry of a framework's own begins with it.
HANDLERS: Registry = [(ElasticIndices, SamplerStateHandler)]


class HandledState(ObjectState):
    """Attributes that survive a reset, some of them through handlers.

    Parameters
    ----------
    registry
        Pairs of a type and its handler; the first that fits a value counts.
    **kwargs
        Name and first value of each attribute. Values that no handler fits are saved by deepcopy.
    """

    _handlers: dict[str, StateHandler]
    _copied: dict[str, CopiedStateHandler]

    def __init__(self, registry: Registry, /, **kwargs: Any) -> None:
        values, marks = without_marks(kwargs)
        found = {name: _handler_of(value, registry) for name, value in values.items()}
        handlers = {name: handler for name, handler in found.items() if handler is not None}
        for name, handler in handlers.items():
            setattr(self, name, handler.value)
        self._handlers = handlers
        # Whose copies this state keeps; the others keep them themselves.
        self._copied = _copied_of(handlers)
        self._apart = {name: one for name, one in handlers.items() if name not in self._copied}
        for handler in self._copied.values():
            handler._saved = None
        if marks:
            _check_none(self._apart)
        rest = {
            name: value for name, value in kwargs.items() if name not in handlers or name in marks
        }
        super().__init__(None, None, **rest)

    def __setattr__(self, name: str, value: Any) -> None:
        handler = self.__dict__.get("_handlers", {}).get(name)
        if handler is not None:
            handler.set_value(value)
        if name in self.__dict__.get("_copied", {}):
            self._keep_replaced(name, self._copied[name])
        super().__setattr__(name, value)

    def _keep_replaced(self, name: str, handler: CopiedStateHandler) -> None:
        """All saves have the value that was exchanged, from now on."""
        handler._saved = None
        for saved in self._kept.all if "_kept" in self.__dict__ else ():
            if name in saved.parts["handlers"]:
                saved.parts["handlers"][name] = copied(handler.read())

    def _save_apart(self) -> None:
        for handler in self._apart.values():
            handler.save()

    def _restore_apart(self) -> None:
        for handler in self._apart.values():
            handler.restore()

    def sync(self) -> None:
        for name, handler in self._handlers.items():
            if not self._is_own(name):
                handler.sync()
        super().sync()

    def _copies(self, old: dict[str, Any] | None) -> dict[str, Any]:
        before = old["handlers"] if old else {}
        handled = {
            name: copied(handler.read(), before.get(name))
            for name, handler in self._copied.items()
            if not self._is_own(name)
        }
        return {"handlers": handled, **super()._copies(old)}

    def _is_own(self, name: str) -> bool:
        return self._own is not None and name in self._own.marks

    def _read_own(self, name: str) -> Any:
        handler = self._copied.get(name)
        return super()._read_own(name) if handler is None else handler.read()

    def _write_own(self, name: str, value: Any) -> None:
        handler = self._copied.get(name)
        if handler is None:
            super()._write_own(name, value)
        else:
            handler.write(value)

    def _bring_back_shared(self, parts: dict[str, Any]) -> None:
        for name, kept in parts["handlers"].items():
            self._copied[name].write(kept)
        super()._bring_back_shared(parts)

    def reset(self) -> None:
        for handler in self._handlers.values():
            handler.reset()


def _handler_of(value: Any, registry: Registry) -> StateHandler | None:
    for kind, handler in registry:
        if isinstance(value, kind):
            return handler(value)
    return None


def _copied_of(handlers: dict[str, StateHandler]) -> dict[str, CopiedStateHandler]:
    """Those whose copies the state keeps; one with a ``save()`` of its own keeps them itself."""
    return {
        name: one
        for name, one in handlers.items()
        if isinstance(one, CopiedStateHandler)
        and type(one).save is CopiedStateHandler.save
        and type(one).restore is CopiedStateHandler.restore
    }


def _check_none(apart: dict[str, StateHandler]) -> None:
    for name, handler in apart.items():
        raise refused(
            f"'{name}' cannot go with values of each rank's own (PerRank): "
            f"{type(handler).__name__} keeps copies itself; derive it from CopiedStateHandler, with "
            "read() and write() in place of save() and restore()"
        )
