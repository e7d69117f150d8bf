# SPDX-License-Identifier: Apache-2.0
"""Operations on values: what one knows in Python, outside of a compiled step."""

from __future__ import annotations

from typing import Any

import numpy

import hvd
import hvd.numpy
from hvd._core import _lib
from hvd._core.arguments import chosen_op
from hvd._core.refusals import refused
from hvd._core.work import Average
from hvd.keras import backends, generations

_WIRES = {_lib.WIRE_SAME: None, _lib.WIRE_FLOAT16: "float16", _lib.WIRE_BFLOAT16: "bfloat16"}


def allreduce(
    value: Any,
    name: str | None = None,
    average: bool | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    op: int | None = None,
    compression: Any = None,
) -> Any:
    """The reduction over ranks of a value.

    Parameters
    ----------
    value
        A number, an array, a variable, or a tensor that has a value: not one of a ``tf.function``.
    name
        Equal on all ranks; made from the order of calls unless given.
    average
        The old way to say op: True is Average, False is Sum.
    prescale_factor, postscale_factor
        Multiply before and after.
    op
        Average unless given.
    compression
        One of ``hvd.keras.Compression``, for float32 and float64.

    Returns
    -------
    numpy.ndarray
        Of the type and shape of the value.

    >>> allreduce([1.0, 2.0]).tolist()  # on any number of ranks
    [1.0, 2.0]
    """
    return hvd.numpy.allreduce(
        _array("allreduce", value),
        name,
        chosen_op(average, op),
        prescale_factor,
        postscale_factor,
        _wire(compression),
    )


def allgather(value: Any, name: str | None = None) -> Any:
    """The rows of all ranks, by rank; their number may differ. See ``allreduce``.

    Parameters
    ----------
    value, name
        As of ``allreduce``.

    >>> len(allgather([7.0])) == hvd.size()
    True
    """
    return hvd.numpy.allgather(_array("allgather", value), name)


def broadcast(value: Any, root_rank: int, name: str | None = None) -> Any:
    """The value of rank `root_rank`, which has one shape and type on all ranks. See ``allreduce``.

    Parameters
    ----------
    value, name
        As of ``allreduce``.
    root_rank
        The rank of the job whose value it is.

    >>> broadcast(3.5, root_rank=0).item()
    3.5
    """
    return hvd.numpy.broadcast(_array("broadcast", value), root_rank, name)


def reducescatter(value: Any, name: str | None = None, op: int = Average) -> Any:
    """This rank's share of the rows of the reduction. See ``allreduce``.

    Parameters
    ----------
    value, name, op
        As of ``allreduce``.

    >>> reducescatter([[1.0]] * hvd.size()).tolist()
    [[1.0]]
    """
    return hvd.numpy.reducescatter(_array("reducescatter", value), name, op)


def broadcast_global_variables(root_rank: int) -> Any:
    """Gives all variables of a graph of TensorFlow 1 the values of one rank.

    Parameters
    ----------
    root_rank
        The rank of the job whose values they are.

    Raises
    ------
    RuntimeError
        Without such a graph: then ``callbacks.BroadcastGlobalVariablesCallback`` does it.

    >>> import contextlib
    >>> with contextlib.suppress(RuntimeError):  # there is no such graph here
    ...     broadcast_global_variables(0)
    """
    return backends.chosen().broadcast_global_variables(root_rank)


def _array(what: str, value: Any) -> Any:
    try:
        # hvd.numpy refuses masked ones.
        return numpy.asanyarray(generations.default().numpy(value))
    except (RuntimeError, AttributeError, ValueError, TypeError, NotImplementedError) as error:
        raise refused(
            f"{what}: {type(value).__name__} has no value yet, or is none: within a tf.function use "
            f"hvd.tensorflow.{what}"
        ) from error


def _wire(compression: Any) -> str | None:
    if compression is None:
        return None
    wire = getattr(compression, "wire", None)
    if wire not in _WIRES or hasattr(compression, "method"):
        raise refused(
            f"allreduce: compression is {compression!r}: use hvd.Compression.fp16 or "
            "hvd.Compression.bf16"
        )
    return _WIRES[wire]
