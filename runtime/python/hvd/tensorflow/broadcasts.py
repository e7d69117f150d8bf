# SPDX-License-Identifier: Apache-2.0
"""Making the variables of all ranks equal."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from hvd._core import _lib
from hvd._core.arguments import work_among
from hvd._core.refusals import refused
from hvd._core.work import Work
from hvd.errors import MismatchError
from hvd.process_sets import ProcessSet, global_process_set
from hvd.tensorflow.ops import submission

__all__ = ["broadcast_", "broadcast_global_variables", "broadcast_variables"]


def broadcast_variables(
    variables: Iterable[Any],
    root_rank: int,
    process_set: ProcessSet = global_process_set,
    inplace: bool = False,
) -> Any:
    """Gives variables the values that they have on rank `root_rank`.

    Parameters
    ----------
    variables
        ``tf.Variable``, those of Keras, or those of TensorFlow 1, also mixed; the same number, types
        and shapes in the same order on every rank. Their names may differ.
    root_rank
        The rank of the job whose values they are.
    process_set
        The ranks that take part, each of which calls it.
    inplace
        As in Horovod; the values arrive in the variables either way.

    Returns
    -------
    tf.Operation or None
        In a graph the operation that does it; nothing where TensorFlow is eager.

    Raises
    ------
    MismatchError
        On every rank: numbers, types or shapes differ. It names the variable; in a graph, where it
        is an error of TensorFlow, its place.

    >>> weights = tf.Variable([1.0, 2.0])
    >>> broadcast_variables([weights], root_rank=0)
    """
    del inplace
    # In a graph the operation's own name is used: more than one may be on its way.
    name = "broadcast_variables" if tf.executing_eagerly() else None
    _, done = _exchange(variables, work_among(process_set, _lib.BROADCAST, name, root=root_rank))
    return None if tf.executing_eagerly() else tf.group(*done, name="broadcast_variables")


def broadcast_(
    variables: Iterable[Any],
    root_rank: int,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> list[tf.Tensor]:
    """As ``broadcast_variables``, and returns the new values of the variables.

    Parameters
    ----------
    variables
        As of ``broadcast_variables``.
    root_rank
        The rank of the job whose values they are.
    name
        Equal on all ranks; made from the order of calls unless given.
    process_set
        The ranks that take part, each of which calls it.

    >>> weights = tf.Variable([1.0, 2.0])
    >>> broadcast_([weights], root_rank=0)[0].numpy().tolist()  # on one rank
    [1.0, 2.0]
    """
    values, done = _exchange(
        variables, work_among(process_set, _lib.BROADCAST, name, root=root_rank)
    )
    if tf.executing_eagerly():
        return values
    with tf.control_dependencies(done):
        return [tf.identity(value) for value in values]


def broadcast_global_variables(root_rank: int) -> Any:
    """The operation that gives all variables of a TensorFlow 1 graph the values of `root_rank`.

    Parameters
    ----------
    root_rank
        The rank of the job whose values they are.

    Raises
    ------
    RuntimeError
        TensorFlow is eager, where it knows of no global variables.

    >>> with tf.Graph().as_default():
    ...     weights = tf.compat.v1.get_variable("weights", [2])
    ...     broadcast_global_variables(0).type
    'NoOp'
    """
    if tf.compat.v1.executing_eagerly_outside_functions():
        raise RuntimeError(
            "broadcast_global_variables: TensorFlow is eager and knows of no global variables: use "
            "broadcast_variables(model.variables + optimizer.variables, root_rank), or call "
            "tf.compat.v1.disable_eager_execution() at the start of a TensorFlow 1 script"
        )
    return broadcast_variables(tf.compat.v1.global_variables(), root_rank)


def path_of(variable: Any) -> str:
    """What the variable is called on this rank.

    >>> path_of(tf.Variable(1.0, name="scale"))
    'scale:0'
    """
    return getattr(variable, "path", None) or variable.name


def _exchange(variables: Iterable[Any], work: Work) -> tuple[list[tf.Tensor], list[Any]]:
    """The values of the root, and what assigns them in a graph."""
    given = list(variables)
    targets = [_variable_of(variable) for variable in given]
    # A rank that has none tells the others, who would wait for it for ever.
    values = [target.read_value() for target in targets] or [tf.zeros([0], tf.uint8)]
    try:
        received = submission.submit(work, values)
    except MismatchError as error:
        raise MismatchError(f"{error}; {_known_here(str(error), given)}") from error
    pairs = zip(targets, received)
    return received[: len(targets)], [
        target.assign(value, read_value=False) for target, value in pairs
    ]


def _variable_of(variable: Any) -> tf.Variable:
    if isinstance(variable, tf.Variable):
        return variable
    inner = getattr(variable, "value", None)
    if not isinstance(inner, tf.Variable):
        raise refused(
            f"broadcast_variables: {variable!r} is not a variable of TensorFlow that has a value: give "
            "a list as model.variables or tf.compat.v1.global_variables(), of a model that is built"
        )
    return inner


def _known_here(text: str, variables: list[Any]) -> str:
    """What this rank can say about the variable of an error."""
    if not variables:
        return "this rank gives no variables: build the model before"
    names = [path_of(variable) for variable in variables]
    if "the number of tensors" in text:
        shown = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
        return f"this rank gives {len(names)} variables: {shown}"
    match = re.search(r"\(number (\d+)\)", text)
    place = int(match.group(1)) if match else 0
    return f"number {place} is {names[place]!r} on this rank"
