# SPDX-License-Identifier: Apache-2.0
"""Batch normalisation over the batches of all ranks."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from hvd._core import _lib, api
from hvd._core.work import Sum, Work
from hvd.errors import UnsupportedError
from hvd.tensorflow.ops import submission


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
        rank_moments = _own_moments(inputs, mask, self._reduction_axes)
        # A scope of its own: names that Keras makes differ between ranks.
        with tf.name_scope("sync_batch_norm/"):
            mean, variance = _merged(*rank_moments)
        return tf.cast(mean, inputs.dtype), tf.cast(variance, inputs.dtype)


def _merged(count: Any, mean: Any, variance: Any) -> tuple[Any, Any]:
    """Mean and variance over all ranks, of those of each rank: [channels], float64.

    Two sums, however many ranks there are: first the mean, then squares of differences from it,
    never of large numbers (Chan et al. 1979). What the differences are from changes no derivative:
    the first sum has none, and in the backward pass there is one exchange.
    """
    (total,) = _summed([mean * count, count], tf.stop_gradient)
    channels = tf.shape(mean)[0]
    center = total[:channels] / tf.maximum(total[channels:], 1.0)
    difference = mean - center
    (total,) = _summed([difference * count, (variance + tf.square(difference)) * count, count])
    everywhere = tf.maximum(total[2 * channels :], 1.0)
    rest = total[:channels] / everywhere
    squares = total[channels : 2 * channels] / everywhere
    return center + rest, tf.maximum(squares - tf.square(rest), 0.0)


def _summed(parts: list[Any], taken: Any = tf.identity) -> list[tf.Tensor]:
    return submission.submit(Work(_lib.ALLREDUCE, op=Sum), [taken(tf.concat(parts, 0))])


def _own_moments(inputs: Any, mask: Any, axes: list[int]) -> tuple[Any, Any, Any]:
    """Values per channel on this rank, their mean and their variance, as float64; 0 of nothing."""
    if mask is None:
        extents = tf.gather(tf.shape(inputs, tf.int64), axes)
        count = tf.reshape(tf.cast(tf.reduce_prod(extents), tf.float64), [1])
    else:
        chosen = tf.broadcast_to(tf.cast(mask, tf.bool)[..., tf.newaxis], tf.shape(inputs))
        count = tf.cast(tf.math.count_nonzero(chosen, axes), tf.float64)
    divisor = tf.cast(tf.maximum(count, 1.0), inputs.dtype)
    along = [1] * inputs.shape.rank
    along[_channel_axis(inputs, axes)] = -1

    def average(values: Any) -> Any:
        if mask is not None:
            values = tf.where(chosen, values, tf.zeros_like(values))
        return tf.reduce_sum(values, axes) / divisor

    # A mean of large float32 is off by roundings of its sum; that of the differences from it is not.
    near = tf.stop_gradient(average(inputs))
    differences = inputs - tf.reshape(near, along)
    rest = average(differences)
    variance = average(tf.square(differences - tf.reshape(rest, along)))
    mean = tf.cast(near, tf.float64) + tf.cast(rest, tf.float64)
    return count, mean, tf.cast(variance, tf.float64)


def _channel_axis(inputs: Any, axes: list[int]) -> int:
    (axis,) = set(range(inputs.shape.rank)) - set(axes)
    return axis
