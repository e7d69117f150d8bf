# SPDX-License-Identifier: Apache-2.0
"""Layers that each rank has for itself, with a tape and with Keras; batch normalisation over all ranks."""

import horovod.keras
import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

hvd.init()
x = tf.fill([4, 2], float(hvd.rank() + 1))


def build():
    shared = tf.keras.layers.Dense(2, kernel_initializer="ones")
    local = tf.keras.layers.Dense(1, kernel_initializer="ones")
    layers = [tf.keras.Input([2]), shared, hvd.SyncBatchNormalization(axis=-1), local]
    return tf.keras.Sequential(layers), shared, local


model, shared, local = build()
with tf.GradientTape() as tape:
    loss = tf.reduce_mean(local(shared(x)))
tape = hvd.PartialDistributedGradientTape(tape, local_layers=[local])
of_shared, of_local = tape.gradient(loss, [shared.kernel, local.kernel])
average = (hvd.size() + 1) / 2
np.testing.assert_allclose(of_shared, np.full([2, 2], average))
np.testing.assert_allclose(of_local, np.full([2, 1], 2.0 * (hvd.rank() + 1) / hvd.size()))

opt = horovod.keras.PartialDistributedOptimizer(
    tf.keras.optimizers.SGD(0.01), local_layers=local, scale_local_gradients=False
)
model.compile(opt, "mse")
y = tf.fill([4, 1], float(hvd.rank()))
model.fit(x, y, epochs=2, verbose=0)
weights = hvd.allgather_object([one.numpy().tolist() for one in (shared.kernel, local.kernel)])
assert all(one[0] == weights[0][0] for one in weights), weights
assert hvd.size() == 1 or weights[0][1] != weights[1][1], weights
normalisation = model.layers[1]
means = hvd.allgather_object(normalisation.moving_mean.numpy().tolist())
assert all(one == means[0] for one in means), means
