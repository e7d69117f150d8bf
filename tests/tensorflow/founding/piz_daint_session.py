# SPDX-License-Identifier: Apache-2.0
# ruff: noqa
# fmt: off
"""CSCS, the same course: TensorFlow 1 and its sessions, as printed."""

import tensorflow.compat.v1 as tf  # TensorFlow 1, as the course had it
tf.disable_eager_execution()
from stand_ins import linear

import horovod.tensorflow as hvd
hvd.init()

learning_rate = 0.05
loss = linear(tf, hvd.rank())

opt = tf.train.GradientDescentOptimizer(learning_rate)
opt = hvd.DistributedOptimizer(opt)

train_op = opt.minimize(loss)

hooks = [hvd.BroadcastGlobalVariablesHook(0)]
with tf.train.MonitoredTrainingSession(hooks=hooks) as sess:
    losses = [sess.run([loss, train_op])[0] for _ in range(60)]  # printed: ...
    weights = sess.run(tf.trainable_variables())
