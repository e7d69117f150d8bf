# SPDX-License-Identifier: Apache-2.0
"""Batch normalisation over the batches of all ranks."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from hvd import _lib, api
from hvd.errors import UnsupportedError
from hvd.tensorflow import operations
from hvd.work import Sum, Work


@keras.saving.register_keras_serializable(package="hvd")
class SyncBatchNormalization(keras.layers.BatchNormalization):
    """As ``keras.layers.BatchNormalization``, with mean and variance over the batches of all ranks.

    Batches may differ in size, and be empty on some ranks; masked places do not count. In training
    every rank must call the layer the same number of times. In inference it is the layer of Keras.
    The gradient of the input is that of the sum of all ranks' losses; those of gamma and beta are
    this rank's part, which ``DistributedGradientTape`` and ``DistributedOptimizer`` average.

    A model that has it is saved as every other; import ``hvd.tensorflow`` before it is loaded.

    Parameters
    ----------
    fused
        As in Horovod: there is no fused form.
    **kwargs
        As of ``keras.layers.BatchNormalization``.

    Raises
    ------
    ValueError
        `fused` is true.

    >>> layer = SyncBatchNormalization(axis=-1)
    >>> float(abs(tf.reduce_mean(layer(tf.random.normal([8, 3]), training=True)))) < 1e-5
    True
    """

    def __init__(self, fused: bool = False, **kwargs: Any) -> None:
        if fused in (True, None):
            raise ValueError(
                f"SyncBatchNormalization: fused is {fused}: there is no fused form; use fused=False"
            )
        if keras.backend.backend() != "tensorflow":
            raise UnsupportedError(
                f"SyncBatchNormalization: Keras uses {keras.backend.backend()}, this layer is for "
                "TensorFlow: set KERAS_BACKEND=tensorflow"
            )
        super().__init__(**kwargs)
        # XLA does not know operations between ranks.
        self.supports_jit = False

    def _moments(self, inputs: Any, mask: Any) -> tuple[Any, Any]:
        """Mean and variance of each channel; the only step that looks at more than one sample."""
        if not api.is_initialized() or api.size() == 1:
            return super()._moments(inputs, mask)
        count, mean, variance = _own_moments(inputs, mask, self._reduction_axes)
        # One exchange. Sums of squares of float32 lose nothing in float64.
        own = [mean * count, (variance + tf.square(mean)) * count, count]
        # A scope of its own: names that Keras makes differ between ranks.
        with tf.name_scope("sync_batch_norm/"):
            (total,) = operations.submit(Work(_lib.ALLREDUCE, op=Sum), [tf.concat(own, 0)])
        channels = inputs.shape[self.axis]
        everywhere = tf.maximum(total[2 * channels :], 1.0)
        mean = total[:channels] / everywhere
        variance = total[channels : 2 * channels] / everywhere - tf.square(mean)
        return tf.cast(mean, inputs.dtype), tf.cast(tf.maximum(variance, 0.0), inputs.dtype)


def _own_moments(inputs: Any, mask: Any, axes: list[int]) -> tuple[Any, Any, Any]:
    """Values per channel on this rank, their mean and their variance, as float64; 0 of nothing."""
    if mask is None:
        extents = tf.gather(tf.shape(inputs, tf.int64), axes)
        count = tf.reshape(tf.cast(tf.reduce_prod(extents), inputs.dtype), [1])
    else:
        chosen = tf.broadcast_to(tf.cast(mask, tf.bool)[..., tf.newaxis], tf.shape(inputs))
        count = tf.reduce_sum(tf.cast(chosen, inputs.dtype), axes)

    def average(values: Any) -> Any:
        if mask is not None:
            values = tf.where(chosen, values, tf.zeros_like(values))
        return tf.reduce_sum(values, axes) / tf.maximum(count, 1)

    along = [1] * inputs.shape.rank
    along[_channel_axis(inputs, axes)] = -1
    mean = average(inputs)
    variance = average(tf.square(inputs - tf.reshape(mean, along)))
    return tuple(tf.cast(one, tf.float64) for one in (count, mean, variance))  # type: ignore[return-value]


def _channel_axis(inputs: Any, axes: list[int]) -> int:
    (axis,) = set(range(inputs.shape.rank)) - set(axes)
    return axis
