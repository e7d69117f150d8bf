# SPDX-License-Identifier: Apache-2.0
"""Trains elastically for elastic_losses_cases.py, by Keras' fit or in a loop of TensorFlow.

Usage: elastic_training.py FOLDER keras|loop PROCESS:EPOCH...; the processes that are killed, in
the middle of an epoch, once each. Notes what each epoch gave in FOLDER/process-NUMBER.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

import hvd.keras as hvd
import hvd.tensorflow as ht

EPOCHS = 5
BATCHES = 4
BATCH = 6

folder, way = Path(sys.argv[1]), sys.argv[2]
victims = [tuple(map(int, one.split(":"))) for one in sys.argv[3:]]
process = int(os.environ["HVD_PROCESS"])

tf.get_logger().setLevel("ERROR")
hvd.init()
keras.utils.set_random_seed(1)
generator = np.random.default_rng(2)
inputs = generator.normal(size=(4 * BATCHES * BATCH, 8)).astype("float32")
labels = np.tanh(inputs.sum(axis=1, keepdims=True))
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(16, "tanh"), keras.layers.Dense(1)])


def note(*words: object) -> None:
    """A line of this process."""
    with open(folder / f"process-{process}", "a") as file:
        file.write(" ".join(map(str, words)) + "\n")


def part() -> tuple[np.ndarray, np.ndarray]:
    """What this rank trains with: whoever has its number has the same."""
    mine = slice(hvd.rank() * BATCHES * BATCH, (hvd.rank() + 1) * BATCHES * BATCH)
    return inputs[mine], labels[mine]


def die_in(epoch: int, batch: int) -> None:
    """Ends a victim."""
    if batch == 2 and (process, epoch) in victims:
        note("dies", epoch)
        os.kill(os.getpid(), signal.SIGKILL)


def sum_of_weights() -> str:
    """Of all, in an order that is always the same."""
    return float(sum(np.abs(one).sum(dtype="float64") for one in model.get_weights())).hex()


def train_by_fit() -> None:
    """Keras' own loop, its state and callbacks."""
    model.compile(hvd.DistributedOptimizer(keras.optimizers.Adam(0.01)), "mse")

    @hvd.elastic.run
    def train(state: hvd.elastic.KerasState) -> None:
        model.fit(
            *part(),
            batch_size=BATCH,
            shuffle=False,
            initial_epoch=state.epoch,
            epochs=EPOCHS,
            callbacks=[
                hvd.elastic.UpdateEpochStateCallback(state),
                hvd.elastic.CommitStateCallback(state, batches_per_commit=1000),
                keras.callbacks.LambdaCallback(
                    on_train_batch_begin=lambda batch, logs: die_in(state.epoch, batch),
                    on_epoch_end=lambda epoch, logs: note("epoch", epoch, sum_of_weights()),
                ),
            ],
            verbose=0,
        )

    train(hvd.elastic.KerasState(model, epoch=0))


def train_in_a_loop() -> None:
    """A function of TensorFlow with a tape for each step."""
    optimizer = keras.optimizers.Adam(0.01)
    optimizer.build(model.trainable_variables)

    @tf.function
    def step(x: tf.Tensor, y: tf.Tensor) -> None:
        with tf.GradientTape() as plain:
            loss = tf.reduce_mean((model(x, training=True) - y) ** 2)
        tape = ht.DistributedGradientTape(plain)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))

    @ht.elastic.run
    def train(state: ht.elastic.TensorFlowState) -> None:
        x, y = part()
        while state.epoch < EPOCHS:
            for batch in range(BATCHES):
                die_in(state.epoch, batch)
                mine = slice(batch * BATCH, (batch + 1) * BATCH)
                step(tf.constant(x[mine]), tf.constant(y[mine]))
            note("epoch", state.epoch, sum_of_weights())
            state.epoch += 1
            state.commit()

    train(ht.elastic.TensorFlowState([*model.variables, *optimizer.variables], epoch=0))


(train_by_fit if way == "keras" else train_in_a_loop)()
note("ends", hvd.rank(), hvd.size())
