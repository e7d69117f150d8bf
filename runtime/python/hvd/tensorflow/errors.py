# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's errors as ours: both at once, so that either ``except`` finds them."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from hvd.errors import BY_STATUS, HvdError, ReplicasDifferError

# The plugin's failure.cc writes it, and _PAYLOAD, which sessions and graphs that are called by graphs
# may lose. TensorFlow adds which node it was.
_MARK = re.compile(
    r"HvdError status=([A-Z_]+): (.*?)(?:\s*\[Op:|\n\t? ?\[\[|\nTraceback|$)", re.DOTALL
)
_PAYLOAD = b"type.hvd/status"
_NAMES = {
    "INVALID_ARGUMENT": 1,
    "MISMATCH": 2,
    "UNSUPPORTED": 3,
    "TIMEOUT": 4,
    "PEER_LOST": 5,
    "SYSTEM": 6,
    "ABORTED": 7,
    "INTERNAL": 8,
}


# What only Python raises.
_OF_PYTHON: dict[str, type[HvdError]] = {"REPLICAS_DIFFER": ReplicasDifferError}

_classes: dict[Any, type] = {}


def _both(ours: type[HvdError], theirs: type) -> type:
    """A class that is both; pickled as ours alone."""
    if (ours, theirs) not in _classes:
        own = {
            "__module__": ours.__module__,
            # In a session theirs adds twenty lines on where the op was made.
            "__str__": lambda self: self.message,
            "__reduce__": lambda self: (ours, (self.message,)),
        }
        _classes[ours, theirs] = type(ours.__name__, (ours, theirs), own)
    return _classes[ours, theirs]


def of(error: BaseException) -> HvdError | None:
    """The ``HvdError`` behind an error of TensorFlow; None where it is not ours.

    It is an instance of the TensorFlow class too, with its `op`, `message` and payloads, among which
    is always the status, as ``{b"type.hvd/status": b"PEER_LOST"}``.
    """
    if isinstance(error, HvdError):
        return error
    if not isinstance(error, tf.errors.OpError):
        return None
    found = _MARK.search(error.message or "")
    if found is None:
        return None
    name, text = found.groups()
    ours = _OF_PYTHON.get(name, BY_STATUS.get(_NAMES.get(name, 0), HvdError))
    result = _both(ours, type(error))(text)
    tf.errors.OpError.__init__(result, error.node_def, error.op, text, error.error_code)
    result._experimental_payloads = {**error.experimental_payloads, _PAYLOAD: name.encode()}
    return result


@contextlib.contextmanager
def marked() -> Iterator[None]:
    """In Python that a graph runs: ``of()`` finds what leaves it, as what a kernel fails with."""
    try:
        yield
    except HvdError as error:
        names = [name for name, kind in _OF_PYTHON.items() if type(error) is kind]
        names += [name for name, number in _NAMES.items() if number == error.status]
        status = names[0]
        raise RuntimeError(f"HvdError status={status}: {error}") from None


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """Errors of collectives inside leave as ``HvdError``; others as they are.

    Around ``model.fit`` or a call of a tf.function::

        with hvd.tensorflow.errors.translated():
            model.fit(...)
    """
    try:
        yield
    except tf.errors.OpError as error:
        found = of(error)
        if found is None or found is error:
            raise
        raise found from error
