# SPDX-License-Identifier: Apache-2.0
# ruff: noqa
# fmt: off
"""CSCS, "Efficient and Distributed training with TensorFlow on Piz Daint": tf.keras, as printed."""

import tensorflow as tf
from stand_ins import digits, network

import horovod.tensorflow.keras as hvd
hvd.init()

learning_rate = 0.01 * hvd.size()

opt = tf.keras.optimizers.SGD(learning_rate)
opt = hvd.DistributedOptimizer(opt)

model = network(tf.keras)
model.compile(opt, "sparse_categorical_crossentropy", metrics=["accuracy"])
dataset = digits(hvd.rank())

callbacks = [hvd.callbacks.BroadcastGlobalVariablesCallback(0)]
model.fit(dataset, steps_per_epoch=20, verbose=0, callbacks=callbacks)  # printed: fit(dataset, ..., callbacks=callbacks)

# Save checkpoints for the worker of rank 0.
# This will prevent all workers from corrupting a
# single checkpoint file.
if hvd.rank() == 0:
    model.save("piz-daint.h5")  # printed: ...
