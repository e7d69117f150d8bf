# SPDX-License-Identifier: Apache-2.0
"""The distributed optimizer of Keras."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras

from hvd.errors import UnsupportedError
from hvd.groups import Groups, chosen_groups
from hvd.keras import backends
from hvd.keras.distributed import accumulates, make_distributed, reaches_ranks
from hvd.keras.jit import switch_off_jit
from hvd.keras.loss_scale import agree_on_finite
from hvd.keras.reducer import GradientReducer, key
from hvd.process_sets import ProcessSet, global_process_set
from hvd.refusals import refused
from hvd.settings import Settings, checked_settings
from hvd.work import Average, Sum


def create(
    optimizer: Any,
    name: str | None,
    settings: Settings,
    scale_local_gradients: bool = True,
    local_layers: Sequence[Any] = (),
) -> Any:
    """Makes an optimizer distributed, and returns it: what every ``DistributedOptimizer`` does.

    Raises
    ------
    InvalidArgumentError
        It is no optimizer of Keras, or does not go with the settings.
    """
    _check_optimizer(optimizer)
    _check_op(settings.reduction.op)
    reducing = optimizer
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        reducing = optimizer.inner_optimizer
    factor = 1.0
    passes = settings.reduction.passes_per_step
    if passes > 1:
        _accumulate(reducing, passes)
        factor = 1.0 if settings.averages_passes else float(passes)
    reducer = GradientReducer(settings, name, factor, local_layers, scale_local_gradients)
    # Gradients that are summed over ranks with the scale of the loss are finite on all or on none.
    # What adds up steps is the inner one: it knows when to reduce.
    if reducing is not optimizer and accumulates(reducing):
        make_distributed(reducing, reducer)
    make_distributed(optimizer, reducer)
    agree_on_finite()
    switch_off_jit()
    return optimizer


def _settings(compression: Any, num_groups: int, groups: Groups, **arguments: Any) -> Settings:
    backend = backends.chosen()
    kinds = (keras.Variable, *backend.VARIABLES)
    return checked_settings(
        compression=backend.Compression.none if compression is None else compression,
        groups=chosen_groups(num_groups, groups, kinds, "keras.Variable", key),
        **arguments,
    )


def _check_optimizer(optimizer: Any) -> None:
    given = type(optimizer)
    if given.__module__.split(".")[0] == "tf_keras":
        raise UnsupportedError(
            f"DistributedOptimizer: {given.__name__} is of Keras 2 (tf_keras), and hvd is for Keras "
            "3: unset the environment variable TF_USE_LEGACY_KERAS, or train with "
            "hvd.tensorflow.DistributedGradientTape"
        )
    if not isinstance(optimizer, keras.optimizers.Optimizer):
        raise refused(
            f"DistributedOptimizer: an optimizer of Keras is needed, not {optimizer!r}: as "
            "keras.optimizers.Adam(); one of tf.compat.v1.train goes to "
            "hvd.tensorflow.DistributedOptimizer, one of torch to hvd.torch.DistributedOptimizer"
        )
    if reaches_ranks(optimizer):
        raise refused(
            f"DistributedOptimizer: this {given.__name__} is distributed already: wrap once; "
            "another model needs another optimizer"
        )


def _check_op(op: int) -> None:
    if op not in (Average, Sum):
        raise refused(
            f"DistributedOptimizer: op is {op!r}: an optimizer of Keras takes hvd.Average or "
            "hvd.Sum; for hvd.Adasum use hvd.tensorflow.DistributedGradientTape(tape, op=hvd.Adasum)"
        )


def _accumulate(optimizer: Any, passes: int) -> None:
    """Lets Keras add up the gradients of some steps; it divides them by their number."""
    steps = optimizer.gradient_accumulation_steps
    if steps == passes:
        return
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
    if isinstance(optimizer, getattr(keras.optimizers, "MultiOptimizer", ())):
        raise UnsupportedError(
            f"backward_passes_per_step is {passes}: give each optimizer of the MultiOptimizer "
            f"gradient_accumulation_steps={passes}"
        )
    optimizer.gradient_accumulation_steps = passes


def DistributedOptimizer(  # noqa: N802 (the name that users know)
    optimizer: Any,
    name: str | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = None,
    sparse_as_dense: bool = False,
    gradient_predivide_factor: float = 1.0,
    op: int = Average,
    num_groups: int = 0,
    groups: Groups = None,
    backward_passes_per_step: int = 1,
    average_aggregated_gradients: bool = False,
    process_set: ProcessSet = global_process_set,
    scale_local_gradients: bool = True,
) -> Any:
    """Makes an optimizer use the gradients of all ranks, and returns it.

    It keeps its class, its state and its variables. Gradients are reduced before Keras clips them,
    once for each update: with ``gradient_accumulation_steps`` not in every step. A model that was
    compiled with it is saved as with the plain optimizer, and loads where there is no hvd; to go on
    training use ``hvd.keras.load_model()``.

    Parameters
    ----------
    optimizer
        Any optimizer of Keras 3; of mixed precision too: a ``LossScaleOptimizer``, or what Keras
        puts into one. When gradients of one rank are not finite, all ranks skip the step.
    name
        What the names of its operations begin with; equal on all ranks.
    device_dense, device_sparse
        Accepted, without effect: operations run where their tensors are.
    compression
        One of ``hvd.keras.Compression``; none unless given.
    sparse_as_dense
        Gradients that are ``tf.IndexedSlices`` are made dense before they are reduced; else their
        rows are gathered.
    gradient_predivide_factor
        Gradients are divided by it before the sum and multiplied after; with ``Average`` only.
    op
        ``Average`` or ``Sum``.
    num_groups
        The old name of `groups`, deprecated.
    groups
        Gradients of a group travel together: a number of groups, or lists of variables.
    backward_passes_per_step
        Steps whose gradients add up before one update, by ``gradient_accumulation_steps`` of Keras;
        before the first step only, unless the optimizer has this number already.
    average_aggregated_gradients
        The gradients of these steps are averaged; else summed.
    process_set
        The ranks that train together. On a rank that is not in the set each step is local.
    scale_local_gradients
        Gradients of variables given to ``optimizer.register_local_var()``, which stay on their
        rank, are divided by the number of ranks.

    Raises
    ------
    InvalidArgumentError
        An argument is wrong, or the optimizer is distributed already.
    UnsupportedError
        Keras computes with neither TensorFlow nor PyTorch.

    >>> optimizer = DistributedOptimizer(keras.optimizers.SGD(0.1, momentum=0.9))
    >>> isinstance(optimizer, keras.optimizers.SGD)
    True
    """
    settings = _settings(
        compression,
        num_groups,
        groups,
        op=op,
        process_set=process_set,
        gradient_predivide_factor=gradient_predivide_factor,
        backward_passes_per_step=backward_passes_per_step,
        sparse_as_dense=sparse_as_dense,
        average_aggregated_gradients=average_aggregated_gradients,
    )
    return create(optimizer, name, settings, scale_local_gradients)


def PartialDistributedOptimizer(  # noqa: N802 (the name that users know)
    optimizer: Any,
    name: str | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = None,
    sparse_as_dense: bool = False,
    gradient_predivide_factor: float = 1.0,
    op: int = Average,
    backward_passes_per_step: int = 1,
    average_aggregated_gradients: bool = False,
    groups: Groups = None,
    process_set: ProcessSet = global_process_set,
    local_layers: Any = None,
    scale_local_gradients: bool = True,
) -> Any:
    """A ``DistributedOptimizer`` that leaves the gradients of some layers on their rank.

    Parameters
    ----------
    local_layers
        A layer or a list of them, whose weights differ between ranks. They need not be built yet.
    scale_local_gradients
        Their gradients are divided by the number of ranks.

    The others are those of ``DistributedOptimizer``.

    Raises
    ------
    InvalidArgumentError
        `local_layers` holds something else, or another argument is wrong.

    >>> layer = keras.layers.Dense(1)
    >>> optimizer = PartialDistributedOptimizer(keras.optimizers.SGD(), local_layers=[layer])
    """
    if isinstance(local_layers, keras.layers.Layer):
        local_layers = [local_layers]
    layers = [] if local_layers is None else list(local_layers)
    for layer in layers:
        if not isinstance(layer, keras.layers.Layer):
            raise refused(
                f"local_layers holds {layer!r}: give layers of Keras, as model.layers[-1]; for a "
                "variable call optimizer.register_local_var()"
            )
    settings = _settings(
        compression,
        0,
        groups,
        op=op,
        process_set=process_set,
        gradient_predivide_factor=gradient_predivide_factor,
        backward_passes_per_step=backward_passes_per_step,
        sparse_as_dense=sparse_as_dense,
        average_aggregated_gradients=average_aggregated_gradients,
    )
    return create(optimizer, name, settings, scale_local_gradients, layers)
