#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A lab: how fast does a CNN train on made-up images, and how fast on real ones?

    hvdrun -np 1 python3 cnn_lab.py
    hvdrun -np 4 python3 cnn_lab.py
    hvdrun -np 4 python3 cnn_lab.py --size 64 --width 32    # a larger network

Made-up images are in memory: their rate is that of computing and of averaging gradients. Real ones
(scanned digits) are read as text and scaled to the size by tf.data: what they are slower is the price
of the input. Run it on 1, 2, 4 ... ranks: images/s over those of one rank, by the ranks, is the
efficiency. What makes it distributed is marked with (1) to (5).
"""

from __future__ import annotations

import argparse
import sys
import time

import keras
import numpy as np
import tensorflow as tf
from keras_digits import DATA, parser_for, positive

import hvd.keras as hvd


class ImagesPerSecond(keras.callbacks.Callback):
    """The rate of each epoch but the first, in which TensorFlow builds its graph."""

    def __init__(self, images: int) -> None:
        super().__init__()
        self.images = images
        self.rates: list[float] = []

    def on_epoch_begin(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        self.began = time.perf_counter()

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        if epoch > 0:
            self.rates.append(self.images / (time.perf_counter() - self.began))


def network(size: int, width: int) -> keras.Model:
    """Images (N, size, size, 1) to scores (N, 10)."""
    model = keras.Sequential([keras.Input((size, size, 1))])
    while size >= 8:
        model.add(keras.layers.Conv2D(width, 3, padding="same", activation="relu"))
        model.add(keras.layers.MaxPooling2D(2))
        size, width = size // 2, width * 2
    model.add(keras.layers.Flatten())
    model.add(keras.layers.Dense(10))
    return model


def made_up(options: argparse.Namespace) -> tf.data.Dataset:
    """One batch of noise, again and again."""
    draw = np.random.default_rng(hvd.rank())
    shape = (options.batch, options.size, options.size, 1)
    batch = draw.random(shape, dtype="float32"), draw.integers(10, size=options.batch)
    return tf.data.Dataset.from_tensors(batch).cache().repeat()


def real(options: argparse.Namespace) -> tf.data.Dataset:
    """The digits, a line of text for each, over and over."""

    def read(line: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        numbers = tf.strings.to_number(tf.strings.split(line, ","))
        image = tf.reshape(numbers[:64] / 16, (8, 8, 1))
        return tf.image.resize(image, (options.size, options.size)), tf.cast(numbers[64], tf.int32)

    lines = tf.data.TextLineDataset(str(DATA)).shard(hvd.size(), hvd.rank())  # (4) its own images
    images = lines.repeat().shuffle(256).map(read, num_parallel_calls=tf.data.AUTOTUNE)
    return images.batch(options.batch, drop_remainder=True).prefetch(tf.data.AUTOTUNE)


def train(options: argparse.Namespace, data: tf.data.Dataset) -> tuple[list[float], float]:
    """Images per second of this rank in each epoch, and the last accuracy, of all ranks."""
    model = network(options.size, options.width)
    optimizer = keras.optimizers.SGD(options.rate * hvd.size(), momentum=0.9)
    # (2) gradients become averages over all ranks
    optimizer = hvd.DistributedOptimizer(optimizer)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, loss, metrics=["accuracy"])
    meter = ImagesPerSecond(options.steps * options.batch)
    broadcast = hvd.callbacks.BroadcastGlobalVariablesCallback(0)  # (3) all start as rank 0 does
    callbacks = [broadcast, hvd.callbacks.MetricAverageCallback(), meter]
    done = model.fit(
        data,
        epochs=options.epochs + 1,
        steps_per_epoch=options.steps,
        shuffle=False,  # tf.data does it
        callbacks=callbacks,
        verbose=0,
    )
    return meter.rates, done.history["accuracy"][-1]


def main() -> int:
    """Trains on both kinds of images and compares."""
    parser = parser_for(__doc__, epochs=3, batch=32, rate=0.02)
    parser.add_argument("--steps", type=positive, default=40, help="steps of an epoch (40)")
    parser.add_argument("--size", type=positive, default=16, help="side of the images (16)")
    parser.add_argument("--width", type=positive, default=16, help="channels at first (16)")
    options = parser.parse_args()
    if options.size < 8:
        parser.error(f"--size {options.size}: 8 is the least")
    hvd.init()  # (1) joins the job
    hvd.use_own_gpu()
    first = 0.0
    for name, data in {"made-up": made_up(options), "real": real(options)}.items():
        rates, accuracy = train(options, data)
        every = hvd.allgather(np.array([rates])).sum(axis=0)  # of all ranks, by epoch
        first = first or every.mean()
        if hvd.rank() == 0:  # (5) one rank speaks for all
            print(
                f"{name:8} images: {every.mean():8.0f} +- {1.96 * every.std():.0f} images/s on "
                f"{hvd.size()} ranks, {every.mean() / first:.2f} of made-up; accuracy {accuracy:.3f}",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
