# SPDX-License-Identifier: Apache-2.0
"""Keras' fit from TensorFlow with the callbacks of Horovod's documentation; the model of rank 0 is saved."""

import os
import sys
import tempfile

import horovod.tensorflow.keras as hvd
import numpy as np
import tensorflow as tf

hvd.init()
gpus = tf.config.list_physical_devices("GPU")
if gpus:
    mine = gpus[int(os.environ.get("HVD_LOCAL_DEVICE", hvd.local_rank()))]
    tf.config.set_visible_devices(mine, "GPU")
    tf.config.experimental.set_memory_growth(mine, True)
passes = int(sys.argv[1]) if len(sys.argv) > 1 else 1
tf.keras.utils.set_random_seed(hvd.rank())
rng = np.random.RandomState(hvd.rank())
labels = rng.randint(0, 2, 128)
images = (rng.rand(128, 6) + labels[:, None]).astype("float32")
dataset = tf.data.Dataset.from_tensor_slices((images, labels)).repeat().shuffle(128).batch(16)

model = tf.keras.Sequential(
    [
        tf.keras.Input([6]),
        tf.keras.layers.Dense(8, activation="relu"),
        tf.keras.layers.Dropout(0.1),
        tf.keras.layers.Dense(2, activation="softmax"),
    ]
)
scaled_lr = 0.05 * hvd.size()
opt = tf.optimizers.SGD(scaled_lr, momentum=0.9)
opt = hvd.DistributedOptimizer(
    opt, backward_passes_per_step=passes, average_aggregated_gradients=True
)
model.compile(loss=tf.losses.SparseCategoricalCrossentropy(), optimizer=opt, metrics=["accuracy"])
callbacks = [
    hvd.callbacks.BroadcastGlobalVariablesCallback(0),
    hvd.callbacks.MetricAverageCallback(),
    hvd.callbacks.LearningRateWarmupCallback(initial_lr=scaled_lr, warmup_epochs=3, verbose=1),
]
folder = tempfile.mkdtemp()
if hvd.rank() == 0:
    callbacks.append(
        tf.keras.callbacks.ModelCheckpoint(os.path.join(folder, "checkpoint-{epoch}.keras"))
    )
history = model.fit(
    dataset,
    steps_per_epoch=16 // hvd.size(),
    callbacks=callbacks,
    epochs=5,
    verbose=0,
)

assert history.history["accuracy"][-1] > 0.8, history.history
np.testing.assert_allclose(history.history["lr"][-1], scaled_lr, rtol=1e-6)
assert history.history["lr"][0] < scaled_lr or hvd.size() == 1
sums = hvd.allgather([float(sum(np.abs(one).sum() for one in model.get_weights()))])
assert len(set(sums.tolist())) == 1, sums
losses = hvd.allgather([history.history["loss"]])
np.testing.assert_array_equal(losses, losses[:1].repeat(hvd.size(), axis=0))
if hvd.rank() == 0:
    assert len(os.listdir(folder)) == 5
