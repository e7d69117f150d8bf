# SPDX-License-Identifier: Apache-2.0
"""Gradients of several backward passes that add up on each rank before they are reduced."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Union

import tensorflow as tf

from hvd._core import api
from hvd._core.refusals import refused
from hvd._core.settings import check_passes
from hvd.tensorflow.averages import quotient
from hvd.tensorflow.reducer import Gradient, dense

# A bool in eager execution, else a tensor of the graph.
BoolLike = Union[bool, tf.Tensor]

_all: weakref.WeakSet[PassCounter] = weakref.WeakSet()

# The collection of a graph of TensorFlow 1 that holds what sets its counts to zero: it outlives the
# object that counts, which a script may drop when its graph is built.
_INITIALIZERS = "hvd_pass_initializers"


def restart() -> None:
    """Every sum of this process begins with the next pass: ranks that start anew must agree.

    Those in graphs of TensorFlow 1 do so when their session runs ``pass_initializers()``.
    """

    def act() -> None:
        for counter in list(_all):
            counter.restart()

    if tf.executing_eagerly() or not _all:
        act()
        return
    # A graph is the default here; a new thread has none, and assigns at once.
    with ThreadPoolExecutor(1, "hvd-restart") as pool:
        pool.submit(act).result()


# Counts differ between ranks that failed in different passes.
api.at_start(restart)


def pass_initializers(graph: tf.Graph) -> list[tf.Operation]:
    """What a session of a TensorFlow 1 graph runs to let every sum begin with the next pass.

    >>> pass_initializers(tf.Graph())
    []
    """
    return list(graph.get_collection(_INITIALIZERS))


def own_variable(shape: Any, dtype: Any, name: str, like: Any = None) -> tf.Variable:
    """A variable of this rank alone, of zeros: no checkpoint has it, no session initializes it.

    In a graph of TensorFlow 1 it has no value before it is assigned.

    Parameters
    ----------
    like
        A variable; for one of TensorFlow 1 without a resource this is of that kind, too.
    """
    with tf.init_scope():
        return tf.compat.v1.Variable(
            tf.zeros(shape, dtype),
            trainable=False,
            collections=[],
            name=name,
            use_resource=like is None or is_resource(like),
        )


def is_resource(variable: Any) -> bool:
    """False for the oldest kind of variable, which TensorFlow 1 makes by itself."""
    return hasattr(variable, "handle")


def check_branches(variables: Sequence[Any]) -> None:
    """Refuses variables that no branch of this graph can assign."""
    if tf.executing_eagerly() or not tf.compat.v1.control_flow_v2_enabled():
        return
    for variable in variables:
        if not is_resource(variable):
            raise refused(
                f"backward_passes_per_step is above 1, and variable {variable.name} is not a resource: "
                "make it with use_resource=True, or call tf.compat.v1.disable_v2_behavior() first"
            )


def current_graph() -> Any:
    """The graph in which variables are made now; None in eager execution, also in functions."""
    with tf.init_scope():
        return None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()


class PassCounter:
    """Counts passes, on all ranks alike: from zero in each job that the process joins."""

    def __init__(self, passes: int) -> None:
        check_passes(passes)
        self.passes = passes
        self._count: tf.Variable | None = None
        self._graph: Any = None
        _all.add(self)

    def next(self) -> tuple[BoolLike, BoolLike]:
        """One more pass: whether it is the first and the last of its step."""
        if self.passes == 1:
            return True, True
        graph = current_graph()
        if self._count is None or self._graph is not graph:
            self._count = own_variable((), tf.int64, "hvd_passes")
            self._graph = graph
            if graph is not None:
                graph.add_to_collection(_INITIALIZERS, self._count.initializer)
        count = self._count
        before = count.read_value() if graph is None else _value_or_zero(count)
        with tf.control_dependencies([count.assign((before + 1) % self.passes, read_value=False)]):
            first, last = tf.equal(before, 0), tf.equal(before, self.passes - 1)
        return (bool(first), bool(last)) if tf.executing_eagerly() else (first, last)

    def restart(self) -> None:
        """The next pass is a first one."""
        if self._count is not None and self._graph is None:
            with tf.init_scope():
                self._count.assign(tf.zeros((), tf.int64))


def _value_or_zero(variable: tf.Variable) -> tf.Tensor:
    zero = tf.zeros(variable.shape, variable.dtype)
    return tf.cond(variable.is_initialized(), variable.read_value, lambda: zero)


class Accumulation:
    """Sums of gradients on this rank, which are reduced in every k-th pass.

    It works in eager execution, in functions and in graphs of TensorFlow 1, each object in one of
    them. All ranks make the same number of passes.

    Parameters
    ----------
    passes
        Passes whose gradients add up; 1: each is reduced by itself.
    average
        The sum is divided by the number of passes.
    sparse_as_dense
        Sparse gradients are made dense; without it they are refused where passes add up.

    >>> sums = Accumulation(2)
    >>> one = [tf.constant(1.0)]
    >>> sums.step(one, lambda gradients: gradients)[1]
    False
    >>> [total], last = sums.step(one, lambda gradients: gradients)
    >>> float(total), last
    (2.0, True)
    """

    def __init__(self, passes: int, average: bool = False, sparse_as_dense: bool = False) -> None:
        self.passes = passes
        self._average = average
        self._sparse_as_dense = sparse_as_dense
        self._counter = PassCounter(passes)
        self._sums: list[tf.Variable | None] = []
        self._graph: Any = None

    @tf.autograph.experimental.do_not_convert
    def step(
        self,
        gradients: Sequence[Gradient],
        reduce: Callable[[list[Gradient]], list[Gradient]],
        variables: Sequence[Any] | None = None,
    ) -> tuple[list[Gradient], BoolLike]:
        """Adds the gradients of one pass, and reduces the sums if it is the last of its step.

        Parameters
        ----------
        gradients
            Dense tensors or None, always of the same shapes and at the same places.
        reduce
            Gets the sums and returns what is to be applied, of the same types and shapes. In a graph
            it is called within a branch: names of operations must come from outside.
        variables
            What each is the gradient of; needed where TensorFlow does not know a gradient's shape.

        Returns
        -------
        tuple
            The reduced sums, and whether this was the last pass: a bool in eager execution, else a
            boolean tensor. In other passes the first is of no use, but has the same shapes.

        Raises
        ------
        InvalidArgumentError
            A gradient is sparse, or there are others than in the first pass.
        """
        if self.passes == 1:
            return reduce(list(gradients)), True
        given = self._checked(gradients)
        self._begin(given, variables)
        first, last = self._counter.next()
        places = [place for place, gradient in enumerate(given) if gradient is not None]
        added = self._add([given[place] for place in places], first)

        def whole(values: Sequence[tf.Tensor]) -> list[Gradient]:
            full: list[Gradient] = [None] * len(given)
            for place, value in zip(places, values):
                full[place] = value
            return full

        def reduced() -> list[tf.Tensor]:
            sums = [quotient(one, self.passes) for one in added] if self._average else added
            result = reduce(whole(sums))
            return [tf.identity(result[place]) for place in places]

        if not places:
            return whole([]), last
        final = _either(last, reduced, lambda: [tf.identity(one) for one in added])
        for value, one in zip(final, added):
            value.set_shape(one.shape)
        return whole(final), last

    def _checked(self, gradients: Sequence[Gradient]) -> list[Gradient]:
        if self._sparse_as_dense:
            return [dense(one) for one in gradients]
        for index, gradient in enumerate(gradients):
            if isinstance(gradient, tf.IndexedSlices):
                raise refused(
                    f"gradient {index} is sparse (tf.IndexedSlices), and backward_passes_per_step is "
                    f"{self.passes}: pass sparse_as_dense=True"
                )
        return list(gradients)

    def _begin(self, gradients: list[Gradient], variables: Sequence[Any] | None) -> None:
        graph = current_graph()
        if not self._sums or self._graph is not graph:
            self._graph = graph
            self._sums = []
            for index, gradient in enumerate(gradients):
                source = None if variables is None else variables[index]
                self._sums.append(None if gradient is None else _sum_for(gradient, source, index))
            return
        places = [one is not None for one in self._sums]
        if places != [one is not None for one in gradients]:
            raise refused(
                f"backward_passes_per_step is {self.passes}, and a pass has gradients for other "
                "variables than the first one: make each pass use the same variables"
            )

    def _add(self, gradients: list[Any], first: BoolLike) -> list[tf.Tensor]:
        """The sums with these gradients, which are the first of a step or not."""
        sums = [one for one in self._sums if one is not None]

        def begun() -> list[tf.Tensor]:
            done = [s.assign(g, read_value=False) for s, g in zip(sums, gradients)]
            with tf.control_dependencies(done):
                return [one.read_value() for one in sums]

        def added() -> list[tf.Tensor]:
            done = [s.assign_add(g, read_value=False) for s, g in zip(sums, gradients)]
            with tf.control_dependencies(done):
                return [one.read_value() for one in sums]

        if not sums:
            return []
        return _either(first, begun, added)


def _sum_for(gradient: Any, source: Any, index: int) -> tf.Variable:
    shape = gradient.shape
    if not shape.is_fully_defined() and source is not None:
        shape = tf.TensorShape(source.shape)
    if not shape.is_fully_defined():
        raise refused(
            f"gradient {index} has the shape {shape}: passes add up where it is known; call its "
            "set_shape(), or reduce every pass"
        )
    return own_variable(shape, gradient.dtype, f"hvd_sum_{index}")


def _either(condition: BoolLike, this: Callable[[], Any], that: Callable[[], Any]) -> Any:
    if isinstance(condition, bool):
        return this() if condition else that()
    return tf.cond(condition, this, that)
