# SPDX-License-Identifier: Apache-2.0
"""Gradient tapes whose gradients are those of all ranks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from hvd._core.groups import Groups, chosen_groups
from hvd._core.refusals import refused
from hvd._core.settings import Settings, checked_settings
from hvd._core.work import Average
from hvd.process_sets import ProcessSet, global_process_set
from hvd.tensorflow.compression import Compression
from hvd.tensorflow.reducer import LocalSources, identity, reduce_gradients, variable_kinds


class _DistributedTape(tf.GradientTape):
    """Records on the tape it was made of, and reduces the gradients that this one gives."""

    def __init__(
        self, tape: tf.GradientTape, settings: Settings, layers: list[Any], scales_local: bool
    ) -> None:
        # The other tape has all state; what is not said here, it does.
        self._hvd_tape = tape
        self._hvd_settings = settings
        self._hvd_layers = layers
        self._hvd_local = LocalSources()
        self._hvd_scales_local = scales_local

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_hvd_tape"], name)

    def __enter__(self) -> _DistributedTape:
        self._hvd_tape.__enter__()
        return self

    def __exit__(self, *error: Any) -> Any:
        return self._hvd_tape.__exit__(*error)

    def watch(self, tensor: Any) -> None:
        """Records what becomes of a tensor."""
        self._hvd_tape.watch(tensor)

    def stop_recording(self) -> Any:
        """A context in which nothing is recorded."""
        return self._hvd_tape.stop_recording()

    def reset(self) -> None:
        """Forgets what was recorded."""
        self._hvd_tape.reset()

    def watched_variables(self) -> Any:
        """The variables that were used."""
        return self._hvd_tape.watched_variables()

    def jacobian(self, *args: Any, **kwargs: Any) -> Any:
        """That of this rank: it is not reduced."""
        return self._hvd_tape.jacobian(*args, **kwargs)

    def batch_jacobian(self, *args: Any, **kwargs: Any) -> Any:
        """That of this rank: it is not reduced."""
        return self._hvd_tape.batch_jacobian(*args, **kwargs)

    def register_local_source(self, source: Any) -> None:
        """The gradient of this variable stays on its rank."""
        self._hvd_local.add(source)

    def _local_sources(self) -> LocalSources:
        # Layers may have been built since.
        for layer in self._hvd_layers:
            for variable in layer.trainable_variables:
                self._hvd_local.add(variable)
        return self._hvd_local

    @tf.autograph.experimental.do_not_convert
    def gradient(
        self,
        target: Any,
        sources: Any,
        output_gradients: Any = None,
        unconnected_gradients: Any = tf.UnconnectedGradients.NONE,
        use_generic_names: bool = False,
    ) -> Any:
        """The gradients of all ranks, in the structure of `sources`.

        Parameters
        ----------
        target, sources, output_gradients, unconnected_gradients
            As ``tf.GradientTape.gradient`` has them.
        use_generic_names
            For Horovod's scripts: names count the gradients in any case.

        Returns
        -------
        structure
            A dense tensor, ``tf.IndexedSlices`` or None for each source.
        """
        if isinstance(unconnected_gradients, bool):  # Horovod has use_generic_names at this place
            unconnected_gradients = tf.UnconnectedGradients.NONE
        own = self._hvd_tape.gradient(target, sources, output_gradients, unconnected_gradients)
        variables = tf.nest.flatten(sources)
        reduced = reduce_gradients(
            tf.nest.flatten(own),
            self._hvd_settings,
            variables,
            self._local_sources(),
            self._hvd_scales_local,
        )
        return tf.nest.pack_sequence_as(sources, reduced)

    @tf.autograph.experimental.do_not_convert
    def get_local_and_global_gradients(
        self,
        target: Any,
        sources: Any,
        output_gradients: Any = None,
        use_generic_names: bool = False,
    ) -> tuple[list[Any], list[Any]]:
        """Two lists, in the order of `sources`: gradients that stayed here, and reduced ones."""
        reduced = tf.nest.flatten(self.gradient(target, sources, output_gradients))
        pairs = list(zip(tf.nest.flatten(sources), reduced))
        local = self._hvd_local
        return (
            [gradient for source, gradient in pairs if source in local],
            [gradient for source, gradient in pairs if source not in local],
        )


@tf.autograph.experimental.do_not_convert
def DistributedGradientTape(  # noqa: N802 (the name that users know)
    gradtape: tf.GradientTape,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    sparse_as_dense: bool = False,
    op: int = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: Groups = None,
    process_set: ProcessSet = global_process_set,
    scale_local_gradients: bool = True,
) -> Any:
    """A tape whose ``gradient()`` gives the gradients of all ranks.

    Parameters
    ----------
    gradtape
        A tape, before or after it has recorded; both then record the same.
    device_dense, device_sparse
        For Horovod's scripts; not used.
    compression
        One of ``Compression``, or an object with ``compress()`` and ``decompress()``.
    sparse_as_dense
        Sparse gradients are made dense before they are reduced.
    op
        ``Average``, ``Sum`` or ``Adasum`` of gradients.
    gradient_predivide_factor
        Gradients are divided by it before the sum and multiplied after; with ``Average`` only.
    num_groups
        The old name of `groups`, deprecated.
    groups
        Gradients of a group are reduced together, when all of them are there: a number of groups,
        or lists of variables. Without it small ones leave some dozen at a time, large ones each by
        itself. In eager execution all are one group.
    process_set
        The ranks that train together. On a rank that is not in the set gradients are local.
    scale_local_gradients
        Gradients of ``register_local_source()`` are divided by the size of the process set.

    Returns
    -------
    tf.GradientTape
        A context manager with the methods of `gradtape`, and ``register_local_source(variable)``.

    Raises
    ------
    InvalidArgumentError
        An argument is wrong.

    >>> x = tf.Variable(3.0)
    >>> with tf.GradientTape() as tape:
    ...     y = x * x
    >>> float(DistributedGradientTape(tape).gradient(y, x))
    6.0
    """
    chosen = chosen_groups(num_groups, groups, variable_kinds(), "tf.Variable", identity)
    settings = checked_settings(
        compression=compression,
        op=op,
        process_set=process_set,
        gradient_predivide_factor=gradient_predivide_factor,
        sparse_as_dense=sparse_as_dense,
        groups=chosen,
    )
    return _made(gradtape, settings, [], scale_local_gradients)


@tf.autograph.experimental.do_not_convert
def PartialDistributedGradientTape(  # noqa: N802 (the name that users know)
    gradtape: tf.GradientTape,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    sparse_as_dense: bool = False,
    op: int = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: Groups = None,
    process_set: ProcessSet = global_process_set,
    local_layers: Any = None,
    scale_local_gradients: bool = True,
) -> Any:
    """A ``DistributedGradientTape`` for models of which each rank has some layers for itself.

    Parameters
    ----------
    gradtape, device_dense, device_sparse, compression, sparse_as_dense, op
        As of ``DistributedGradientTape``.
    gradient_predivide_factor, num_groups, groups, process_set
        As of ``DistributedGradientTape``.
    local_layers
        A layer, or some, whose gradients stay on their rank; they may be built later.
    scale_local_gradients
        Their gradients are divided by the size of the process set.

    Raises
    ------
    InvalidArgumentError
        An argument is wrong.

    >>> x = tf.Variable(3.0)
    >>> with tf.GradientTape() as tape:
    ...     y = x * x
    >>> float(PartialDistributedGradientTape(tape).gradient(y, x))
    6.0
    """
    chosen = chosen_groups(num_groups, groups, variable_kinds(), "tf.Variable", identity)
    settings = checked_settings(
        compression=compression,
        op=op,
        process_set=process_set,
        gradient_predivide_factor=gradient_predivide_factor,
        sparse_as_dense=sparse_as_dense,
        groups=chosen,
    )
    return _made(gradtape, settings, checked_layers(local_layers), scale_local_gradients)


def _made(
    gradtape: Any, settings: Settings, layers: list[Any], scales_local: bool
) -> _DistributedTape:
    if not isinstance(gradtape, tf.GradientTape):
        raise refused(f"a tf.GradientTape is needed, not {gradtape!r}")
    if isinstance(gradtape, _DistributedTape):
        raise refused(
            "this is a DistributedGradientTape already: wrap once, or gradients are reduced twice"
        )
    return _DistributedTape(gradtape, settings, layers, scales_local)


def checked_layers(local_layers: Any) -> list[Any]:
    """The layers that the argument `local_layers` means."""
    if local_layers is None:
        return []
    layers = list(local_layers) if isinstance(local_layers, Iterable) else [local_layers]
    for layer in layers:
        if not callable(layer) or not hasattr(layer, "trainable_variables"):
            raise refused(
                f"local_layers has {layer!r}: layers of Keras are needed; for single variables call "
                "register_local_source() of the tape"
            )
    return layers
