# SPDX-License-Identifier: Apache-2.0
"""A rank of a training with TensorFlow in which rank 1 dies; failure_cases.py starts it.

doomed_ranks.py TRAINING DEATH      prints a line of JSON about what a survivor sees
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import hvd
import hvd.keras as hk
import hvd.tensorflow as ht
from hvd.tensorflow import errors

v1 = tf.compat.v1
NOTE = Path(os.environ["HVD_RENDEZVOUS_DIR"]) / "died"
DOOMED = 1
STEP = 3  # in which it dies
FOR_EVER = 10**6


def leave_note() -> None:
    Path(f"{NOTE}.new").write_text(repr(time.time()))
    os.rename(f"{NOTE}.new", NOTE)


def kill() -> None:
    leave_note()
    os.kill(os.getpid(), signal.SIGKILL)


def fail() -> None:
    leave_note()
    raise ZeroDivisionError("on purpose")


def leave() -> None:
    leave_note()
    sys.exit(0)


DEATHS = {"kill": kill, "raise": fail, "leave": leave}


class Death(keras.callbacks.Callback):
    """Ends the rank that is doomed."""

    def __init__(self, die: Callable[[], None]) -> None:
        super().__init__()
        self.die = die

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        at(batch, self.die)


def at(step: int, die: Callable[[], None]) -> None:
    if step == STEP and hvd.rank() == DOOMED:
        die()


def fit(die: Callable[[], None]) -> None:
    """``model.fit`` with every callback there is on the way."""
    model = keras.Sequential([keras.Input([4]), keras.layers.Dense(3), keras.layers.Dense(1)])
    model.compile(hk.DistributedOptimizer(keras.optimizers.Adam()), "mse")
    model.fit(
        np.ones((4 * STEP * 3, 4), "float32"),
        np.ones((4 * STEP * 3, 1), "float32"),
        batch_size=4,
        epochs=FOR_EVER,
        verbose=0,
        callbacks=[
            hk.callbacks.BroadcastGlobalVariablesCallback(0),
            hk.callbacks.MetricAverageCallback(),
            Death(die),
        ],
    )


def loop(die: Callable[[], None]) -> None:
    """A loop of one's own over a ``tf.function``."""
    weights = tf.Variable(tf.ones([8, 8]))
    bias = tf.Variable(tf.ones([8]))
    optimizer = keras.optimizers.SGD(0.01)

    @tf.function
    def step(x: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((x @ weights + bias) ** 2)
        tape = ht.DistributedGradientTape(tape)
        variables = [weights, bias]
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return loss

    for number in range(FOR_EVER):
        at(number, die)
        step(tf.ones([2, 8]))


def eager(die: Callable[[], None]) -> None:
    """Operations one by one."""
    for number in range(FOR_EVER):
        at(number, die)
        ht.allreduce(tf.ones(1000))


def session(die: Callable[[], None]) -> None:
    """A graph of TensorFlow 1."""
    with tf.Graph().as_default():
        v1.train.get_or_create_global_step()
        weights = v1.get_variable("weights", [4])
        optimizer = ht.DistributedOptimizer(v1.train.GradientDescentOptimizer(0.01))
        train = optimizer.minimize(tf.reduce_sum(weights**2))
        hooks = [ht.BroadcastGlobalVariablesHook(0)]
        with v1.train.MonitoredTrainingSession(hooks=hooks) as running:
            for number in range(FOR_EVER):
                at(number, die)
                running.run(train)


TRAININGS = {"fit": fit, "loop": loop, "eager": eager, "session": session}


def text_of(payloads: Mapping[bytes, bytes]) -> dict[str, str]:
    return {key.decode(): value.decode() for key, value in payloads.items()}


def seen(error: tf.errors.OpError) -> dict[str, Any]:
    """What a program can know of an error."""
    after = time.time() - float(NOTE.read_text())
    ours = errors.of(error)
    return {
        "after": after,
        "class": type(error).__name__,
        "is_hvd_error": isinstance(error, hvd.HvdError),
        "payload": text_of(error.experimental_payloads),
        "ours": type(ours).__name__,
        "our_payload": text_of(ours.experimental_payloads),
        "is_op_error": isinstance(ours, type(error)),
        "text": str(ours),
    }


def later() -> dict[str, Any]:
    """What works after an error, and what remains of the job."""
    try:
        ht.allreduce(tf.ones(1))
        again = ""
    except hvd.HvdError as error:
        again = type(error).__name__
    squares = tf.function(lambda x: x * x)(tf.range(4.0))
    model = keras.Sequential([keras.Input([4]), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit(np.ones((4, 4)), np.ones((4, 1)), verbose=0)
    ht.shutdown()
    mapped = Path("/proc/self/maps").read_text().splitlines()
    opened = [os.readlink(one) for one in Path("/proc/self/fd").iterdir() if one.is_symlink()]
    return {
        "again": again,
        "squares": squares.numpy().tolist(),
        "left": [one for one in mapped + opened if "memfd:" in one or "/dev/shm" in one],
    }


def main() -> None:
    train, die = TRAININGS[sys.argv[1]], DEATHS[sys.argv[2]]
    ht.init()
    if hvd.rank() == 2:
        train(die)  # as a program that expects no error
    try:
        train(die)
    except tf.errors.OpError as error:
        report = seen(error)
    print(json.dumps({**report, **later()}), flush=True)


if __name__ == "__main__":
    main()
