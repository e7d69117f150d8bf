# SPDX-License-Identifier: Apache-2.0
"""A loop of TensorFlow 2 with a tape: what rank 0 began with is broadcast after the first step."""

import argparse

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("--fp16-allreduce", action="store_true")
parser.add_argument("--use-adasum", action="store_true")
parser.add_argument("--groups", type=int)
parser.add_argument("--gradient-predivide-factor", type=float, default=1.0)
args = parser.parse_args()

hvd.init()
gpus = tf.config.experimental.list_physical_devices("GPU")
for gpu in gpus:
    tf.config.experimental.set_memory_growth(gpu, True)
if gpus:
    tf.config.experimental.set_visible_devices(gpus[hvd.local_rank()], "GPU")

tf.keras.utils.set_random_seed(hvd.rank())
rng = np.random.RandomState(hvd.rank())
labels = rng.randint(0, 3, 96)
images = (0.2 * rng.rand(96, 4, 4, 1) + np.eye(4)[labels][:, :, None, None]).astype("float32")
dataset = tf.data.Dataset.from_tensor_slices((images, labels)).repeat().shuffle(96).batch(16)

model = tf.keras.Sequential(
    [
        tf.keras.layers.Conv2D(4, [3, 3], activation="tanh"),
        tf.keras.layers.Flatten(),
        tf.keras.layers.Dense(3, activation="softmax"),
    ]
)
loss = tf.losses.SparseCategoricalCrossentropy()
lr_scaler = 1 if args.use_adasum else hvd.size()
opt = tf.optimizers.Adam(0.02 * lr_scaler)
compression = hvd.Compression.fp16 if args.fp16_allreduce else hvd.Compression.none


@tf.function
def training_step(images, labels, first_batch):
    with tf.GradientTape() as tape:
        loss_value = loss(labels, model(images, training=True))
    tape = hvd.DistributedGradientTape(
        tape,
        compression=compression,
        op=hvd.Adasum if args.use_adasum else hvd.Average,
        gradient_predivide_factor=args.gradient_predivide_factor,
        groups=args.groups,
    )
    grads = tape.gradient(loss_value, model.trainable_variables)
    opt.apply_gradients(zip(grads, model.trainable_variables))
    if first_batch:
        hvd.broadcast_variables(model.variables, root_rank=0)
        hvd.broadcast_variables(opt.variables, root_rank=0)
    return loss_value


losses = []
for batch, (images, labels) in enumerate(dataset.take(60 // hvd.size())):
    losses.append(float(training_step(images, labels, batch == 0)))

assert losses[-1] < 0.7 * losses[0], losses
every = hvd.allgather_object([variable.numpy() for variable in model.variables + opt.variables])
for mine, first in zip(every[hvd.rank()], every[0]):
    np.testing.assert_array_equal(mine, first)
