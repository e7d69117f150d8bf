# SPDX-License-Identifier: Apache-2.0
# ruff: noqa
# fmt: off
"""CSCS, the same course: the Estimator, as printed; TensorFlow 2.16 has none, and `stand_ins` a small one."""

import tensorflow.compat.v1 as tf
tf.disable_eager_execution()
from stand_ins import NUM_STEPS, estimators, linear

import horovod.tensorflow as hvd
hvd.init()

tf = estimators(tf)

def model_fn():
    loss = linear(tf, hvd.rank())
    opt = tf.train.GradientDescentOptimizer(0.05)
    opt = hvd.DistributedOptimizer(opt)
    return loss, opt.minimize(loss)

train_input_fn = None

estimator = tf.estimator.Estimator(model_fn)  # printed: ...

hooks = [hvd.BroadcastGlobalVariablesHook(0)]
estimator.train(input_fn=train_input_fn,
                 steps=NUM_STEPS,
                 hooks=hooks)
losses, weights = estimator.losses, estimator.weights
