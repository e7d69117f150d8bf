#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a digit classifier with a loop of your own in TensorFlow 2.

    hvdrun -np 4 python3 custom_loop.py

What makes it distributed is marked with (1) to (5); the rest is an ordinary script. The step is one
tf.function: gradients travel while the others are still computed.
"""

from __future__ import annotations

import sys
import time

import tensorflow as tf
from tensorflow_digits import load, parser_for, positive

import hvd.tensorflow as hvd


class Network(tf.Module):
    """Two layers: images (N, 64) to scores (N, 10)."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = tf.Variable(tf.random.normal((64, 128), stddev=0.15))
        self.hidden_bias = tf.Variable(tf.zeros(128))
        self.scores = tf.Variable(tf.random.normal((128, 10), stddev=0.1))
        self.scores_bias = tf.Variable(tf.zeros(10))

    def __call__(self, images: tf.Tensor) -> tf.Tensor:
        hidden = tf.nn.relu(images @ self.hidden + self.hidden_bias)
        return hidden @ self.scores + self.scores_bias


model = Network()


@tf.function
def train_step(images: tf.Tensor, digits: tf.Tensor, rate: tf.Tensor) -> tf.Tensor:
    """One update with the gradients of all ranks; the loss of this rank."""
    with tf.GradientTape() as tape:
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(digits, model(images))
        loss = tf.reduce_mean(losses)
    tape = hvd.DistributedGradientTape(tape)  # (2) gradients become averages over all ranks
    variables = model.trainable_variables
    for variable, gradient in zip(variables, tape.gradient(loss, variables)):
        variable.assign_sub(rate * gradient)  # here, or optimizer.apply_gradients(...)
    return loss


@tf.function
def test_accuracy(images: tf.Tensor, digits: tf.Tensor) -> tf.Tensor:
    """Share of the test set that the model gets right; each rank looks at its part."""
    mine = slice(hvd.rank(), None, hvd.size())
    found = tf.argmax(model(images[mine]), 1, digits.dtype)
    right = tf.reduce_sum(tf.cast(found == digits[mine], tf.int32))
    return hvd.allreduce(right, op=hvd.Sum, name="right") / len(images)


def main() -> int:
    """Trains and reports; 1 when the accuracy is below what was expected."""
    parser = parser_for(__doc__, batch=16, rate=0.1)
    parser.add_argument("--epochs", type=positive, default=15, help="passes over the images (15)")
    parser.add_argument("--expect", type=float, default=0.95, help="least test accuracy (0.95)")
    options = parser.parse_args()
    hvd.init()  # (1) joins the job
    hvd.use_own_gpu()
    images, digits, *test = load()
    # (3) all ranks start with the values of rank 0; of an optimizer with slots, those too
    hvd.broadcast_variables(model.variables, root_rank=0)
    # (4) each rank takes images of its own; drop_remainder: equally many steps on all
    each = len(images) // hvd.size()
    mine = slice(hvd.rank(), each * hvd.size(), hvd.size())
    data = tf.data.Dataset.from_tensor_slices((images[mine], digits[mine])).cache()
    data = data.shuffle(each, seed=hvd.rank()).batch(options.batch, drop_remainder=True)
    data = data.prefetch(tf.data.AUTOTUNE)
    steps = len(data)
    if steps == 0:
        parser.error(f"--batch {options.batch}: a rank has {each} images")
    accuracy = 0.0
    for epoch in range(options.epochs):
        began, loss = time.perf_counter(), tf.zeros(())
        for step, (some, labels) in enumerate(data):
            # From the rate of one rank to that of all, in the first epoch.
            rate = hvd.learning_rate(options.rate, epoch * steps + step, steps)
            loss = train_step(some, labels, tf.constant(rate, tf.float32))
        rate_of_all = steps * options.batch * hvd.size() / (time.perf_counter() - began)
        accuracy = float(test_accuracy(*map(tf.constant, test)))
        mean_loss = float(hvd.allreduce(loss, name="loss"))
        if hvd.rank() == 0:  # (5) one rank speaks for all
            print(
                f"epoch {epoch + 1:2}/{options.epochs}  loss {mean_loss:.4f}  "
                f"accuracy {100 * accuracy:5.2f} %  {rate_of_all:7.0f} images/s",
                flush=True,
            )
    if hvd.rank() == 0:
        print(f"\n{hvd.describe()}\nfinal test accuracy {100 * accuracy:.2f} %")
    return 0 if accuracy >= options.expect else 1


if __name__ == "__main__":
    sys.exit(main())
