# SPDX-License-Identifier: Apache-2.0
"""Keras 3, on TensorFlow or PyTorch."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras as module

from hvd._core.refusals import refused
from hvd._core.settings import Settings
from hvd.errors import UnsupportedError
from hvd.keras import distributed

Variable = module.Variable


class _InKeras2:
    """What ``fit`` of Keras 2 asks a callback beside what Keras 3 does."""

    _supports_tf_logs = False

    def _implements_train_batch_hooks(self) -> bool:
        return True

    def _implements_test_batch_hooks(self) -> bool:
        return False

    def _implements_predict_batch_hooks(self) -> bool:
        return False


class Callback(_InKeras2, module.callbacks.Callback):
    """A callback for ``fit`` of either Keras."""


class ModelCheckpoint(_InKeras2, module.callbacks.ModelCheckpoint):
    """A checkpoint for ``fit`` of either Keras."""


class Distributed(distributed.Distributed):
    """Gradients are reduced where ``apply()`` begins: what Keras then does, as clipping, sees the result.

    With ``gradient_accumulation_steps`` they are reduced where Keras is about to clip the
    sum of many steps, so once for each update.
    """

    def apply(self, grads: Any, trainable_variables: Any = None) -> Any:
        """Updates variables with the gradients of all ranks."""
        gradients = list(grads)
        is_outer = distributed.is_distributed(distributed.inner_of(self))
        if gradients and accumulated_steps(self) == 1 and not is_outer:
            given = None if trainable_variables is None else list(trainable_variables)
            trainable_variables = given
            gradients = self._hvd_reduce(gradients, given or self._trainable_variables)  # type: ignore[attr-defined]
        return super().apply(gradients, trainable_variables)  # type: ignore[misc]

    def _backend_apply_gradients(self, grads: Any, trainable_variables: Any) -> Any:
        self._hvd.updated = trainable_variables
        return super()._backend_apply_gradients(grads, trainable_variables)  # type: ignore[misc]

    def _clip_gradients(self, grads: Any) -> Any:
        if accumulated_steps(self) > 1:
            grads = self._hvd_reduce(grads, self._hvd.updated)
        return super()._clip_gradients(grads)  # type: ignore[misc]

    def _get_current_learning_rate(self) -> Any:
        from hvd.keras.schedules import tell_passes  # knows the class of this Keras

        tell_passes(self._learning_rate, getattr(self, "gradient_accumulation_steps", None))  # type: ignore[attr-defined]
        return super()._get_current_learning_rate()  # type: ignore[misc]

    def _hvd_places(self, variables: Sequence[Any]) -> list[int]:
        # An optimizer is built with the variables of the first step, in their order.
        known = getattr(self, "_trainable_variables_indices", {})
        return [
            known.get(self._var_key(variable), place)  # type: ignore[attr-defined]
            for place, variable in enumerate(variables)
        ]


def backend() -> str:
    """The name of what Keras computes with."""
    return str(module.backend.backend())


def hook() -> None:
    """Makes loss scales and XLA know of optimizers of ours."""
    _agree_on_finite()
    _switch_off_jit()


def _agree_on_finite() -> None:
    """Makes a ``LossScaleOptimizer`` with one of ours ask all ranks whether gradients are finite.

    Keras wraps the optimizer of a mixed_float16 model itself, outside of ours, and looks at the
    gradients of one rank: it would leave the others waiting for those of the rank that skips.
    """
    given = module.optimizers.LossScaleOptimizer.check_finite
    if hasattr(given, "_hvd_given"):
        return

    @functools.wraps(given)
    def check_finite(self: Any, grads: Any) -> Any:
        finite = given(self, grads)
        inner = self.inner_optimizer
        if distributed.is_distributed(inner):
            return inner._hvd.all_true(finite)
        if distributed.is_distributed(self) and self._hvd.has_local:
            return self._hvd.all_true(finite)
        return finite  # of reduced gradients: the same on all ranks

    check_finite._hvd_given = given  # type: ignore[attr-defined]
    module.optimizers.LossScaleOptimizer.check_finite = check_finite


def _switch_off_jit() -> None:
    """Makes ``Model.compile(jit_compile=...)``, "auto" and True, False with an optimizer of ours.

    XLA cannot compile a step that waits for other ranks. Under mixed precision Keras has put its own
    optimizer around ours by then. Keras warns when it was True, as of a layer that does not support it.
    """
    from keras.src.trainers import trainer

    given = trainer.model_supports_jit
    if hasattr(given, "_hvd_given"):
        return

    @functools.wraps(given)
    def model_supports_jit(model: Any) -> bool:
        return not distributed.reaches_ranks(getattr(model, "optimizer", None)) and given(model)

    model_supports_jit._hvd_given = given  # type: ignore[attr-defined]
    trainer.model_supports_jit = model_supports_jit


def is_optimizer(given: Any) -> bool:
    """True for an optimizer of Keras 3."""
    return isinstance(given, module.optimizers.Optimizer)


def is_loss_scale(given: Any) -> bool:
    """True for the optimizer of mixed precision, which has another one inside."""
    return isinstance(given, module.optimizers.LossScaleOptimizer)


def to_reduce(optimizer: Any) -> list[Any]:
    """The optimizers that become distributed, the inner one of a loss scale first.

    Gradients that are summed over ranks with the scale of the loss are finite on all or on none.
    What adds up steps is the inner one: it knows when to reduce.
    """
    if is_loss_scale(optimizer) and accumulated_steps(optimizer.inner_optimizer) > 1:
        return [optimizer.inner_optimizer, optimizer]
    return [optimizer]


def accumulate(optimizer: Any, settings: Settings) -> float:
    """Lets Keras add up the gradients of some steps; it divides them by their number."""
    passes = settings.reduction.passes_per_step
    if passes <= 1:
        return 1.0
    if is_loss_scale(optimizer):
        optimizer = optimizer.inner_optimizer
    factor = 1.0 if settings.averages_passes else float(passes)
    steps = optimizer.gradient_accumulation_steps
    if steps == passes:
        return factor
    if steps:
        raise refused(
            f"backward_passes_per_step is {passes} and the optimizer has "
            f"gradient_accumulation_steps={steps}: give one of them, or the same number twice"
        )
    if optimizer.built:
        raise refused(
            f"backward_passes_per_step is {passes}, but the optimizer has trained already, without "
            f"room for sums: make it with gradient_accumulation_steps={passes}"
        )
    if isinstance(optimizer, getattr(module.optimizers, "MultiOptimizer", ())):
        raise UnsupportedError(
            f"backward_passes_per_step is {passes}: give each optimizer of the MultiOptimizer "
            f"gradient_accumulation_steps={passes}"
        )
    optimizer.gradient_accumulation_steps = passes
    return factor


def accumulated_steps(optimizer: Any) -> int:
    """How many steps it adds up before an update."""
    return getattr(optimizer, "gradient_accumulation_steps", None) or 1


def sums(optimizer: Any) -> tuple[int, list[Any]] | None:
    """Its steps and the variables that add up; None where it adds nothing up."""
    if accumulated_steps(optimizer) == 1:
        return None
    added = [one for one in optimizer._accumulated_gradients if one is not None]
    return int(optimizer._iterations.numpy()), added


def build(optimizer: Any, variables: Sequence[Any]) -> None:
    """Makes its slots if there are none."""
    if not optimizer.built:
        optimizer.build(variables)


def variables(optimizer: Any) -> list[Any]:
    """All of its state."""
    return list(optimizer.variables)


def trained(optimizer: Any) -> list[Any]:
    """The variables that it trains."""
    return list(optimizer._trainable_variables)


def owner(optimizer: Any, slot: Any, variables: Sequence[Any]) -> Any:
    """Which of the model's variables a variable of the optimizer belongs to, by its name; or None."""
    prefixes = {_slot_prefix(one): one for one in variables}
    owners = [prefix for prefix in prefixes if slot.name.startswith(prefix)]
    return prefixes[max(owners, key=len)] if owners else None


def _slot_prefix(variable: Any) -> str:
    """How the names begin that Keras gives to an optimizer's variables for this one."""
    return str(variable.path).replace("/", "_") + "_"


def rate(optimizer: Any) -> Any:
    """The variable of its learning rate; None where that is a schedule or a function."""
    found = optimizer.learning_rate
    return found if isinstance(found, module.Variable) else None


def velocities(optimizer: Any) -> list[Any]:
    """The variables in which gradients are multiplied by rates; momenta of other optimizers are not."""
    while hasattr(optimizer, "inner_optimizer"):
        optimizer = optimizer.inner_optimizer
    if isinstance(optimizer, module.optimizers.SGD):
        return list(getattr(optimizer, "momentums", []))
    if isinstance(optimizer, module.optimizers.RMSprop):
        return list(getattr(optimizer, "_momentums", []))
    return []


def scaling(variables: list[Any]) -> Callable[[float], None]:
    """A function that multiplies the variables by a number."""

    def scale(by: Any) -> None:
        for variable in variables:
            variable.assign(module.ops.multiply(variable, module.ops.cast(by, variable.dtype)))

    if backend() == "tensorflow":
        import tensorflow

        # One call, where one per variable would cost as much as a step.
        scale = tensorflow.function(scale, autograph=False)
    return lambda by: scale(tensor(by))


def assign(variable: Any, value: Any) -> None:
    """Gives a variable a value."""
    variable.assign(value)


def run(operation: Any) -> None:
    """Nothing: Keras 3 has no graphs of TensorFlow 1, so it has happened."""
    del operation


def numpy(value: Any) -> Any:
    """The value of a tensor or a variable as an array; another value as it is."""
    if module.ops.is_tensor(value) or isinstance(value, module.Variable):
        return module.ops.convert_to_numpy(value)
    return value


def tensor(value: Any) -> Any:
    """A tensor of float32."""
    return module.ops.convert_to_tensor(value, "float32")


def floor(value: Any) -> Any:
    """The largest whole numbers that are not above a tensor's."""
    return module.ops.floor(value)


def minimum(one: Any, other: Any) -> Any:
    """The smaller of two tensors."""
    return module.ops.minimum(one, other)


def checkpoint_endings(only_weights: bool) -> tuple[str, ...]:
    """How the name of a checkpoint may end."""
    return (".weights.h5",) if only_weights else (".keras", ".h5")


def store_as(kind: type, given: type) -> None:
    """Objects of the class `kind` are stored in files as those of the class `given`.

    So a model that was trained with an optimizer of ours loads where there is no hvd.
    """
    from keras.src import api_export
    from keras.src.saving import object_registration

    public = api_export.get_name_from_symbol(given)
    if public is not None:
        api_export.REGISTERED_OBJS_TO_NAMES[kind] = public
    custom = object_registration.GLOBAL_CUSTOM_NAMES.get(given)
    if custom is not None:
        object_registration.GLOBAL_CUSTOM_NAMES[kind] = custom


def load_model(filepath: Any, objects: Mapping[str, Any]) -> Any:
    """The model of a file; its optimizer has its slots."""
    model = module.models.load_model(filepath, custom_objects=objects)
    if getattr(model, "optimizer", None) is not None:
        _restore_old_optimizer(model, filepath)
    return model


def _restore_old_optimizer(model: Any, filepath: Any) -> None:
    """Gives the optimizer of an ``.h5`` file its slots, for which Keras makes no room."""
    given = model.optimizer
    if not given.built or given._trainable_variables or not model.trainable_variables:
        return
    from keras.src.legacy.saving import legacy_h5_format

    optimizer = type(given).from_config(given.get_config())
    optimizer.build(model.trainable_variables)
    with contextlib.ExitStack() as stack:
        file = filepath
        if isinstance(filepath, (str, os.PathLike)):
            import h5py  # as Keras has it, for these files only

            file = stack.enter_context(h5py.File(filepath, "r"))
        saved = legacy_h5_format.load_optimizer_weights_from_hdf5_group(file)
        # A file of an optimizer that had not trained has no slots.
        if [tuple(one.shape) for one in saved] == [tuple(one.shape) for one in optimizer.variables]:
            for variable, value in zip(optimizer.variables, saved):
                variable.assign(value[()])
    model.optimizer = optimizer
