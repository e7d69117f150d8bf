#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a digit classifier as in TensorFlow 1: a graph, hooks and a MonitoredTrainingSession.

    hvdrun -np 4 python3 session.py
    hvdrun -np 4 python3 session.py --checkpoints run-1 --steps 600    # goes on from what is there

For scripts of that kind that should go on working; new ones are shorter as custom_loop.py is. What
makes it distributed is marked with (1) to (5). tf.estimator is gone from TensorFlow since 2.16.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1
from tensorflow_digits import load, parser_for, positive

import hvd.tensorflow as hvd


def network(images: tf.Tensor) -> tf.Tensor:
    """Images (N, 64) to scores (N, 10)."""
    hidden = v1.get_variable("hidden", (64, 128), initializer=v1.glorot_uniform_initializer())
    bias = v1.get_variable("bias", (128,), initializer=v1.zeros_initializer())
    scores = v1.get_variable("scores", (128, 10), initializer=v1.glorot_uniform_initializer())
    return tf.nn.relu(images @ hidden + bias) @ scores


class TestAtEnd(v1.train.SessionRunHook):
    """Says where the training begins; runs an operation when it is over, while there is a session."""

    def __init__(self, step: tf.Tensor, test: tf.Tensor, feed: dict[tf.Tensor, np.ndarray]) -> None:
        self.step, self.test, self.feed = step, test, feed
        self.found = 0

    def after_create_session(self, session: v1.Session, coord: tf.train.Coordinator) -> None:
        # The last rank: it read no checkpoint, and has the step of rank 0 all the same.
        if hvd.rank() == hvd.size() - 1:
            print(f"rank {hvd.rank()} goes on from step {session.run(self.step)}", flush=True)

    def end(self, session: v1.Session) -> None:
        self.found = session.run(self.test, self.feed)


def main() -> int:
    """Trains and reports; 1 when the accuracy is below what was expected."""
    parser = parser_for(__doc__, batch=16, rate=0.1)
    parser.add_argument("--steps", type=positive, default=400, help="updates, of all ranks (400)")
    parser.add_argument("--expect", type=float, default=0.93, help="least test accuracy (0.93)")
    parser.add_argument("--checkpoints", type=Path, help="folder that rank 0 writes to (none)")
    options = parser.parse_args()
    hvd.init()  # (1) joins the job
    hvd.use_own_gpu()
    v1.disable_eager_execution()  # from here on operations make a graph
    train_images, train_digits, test_images, test_digits = load()

    images = v1.placeholder(tf.float32, (None, 64), name="images")
    digits = v1.placeholder(tf.int32, (None,), name="digits")
    scores = network(images)
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(digits, scores))
    # Not ==, which asks of tensors of a graph whether they are one.
    is_right = tf.equal(tf.argmax(scores, 1, tf.int32), digits)
    right = tf.reduce_sum(tf.cast(is_right, tf.int32))
    # Of all ranks; it is part of the graph before the session closes that.
    all_right = hvd.allreduce(right, op=hvd.Sum, name="right")
    step = v1.train.get_or_create_global_step()
    optimizer = v1.train.MomentumOptimizer(options.rate * hvd.size(), 0.5)
    optimizer = hvd.DistributedOptimizer(optimizer)  # (2) gradients become averages over all ranks
    train = optimizer.minimize(loss, global_step=step)
    hooks = [
        # (3) all ranks start as rank 0 does, also where that restored a checkpoint
        hvd.BroadcastGlobalVariablesHook(0),
        # Steps are counted by all alike, so all stop after the same one.
        v1.train.StopAtStepHook(last_step=options.steps),
    ]
    if hvd.rank() == 0:  # (5) one rank speaks for all
        shown = {"step": step, "loss": loss}
        hooks.append(v1.train.LoggingTensorHook(shown, every_n_iter=100))
        v1.logging.set_verbosity(v1.logging.INFO)
    # (4) each rank draws from images of its own
    mine = slice(hvd.rank(), None, hvd.size())
    own_images, own_digits = train_images[mine], train_digits[mine]
    draw = np.random.default_rng(hvd.rank())
    # Each looks at its part of the test set; `all_right` adds up.
    test = TestAtEnd(step, all_right, {images: test_images[mine], digits: test_digits[mine]})
    hooks.append(test)
    # Rank 0 alone writes checkpoints, or the ranks would write over each other.
    folder = str(options.checkpoints) if options.checkpoints and hvd.rank() == 0 else None
    with v1.train.MonitoredTrainingSession(checkpoint_dir=folder, hooks=hooks) as session:
        while not session.should_stop():
            some = draw.integers(len(own_images), size=options.batch)
            session.run(train, {images: own_images[some], digits: own_digits[some]})
    accuracy = test.found / len(test_images)
    if hvd.rank() == 0:
        print(f"\n{hvd.describe()}\nfinal test accuracy {100 * accuracy:.2f} %")
    return 0 if accuracy >= options.expect else 1


if __name__ == "__main__":
    sys.exit(main())
