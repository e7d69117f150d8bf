# SPDX-License-Identifier: Apache-2.0
"""An elastic loop of TensorFlow 2: commits, an error in the middle, and on from the last commit."""

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf
from horovod.common.exceptions import HorovodInternalError

hvd.init()
lr = 0.01
model = tf.keras.Sequential([tf.keras.Input([3]), tf.keras.layers.Dense(1)])
optimizer = tf.optimizers.SGD(lr * hvd.size())
rng = np.random.RandomState(hvd.rank())
data = tf.constant(rng.rand(8, 3), tf.float32)
resets = []
failures = []


@tf.function
def train_one_batch(data):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(model(data, training=True) ** 2)
    tape = hvd.DistributedGradientTape(tape)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


train_one_batch(data)  # builds the optimizer


@hvd.elastic.run
def train(state):
    while state.batch < 8:
        if state.batch == 5 and not failures:
            failures.append(model.get_weights()[0])
            if hvd.rank() == hvd.size() - 1:
                raise HorovodInternalError("a rank is said to be lost")
        train_one_batch(data)
        state.batch += 1
        state.seen.append(state.batch)
        if state.batch % 2 == 0:
            state.commit()


def on_state_reset():
    resets.append(hvd.size())
    optimizer.learning_rate.assign(lr * hvd.size())


state = hvd.elastic.TensorFlowKerasState(model, optimizer, batch=0, seen=[])
state.register_reset_callbacks([on_state_reset])
train(state)
assert resets == [hvd.size()], resets
assert state.seen == list(range(1, 9)), state.seen
assert len(set(hvd.allgather_object(float(model.get_weights()[0].sum())))) == 1
assert int(optimizer.iterations) == 9, optimizer.iterations
