# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's errors as ours: both at once, so that either ``except`` finds them."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Iterator

import tensorflow as tf

from hvd.errors import BY_STATUS, HvdError

# The plugin's failure.cc writes both.
_PAYLOAD = b"type.hvd/status"
_MARK = re.compile(r"HvdError status=([A-Z_]+): (.*?)(?:\s*\[Op:|\n\t? ?\[\[|$)", re.DOTALL)
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


@functools.cache
def _both(ours: type[HvdError], theirs: type[tf.errors.OpError]) -> type:
    """A class that is both."""
    return type(ours.__name__, (ours, theirs), {"__module__": ours.__module__})


def of(error: BaseException) -> HvdError | None:
    """The ``HvdError`` behind an error of TensorFlow; None where it is not ours.

    It is an instance of the TensorFlow class too, with its `op`, `message` and payloads.
    """
    if isinstance(error, HvdError):
        return error
    if not isinstance(error, tf.errors.OpError):
        return None
    found = _MARK.search(error.message or "")
    name = (error.experimental_payloads or {}).get(_PAYLOAD, b"").decode()
    if not name and found is None:
        return None
    ours = BY_STATUS.get(_NAMES.get(name or found.group(1), 0), HvdError)
    text = found.group(2) if found else error.message
    result = _both(ours, type(error))(text)
    tf.errors.OpError.__init__(result, error.node_def, error.op, text, error.error_code)
    result._experimental_payloads = error.experimental_payloads
    return result


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
