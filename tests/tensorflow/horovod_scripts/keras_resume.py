# SPDX-License-Identifier: Apache-2.0
"""horovod.keras: an epoch found by rank 0, its checkpoint loaded, schedules, and a score of all ranks."""

import os
import tempfile

import horovod.keras as hvd
import keras
import numpy as np
import tensorflow as tf

hvd.init()
folder = tempfile.mkdtemp()
checkpoint_format = os.path.join(folder, "checkpoint-{epoch}.keras")
keras.utils.set_random_seed(hvd.rank())
rng = np.random.RandomState(hvd.rank())
labels = rng.randint(0, 2, 64)
images = (rng.rand(64, 3) + labels[:, None]).astype("float32")


def build():
    return keras.Sequential(
        [keras.Input([3]), keras.layers.Dense(4, "tanh"), keras.layers.Dense(2, "softmax")]
    )


if hvd.rank() == 0:  # an earlier job
    model = build()
    model.compile(keras.optimizers.SGD(0.1, momentum=0.9), "sparse_categorical_crossentropy")
    model.fit(images, labels, epochs=2, verbose=0)
    model.save(checkpoint_format.format(epoch=2))

resume_from_epoch = 0
for try_epoch in range(8, 0, -1):
    if os.path.exists(checkpoint_format.format(epoch=try_epoch)):
        resume_from_epoch = try_epoch
        break
resume_from_epoch = int(hvd.broadcast(resume_from_epoch, 0, name="resume_from_epoch"))
assert resume_from_epoch == 2

compression = hvd.Compression.fp16
if resume_from_epoch > 0 and hvd.rank() == 0:
    model = hvd.load_model(
        checkpoint_format.format(epoch=resume_from_epoch), compression=compression
    )
    restored = float(keras.ops.max(model.optimizer.variables[-1]))
    assert restored != 0
else:
    model = build()
    opt = keras.optimizers.SGD(learning_rate=0.1 * hvd.size(), momentum=0.9)
    opt = hvd.DistributedOptimizer(opt, compression=compression)
    model.compile(optimizer=opt, loss="sparse_categorical_crossentropy")
initial_lr = 0.1 * hvd.size()
callbacks = [
    hvd.callbacks.BroadcastGlobalVariablesCallback(0),
    hvd.callbacks.MetricAverageCallback(),
    hvd.callbacks.LearningRateWarmupCallback(initial_lr=initial_lr, warmup_epochs=3),
    hvd.callbacks.LearningRateScheduleCallback(
        initial_lr=initial_lr, multiplier=1.0, start_epoch=3, end_epoch=5
    ),
    hvd.callbacks.LearningRateScheduleCallback(
        initial_lr=initial_lr, multiplier=1e-1, start_epoch=5, end_epoch=6
    ),
]
history = model.fit(
    images,
    labels,
    batch_size=16,
    initial_epoch=resume_from_epoch,
    epochs=6,
    callbacks=callbacks,
    verbose=0,
)
rates = history.history["lr"]
np.testing.assert_allclose(rates[1:3], [initial_lr] * 2, rtol=1e-6)
np.testing.assert_allclose(rates[3], initial_lr * 1e-5, rtol=1e-6)
every = hvd.allgather([one.sum() for one in model.get_weights()]).reshape(hvd.size(), -1)
np.testing.assert_array_equal(every, every[:1].repeat(hvd.size(), axis=0))
score = hvd.allreduce(model.evaluate(images, labels, verbose=0))
assert score.shape == () and score < 0.7, score
assert hvd.reducescatter(np.ones([hvd.size(), 2]), op=hvd.Sum).tolist() == [[hvd.size()] * 2]
assert isinstance(model.optimizer, keras.optimizers.SGD)
assert tf.executing_eagerly()
