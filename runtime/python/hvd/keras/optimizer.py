# SPDX-License-Identifier: Apache-2.0
"""The distributed optimizer of Keras."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from hvd._core.groups import Groups, chosen_groups
from hvd._core.refusals import refused
from hvd._core.settings import Settings, checked_settings
from hvd._core.work import Average, Sum
from hvd.keras import backends, generations
from hvd.keras.distributed import is_distributed, make_distributed, reaches_ranks
from hvd.keras.reducer import GradientReducer, key
from hvd.keras.replicas import guard_of
from hvd.process_sets import ProcessSet, global_process_set

# The class of an optimizer, which an editor completes, stays what it is.
Given = TypeVar("Given")


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
        It is not an optimizer of Keras, or does not go with the settings.
    """
    _check_optimizer(optimizer)
    _check_op(settings.reduction.op)
    generation = generations.of(optimizer)
    factor = generation.accumulate(optimizer, settings)
    reducer = GradientReducer(
        optimizer, settings, name, factor, local_layers, scale_local_gradients
    )
    reducer.guard = guard_of(optimizer, reducer)
    for one in generation.to_reduce(optimizer):
        make_distributed(one, reducer)
    if not is_distributed(optimizer):
        # What is inside does all: this one only has the same interface.
        optimizer.__dict__.update(_hvd=reducer, register_local_var=reducer.keep_local)
    generation.hook()
    return optimizer


def _settings(
    optimizer: Any, compression: Any, num_groups: int, groups: Groups, **arguments: Any
) -> Settings:
    backend = backends.chosen(optimizer)
    kinds = (generations.of(optimizer).Variable, *backend.VARIABLES)
    return checked_settings(
        compression=backend.Compression.none if compression is None else compression,
        groups=chosen_groups(num_groups, groups, kinds, "keras.Variable", key),
        **arguments,
    )


def _check_optimizer(optimizer: Any) -> None:
    if not generations.of(optimizer).is_optimizer(optimizer):
        raise refused(
            f"DistributedOptimizer: an optimizer of Keras is needed, not {optimizer!r}: as "
            "keras.optimizers.Adam(); one of tf.compat.v1.train goes to "
            "hvd.tensorflow.DistributedOptimizer, one of torch to hvd.torch.DistributedOptimizer"
        )
    if reaches_ranks(optimizer):
        raise refused(
            f"DistributedOptimizer: this {type(optimizer).__name__} is distributed already: wrap once; "
            "another model needs another optimizer"
        )


def _check_op(op: int) -> None:
    if op not in (Average, Sum):
        raise refused(
            f"DistributedOptimizer: op is {op!r}: an optimizer of Keras takes hvd.Average or "
            "hvd.Sum; for hvd.Adasum use hvd.tensorflow.DistributedGradientTape(tape, op=hvd.Adasum)"
        )


def DistributedOptimizer(  # noqa: N802 (the name that users know)
    optimizer: Given,
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
    check_replicas: int | None = None,
) -> Given:
    """Makes an optimizer use the gradients of all ranks, and returns it.

    It keeps its class, its state and its variables. Gradients are reduced before Keras clips them,
    once for each update: with ``gradient_accumulation_steps`` not in every step. A model that was
    compiled with it is saved as with the plain optimizer, and loads where there is no hvd; to go on
    training use ``hvd.keras.load_model()``.

    Parameters
    ----------
    optimizer
        Any optimizer of Keras 3, or of Keras 2 (``tf_keras``, legacy ones too); of mixed precision
        too: a ``LossScaleOptimizer``, or what Keras puts into one. When gradients of one rank are not
        finite, all ranks skip the step.
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
        Steps whose gradients add up before one update, by ``gradient_accumulation_steps`` of Keras 3;
        before the first step only, unless the optimizer has this number already.
    average_aggregated_gradients
        The gradients of these steps are averaged; else summed.
    process_set
        The ranks that train together. On a rank that is not in the set each step is local.
    scale_local_gradients
        Gradients of variables given to ``optimizer.register_local_var()``, which stay on their
        rank, are divided by the number of ranks.
    check_replicas
        Updates from one comparison of variables over ranks to the next: those that are trained, and
        the optimizer's. Where they differ, training ends with an error on every rank
        (``ReplicasDifferError``). The first comes after the first update; 0 switches it off; without:
        ``HVD_CHECK_REPLICAS``, else 100.

    Raises
    ------
    InvalidArgumentError
        An argument is wrong, or the optimizer is distributed already.
    UnsupportedError
        Keras computes with neither TensorFlow nor PyTorch.

    >>> import keras
    >>> optimizer = DistributedOptimizer(keras.optimizers.SGD(0.1, momentum=0.9))
    >>> isinstance(optimizer, keras.optimizers.SGD)
    True
    """
    settings = _settings(
        optimizer,
        compression,
        num_groups,
        groups,
        op=op,
        process_set=process_set,
        gradient_predivide_factor=gradient_predivide_factor,
        backward_passes_per_step=backward_passes_per_step,
        sparse_as_dense=sparse_as_dense,
        average_aggregated_gradients=average_aggregated_gradients,
        check_replicas=check_replicas,
    )
    return create(optimizer, name, settings, scale_local_gradients)


def PartialDistributedOptimizer(  # noqa: N802 (the name that users know)
    optimizer: Given,
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
    check_replicas: int | None = None,
) -> Given:
    """A ``DistributedOptimizer`` that leaves the gradients of some layers on their rank.

    Parameters
    ----------
    optimizer, name, device_dense, device_sparse, compression, sparse_as_dense
        As of ``DistributedOptimizer``.
    gradient_predivide_factor, op, backward_passes_per_step, average_aggregated_gradients, groups
        As of ``DistributedOptimizer``.
    process_set, check_replicas
        As of ``DistributedOptimizer``; the variables of local layers are not compared.
    local_layers
        A layer or a list of them, whose weights differ between ranks. They need not be built yet.
    scale_local_gradients
        Their gradients are divided by the number of ranks.

    Raises
    ------
    InvalidArgumentError
        `local_layers` holds something else, or another argument is wrong.

    >>> import keras
    >>> layer = keras.layers.Dense(1)
    >>> optimizer = PartialDistributedOptimizer(keras.optimizers.SGD(), local_layers=[layer])
    """
    if local_layers is not None and generations.is_layer(local_layers):
        local_layers = [local_layers]
    layers = [] if local_layers is None else list(local_layers)
    for layer in layers:
        if not generations.is_layer(layer):
            raise refused(
                f"local_layers holds {layer!r}: give layers of Keras, as model.layers[-1]; for a "
                "variable call optimizer.register_local_var()"
            )
    settings = _settings(
        optimizer,
        compression,
        0,
        groups,
        op=op,
        process_set=process_set,
        gradient_predivide_factor=gradient_predivide_factor,
        backward_passes_per_step=backward_passes_per_step,
        sparse_as_dense=sparse_as_dense,
        average_aggregated_gradients=average_aggregated_gradients,
        check_replicas=check_replicas,
    )
    return create(optimizer, name, settings, scale_local_gradients, layers)
