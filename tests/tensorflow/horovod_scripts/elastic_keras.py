# SPDX-License-Identifier: Apache-2.0
"""Elastic training with Keras' fit: the callbacks keep the state, and an error in an epoch goes back to a commit."""

import horovod.tensorflow.keras as hvd
import numpy as np
import tensorflow as tf
from horovod.common.exceptions import HorovodInternalError

hvd.init()
lr = 0.02
model = tf.keras.Sequential([tf.keras.Input([3]), tf.keras.layers.Dense(1)])
opt = tf.optimizers.SGD(lr * hvd.size())
opt = hvd.DistributedOptimizer(opt)
model.compile(loss="mse", optimizer=opt)
rng = np.random.RandomState(hvd.rank())
x = rng.rand(32, 3).astype("float32")
y = x.sum(axis=1, keepdims=True)
epochs = 4
resets = []
begun = []
failures = []


class Fails(tf.keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        begun.append(epoch)

    def on_train_batch_end(self, batch, logs=None):
        if hvd.rank() == 0 and batch == 1 and len(begun) == 3 and not failures:
            failures.append(batch)
            raise HorovodInternalError("a rank is said to be lost")


def on_state_reset():
    resets.append(hvd.size())
    state.model.optimizer.learning_rate.assign(lr * hvd.size())


state = hvd.elastic.KerasState(model, batch=0, epoch=0)
state.register_reset_callbacks([on_state_reset])
callbacks = [
    hvd.elastic.UpdateEpochStateCallback(state),
    hvd.elastic.UpdateBatchStateCallback(state),
    hvd.elastic.CommitStateCallback(state, batches_per_commit=2),
    hvd.callbacks.MetricAverageCallback(),
    Fails(),
]


@hvd.elastic.run
def train(state):
    return state.model.fit(
        x, y, batch_size=8, epochs=epochs - state.epoch, callbacks=callbacks, verbose=0
    )


history = train(state)
assert resets == [hvd.size()], resets
assert begun == [0, 1, 2, 0, 1], begun
assert (state.epoch, state.batch) == (4, 0), (state.epoch, state.batch)
assert len(set(hvd.allgather([float(model.get_weights()[0].sum())]).tolist())) == 1
assert int(opt.iterations) == 16, opt.iterations
