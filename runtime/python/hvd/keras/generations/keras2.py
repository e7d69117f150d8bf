# SPDX-License-Identifier: Apache-2.0
"""Keras 2, which lives on as ``tf_keras``: optimizers as they are since TensorFlow 2.11, and the legacy ones."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import tensorflow as tf
import tf_keras as module

from hvd._core.settings import Settings
from hvd.errors import UnsupportedError
from hvd.keras import distributed
from hvd.tensorflow.aggregation import Accumulation

Callback = module.callbacks.Callback
ModelCheckpoint = module.callbacks.ModelCheckpoint
Variable = tf.Variable
_LEGACY = module.optimizers.legacy.Optimizer
_SCALES = module.mixed_precision.LossScaleOptimizer


class Distributed(distributed.Distributed):
    """Gradients are reduced where ``apply_gradients()`` begins, or where a loss scale asks for those of all.

    With ``backward_passes_per_step`` they add up here, for Keras 2 cannot, and are reduced in the last
    pass; the others leave variables and ``iterations`` as they are. Around it a loss scale looks at
    the gradients of one rank and one pass: so all ranks are asked.
    """

    def apply_gradients(self, grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any:
        """Updates variables with the gradients of all ranks."""
        pairs = list(grads_and_vars)
        given = super().apply_gradients  # type: ignore[misc]
        if self._hvd_sums() is not None and pairs:
            return self._hvd_accumulate(pairs, functools.partial(given, *args, **kwargs))
        if pairs and not _skips(isinstance(self, _LEGACY), *args, **kwargs):
            pairs = self._hvd_reduced(pairs)
        with self._hvd_applying():
            return given(pairs, *args, **kwargs)

    def aggregate_gradients(self, grads_and_vars: Any) -> Any:
        """What a loss scale asks for before it looks at gradients."""
        return self._hvd_aggregated(super().aggregate_gradients(grads_and_vars))  # type: ignore[misc]

    def _aggregate_gradients(self, grads_and_vars: Any) -> Any:  # of a legacy optimizer
        return self._hvd_aggregated(super()._aggregate_gradients(grads_and_vars))  # type: ignore[misc]

    def _hvd_aggregated(self, pairs: Any) -> Any:
        if self.__dict__.get("_hvd_applies"):
            return pairs  # reduced already
        pairs = list(pairs)
        if self._hvd_sums() is None:
            pairs = self._hvd_reduced(pairs)
            if not self._hvd.has_local:
                return pairs
        gradients, variables = zip(*pairs)
        return list(zip(_spoiled(gradients, self._hvd.all_true(_are_finite(gradients))), variables))

    def _hvd_reduced(self, pairs: list[Any]) -> list[Any]:
        gradients, variables = zip(*pairs)
        return list(zip(self._hvd_reduce(gradients, variables), variables))

    def _hvd_accumulate(self, pairs: list[Any], given: Callable[..., Any]) -> Any:
        gradients, variables = zip(*pairs)
        with tf.init_scope():  # no branch may make variables
            build(self, variables)
        sums = self._hvd_sums()
        assert sums is not None
        reduced, last = sums.step(
            gradients, lambda added: self._hvd_reduce(added, variables), variables
        )

        def apply() -> Any:
            with self._hvd_applying():
                return given(list(zip(reduced, variables)))

        if isinstance(last, bool):
            return apply() if last else self.iterations  # type: ignore[attr-defined]
        from hvd.tensorflow.optimizer import applied_if

        return applied_if(last, apply, reduced)

    @contextmanager
    def _hvd_applying(self) -> Iterator[None]:
        """While Keras applies gradients that are reduced: it may ask for those of all ranks again."""
        self.__dict__["_hvd_applies"] = True
        try:
            yield
        finally:
            self.__dict__["_hvd_applies"] = False

    def _hvd_sums(self) -> Accumulation | None:
        """The passes that add up; None where each is a step."""
        settings = self._hvd.settings
        passes = settings.reduction.passes_per_step
        if passes > 1 and "_hvd_added" not in self.__dict__:
            self.__dict__["_hvd_added"] = Accumulation(
                passes, settings.averages_passes, settings.sparse_as_dense
            )
        return self.__dict__.get("_hvd_added")

    def _hvd_places(self, variables: Sequence[Any]) -> list[int]:
        known = self.__dict__.setdefault("_hvd_trained", {})
        keys = [getattr(variable, "_unique_id", id(variable)) for variable in variables]
        for key, variable in zip(keys, variables):
            known.setdefault(key, (len(known), variable))
        return [known[key][0] for key in keys]


def _skips(is_legacy: bool, name: Any = None, third: bool | None = None, /, **kwargs: Any) -> bool:
    """Whether the caller of ``apply_gradients()`` has reduced the gradients: a loss scale, or a user."""
    if third is not None:  # means the contrary in the two kinds of optimizers
        return third != is_legacy
    skips = kwargs.get("skip_gradients_aggregation")
    return bool(skips or not kwargs.get("experimental_aggregate_gradients", True))


def _are_finite(gradients: Sequence[Any]) -> Any:
    found = [
        tf.reduce_all(tf.math.is_finite(one.values if isinstance(one, tf.IndexedSlices) else one))
        for one in gradients
        if one is not None
    ]
    return tf.reduce_all(tf.stack(found)) if found else tf.constant(True)


def _spoiled(gradients: Sequence[Any], unless: Any) -> list[Any]:
    """The gradients, the first of which is not a number where the flag is false."""
    result = list(gradients)
    for place, one in enumerate(result):
        if one is None:
            continue
        values = one.values if isinstance(one, tf.IndexedSlices) else one
        nan = tf.constant(float("nan"), values.dtype)
        values = tf.where(unless, values, nan)
        if isinstance(one, tf.IndexedSlices):
            result[place] = tf.IndexedSlices(values, one.indices, one.dense_shape)
        else:
            result[place] = values
        break
    return result


def backend() -> str:
    """The name of what Keras computes with."""
    return "tensorflow"


def hook() -> None:
    """Makes ``model.jit_compile`` False where the optimizer is ours.

    XLA cannot compile a step that waits for other ranks.
    """
    given = module.Model.jit_compile
    if hasattr(given.fget, "_hvd_given"):
        return

    @functools.wraps(given.fget)
    def jit_compile(model: Any) -> Any:
        if distributed.reaches_ranks(getattr(model, "optimizer", None)):
            return False
        return given.fget(model)

    jit_compile._hvd_given = given  # type: ignore[attr-defined]
    module.Model.jit_compile = property(jit_compile, given.fset, given.fdel, given.__doc__)


def is_optimizer(given: Any) -> bool:
    """True for an optimizer of Keras 2, legacy or not."""
    return isinstance(given, (module.optimizers.Optimizer, _LEGACY))


def is_loss_scale(given: Any) -> bool:
    """True for the optimizer of mixed precision, which has another one inside."""
    return isinstance(given, _SCALES)


def to_reduce(optimizer: Any) -> list[Any]:
    """The optimizer that becomes distributed: a loss scale asks the one inside to reduce.

    Raises
    ------
    UnsupportedError
        In a graph of TensorFlow 1, where ``compile()`` would put a legacy one in its place.
    """
    if not tf.compat.v1.executing_eagerly_outside_functions() and not isinstance(
        optimizer, _LEGACY
    ):
        raise UnsupportedError(
            f"DistributedOptimizer: without eager execution Keras 2 makes another optimizer of this "
            f"{type(optimizer).__name__}: give tf_keras.optimizers.legacy.{type(optimizer).__name__}"
        )
    return [optimizer.inner_optimizer if is_loss_scale(optimizer) else optimizer]


def accumulate(optimizer: Any, settings: Settings) -> float:
    """Nothing to tell Keras 2: steps add up in `Distributed`, which knows the settings."""
    del optimizer, settings
    return 1.0


def accumulated_steps(optimizer: Any) -> int:
    """Keras 2 itself adds up nothing."""
    del optimizer
    return 1


def sums(optimizer: Any) -> None:
    """Sums are not variables of a Keras 2 optimizer."""
    del optimizer


def build(optimizer: Any, variables: Sequence[Any]) -> None:
    """Makes its slots if there are none."""
    if isinstance(optimizer, _LEGACY):
        optimizer._create_all_weights(list(variables))
    elif not getattr(distributed.inner_of(optimizer) or optimizer, "_built", False):
        with tf.name_scope(optimizer.name or "optimizer"):
            optimizer.build(list(variables))


def variables(optimizer: Any) -> list[Any]:
    """All of its state: Keras 2 counts neither the learning rate nor the loss scale as such."""
    found = list(optimizer.variables())
    scale = getattr(optimizer, "_loss_scale", None)
    found += [
        getattr(scale, name)
        for name in ("_current_loss_scale", "_counter")
        if is_loss_scale(optimizer) and hasattr(scale, name)
    ]
    learning_rate = rate(optimizer)
    return found if learning_rate is None else [*found, learning_rate]


def trained(optimizer: Any) -> list[Any]:
    """The variables that it has trained."""
    inner = distributed.inner_of(optimizer) or optimizer
    return [variable for _, variable in inner.__dict__.get("_hvd_trained", {}).values()]


def owner(optimizer: Any, slot: Any, variables: Sequence[Any]) -> Any:
    """Which of the model's variables a variable of the optimizer belongs to, by its name; or None."""
    name = slot.name.partition(":")[0]
    for variable in variables:
        of_it = variable._shared_name
        if name.endswith(f"/{of_it}") or name.startswith(f"{of_it}/"):
            return variable
    return None


def rate(optimizer: Any) -> Any:
    """The variable of its learning rate; None where that is a schedule or a function."""
    inner = distributed.inner_of(optimizer) or optimizer
    found = inner.learning_rate if isinstance(inner, _LEGACY) else inner._learning_rate
    return found if isinstance(found, tf.Variable) else None


def velocities(optimizer: Any) -> list[Any]:
    """The variables in which gradients are multiplied by rates; momenta of other optimizers are not."""
    inner = distributed.inner_of(optimizer) or optimizer
    kinds = module.optimizers
    if isinstance(inner, (kinds.legacy.SGD, kinds.legacy.RMSprop)):
        slots = inner._slots.values()
        return [one["momentum"] for one in slots if "momentum" in one]
    if isinstance(inner, kinds.SGD):
        return list(getattr(inner, "momentums", []))
    if isinstance(inner, kinds.RMSprop):
        return list(getattr(inner, "_momentums", []))
    return []


def scaling(variables: list[Any]) -> Callable[[float], None]:
    """A function that multiplies the variables by a number."""

    def scale(by: Any) -> None:
        for variable in variables:
            variable.assign(variable * tf.cast(by, variable.dtype))

    def scale_in_session(by: float) -> None:
        for variable in variables:
            assign(variable, numpy(variable) * by)

    if not tf.executing_eagerly():
        return scale_in_session
    # One call, where one per variable would cost as much as a step.
    compiled = tf.function(scale, autograph=False)
    return lambda by: compiled(tensor(by))


def assign(variable: Any, value: Any) -> None:
    """Gives a variable a value, in a graph of TensorFlow 1 by the session of Keras."""
    module.backend.set_value(variable, value)


def run(operation: Any) -> None:
    """Runs what a graph of TensorFlow 1 has; without a graph it has happened."""
    if operation is None:
        return
    from tf_keras.src.backend import get_session

    get_session().run(operation)


def numpy(value: Any) -> Any:
    """The value of a tensor or a variable as an array; another value as it is."""
    if isinstance(value, tf.Variable):
        return module.backend.get_value(value)
    return value.numpy() if isinstance(value, tf.Tensor) else value


def tensor(value: Any) -> Any:
    """A tensor of float32."""
    return tf.cast(value, tf.float32)


def floor(value: Any) -> Any:
    """The largest whole numbers that are not above a tensor's."""
    return tf.floor(value)


def minimum(one: Any, other: Any) -> Any:
    """The smaller of two tensors."""
    return tf.minimum(one, other)


def checkpoint_endings(only_weights: bool) -> tuple[str, ...]:
    """How the name of a checkpoint may end: Keras 2 has a format for any."""
    del only_weights
    return ("",)


def store_as(kind: type, given: type) -> None:
    """Objects of the class `kind` are stored in files as those of the class `given`."""
    from tf_keras.src.saving import object_registration

    for name in ("_keras_api_names", "_keras_api_names_v1"):
        if name in given.__dict__:
            setattr(kind, name, given.__dict__[name])
    custom = object_registration._GLOBAL_CUSTOM_NAMES.get(given)
    if custom is not None:
        object_registration._GLOBAL_CUSTOM_NAMES[kind] = custom


def load_model(filepath: Any, objects: Mapping[str, Any]) -> Any:
    """The model of a file; its optimizer has its slots."""
    return module.models.load_model(filepath, custom_objects=dict(objects))
