# SPDX-License-Identifier: Apache-2.0
# ruff: noqa
# fmt: off
"""SberCloud ML Space, "Обучить модель с использованием библиотеки Horovod": TensorFlow 1, as printed."""

import tensorflow.compat.v1 as tf  # TensorFlow 1, as the page has it
tf.disable_eager_execution()
from stand_ins import linear

import horovod.tensorflow as hvd

hvd.init()

config = tf.ConfigProto()
config.gpu_options.visible_device_list = str(hvd.local_rank())

loss = linear(tf, hvd.rank())
tvars = tf.trainable_variables()

opt = tf.train.AdagradOptimizer(0.01 * hvd.size())  # printed without the last (), by mistake

opt = hvd.DistributedOptimizer(opt)

optimizer = opt
grads_and_vars = optimizer.compute_gradients(loss, tvars)
grads = [grad for grad, var in grads_and_vars]

train_op = optimizer.apply_gradients(zip(grads, tvars))

hooks = [hvd.BroadcastGlobalVariablesHook(0)]

with tf.train.MonitoredTrainingSession(hooks=hooks, config=config) as session:
    losses = [session.run([loss, train_op])[0] for _ in range(60)]
    weights = session.run(tvars)

# Or:
broadcast = (
hvd.broadcast_global_variables(0)
)
with tf.Session(config=config) as session:
    session.run(tf.global_variables_initializer())
    session.run(broadcast)
    weights += session.run(tvars)
