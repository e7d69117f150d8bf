#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains on images that tf.data reads in four ways, and says which of them is input-bound.

    hvdrun -np 2 python3 input_bound.py

A PrefetchLoader of depth 0 around a dataset reads nothing ahead, which tf.data does itself: it
measures how long each step waited for its batch. What makes it distributed is marked with (1) to (5).
"""

from __future__ import annotations

import sys

import numpy as np
import tensorflow as tf
from tensorflow_digits import DATA, parser_for, positive

import hvd.tensorflow as hvd
from hvd.data import PrefetchLoader

hidden = tf.Variable(tf.zeros((64, 4096)))
scores = tf.Variable(tf.zeros((4096, 10)))


@tf.function(reduce_retracing=True)
def train_step(images: tf.Tensor, digits: tf.Tensor, rate: tf.Tensor) -> tf.Tensor:
    """One update with the gradients of all ranks; the loss of this rank."""
    with tf.GradientTape() as tape:
        found = tf.nn.relu(images @ hidden) @ scores
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(digits, found)
        loss = tf.reduce_mean(losses)
    # (2) gradients become averages over all ranks
    gradients = hvd.DistributedGradientTape(tape).gradient(loss, [hidden, scores])
    hidden.assign_sub(rate * gradients[0])
    scores.assign_sub(rate * gradients[1])
    return loss


def read(line: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """A line of text to an image, a little moved and scaled, and its digit."""
    numbers = tf.stack(tf.io.decode_csv(line, [[0.0]] * 65))
    large = tf.image.resize(tf.reshape(numbers[:64] / 16, (8, 8, 1)), (36, 36))
    image = tf.image.resize(tf.image.random_crop(large, (32, 32, 1)), (8, 8))
    return tf.reshape(image, (64,)), tf.cast(numbers[64], tf.int32)


def main() -> int:
    """Trains with each kind of input and prints what hvd.data says of it."""
    parser = parser_for(__doc__, batch=128, rate=0.05)
    parser.add_argument("--epochs", type=positive, default=5, help="passes over the images (5)")
    options = parser.parse_args()
    hvd.init()  # (1) joins the job
    hvd.use_own_gpu()
    # (4) each rank has images of its own: every size-th line, the same number on all ranks
    count = sum(1 for _ in DATA.open())
    lines = tf.data.TextLineDataset(str(DATA)).take(count - count % hvd.size())
    lines = lines.shard(hvd.size(), hvd.rank())
    steps = count // hvd.size() // options.batch
    if steps < 2:
        parser.error(f"--batch {options.batch}: a rank has {count // hvd.size()} images; 2 batches")

    def batches(images: tf.data.Dataset) -> tf.data.Dataset:
        return images.batch(options.batch, drop_remainder=True)

    made_up = np.zeros((options.batch, 64), "float32"), np.zeros(options.batch, "int32")
    ahead = tf.data.AUTOTUNE
    kinds = {
        "made up": tf.data.Dataset.from_tensors(made_up).cache().repeat(steps),
        "one line at a time": batches(lines.map(read)),
        "lines in parallel, read ahead": batches(lines.map(read, ahead)).prefetch(ahead),
        "kept in memory, read ahead": batches(lines.map(read).cache()).prefetch(ahead),
    }
    rate = tf.constant(options.rate, tf.float32)
    train_step(*made_up, tf.constant(0.0))  # builds the graph, which is not a step to measure
    for name, data in kinds.items():
        hidden.assign(tf.random.normal(hidden.shape, stddev=0.1))
        scores.assign(tf.random.normal(scores.shape, stddev=0.02))
        hvd.broadcast_variables([hidden, scores], root_rank=0)  # (3) all start as rank 0 does
        loader = PrefetchLoader(data, depth=0)
        loss = tf.zeros(())
        for epoch in range(options.epochs):
            for images, digits in loader:
                loss = train_step(images, digits, rate)
            if epoch == 0 and options.epochs > 1:
                loader.reset_statistics()  # caches were filled in the first epoch
        verdict = loader.report(quiet=True)
        loss = float(hvd.allreduce(loss, name="loss"))
        if hvd.rank() == 0:  # (5) one rank speaks for all
            print(f"{name:30} loss {loss:.3f}\n    {verdict}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
