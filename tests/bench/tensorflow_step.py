# SPDX-License-Identifier: Apache-2.0
"""What hvd.tensorflow and hvd.keras add to a step, one rank: tensorflow_step.py SHAPES

Started by hvdrun. Prints `<case>_<how> milliseconds`, the median of the slowest rank, and with `_least` its quickest.
"local" is the same step without reductions, "distributed" that of the tape or the optimizer, and "each" has an
operation for every gradient.
"""

import os
import pathlib
import statistics
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras  # noqa: E402 (reads the environment)
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

import hvd.keras as hk  # noqa: E402
import hvd.tensorflow as hvd  # noqa: E402

_SMALL = [64] * 161


def measure(cases: dict, rounds: int, steps: int) -> dict:
    """The median and the least time of a step in milliseconds; cases take turns, for they are compared."""
    for step in cases.values():
        for _ in range(3):
            step()
    times = {name: [] for name in cases}
    for _ in range(rounds):
        for name, step in cases.items():
            hvd.barrier()
            start = time.perf_counter()
            for _ in range(steps):
                step()
            times[name].append(1e3 * (time.perf_counter() - start) / steps)
    medians = {name: statistics.median(found) for name, found in times.items()}
    return medians | {f"{name}_least": min(found) for name, found in times.items()}


def step_of(counts: list, gradients_of):
    """A step that computes a gradient for each variable, reduces them all, and applies them."""
    variables = [tf.Variable(tf.ones(count)) for count in counts]

    @tf.function(autograph=False)
    def step(scale):
        with tf.GradientTape() as tape:
            loss = tf.add_n([tf.nn.l2_loss(variable) for variable in variables]) * scale
        for variable, gradient in zip(variables, gradients_of(tape, loss, variables)):
            tf.raw_ops.ResourceApplyGradientDescent(
                var=variable.handle, alpha=0.001, delta=gradient
            )

    one = tf.constant(1.0)
    return lambda: step(one)


def local(tape, loss, variables: list) -> list:
    return tape.gradient(loss, variables)


def distributed(tape, loss, variables: list) -> list:
    return hvd.DistributedGradientTape(tape).gradient(loss, variables)


def each(tape, loss, variables: list) -> list:
    return [hvd.allreduce(gradient) for gradient in tape.gradient(loss, variables)]


def fit_of(wrap, steps: int):
    """An epoch of so many steps of a small network."""
    keras.utils.set_random_seed(1)
    layers = [keras.layers.Dense(64, "relu"), keras.layers.Dense(10)]
    model = keras.Sequential([keras.Input([64]), *layers])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(wrap(keras.optimizers.SGD(0.01)), loss)
    inputs = np.random.default_rng(1).normal(size=(8 * steps, 64)).astype("float32")
    labels = np.arange(8 * steps) % 10
    data = tf.data.Dataset.from_tensor_slices((inputs, labels)).batch(8)
    return lambda: model.fit(data, shuffle=False, verbose=0)


def fits(rounds: int, steps: int) -> dict:
    cases = {"fit_local": lambda optimizer: optimizer, "fit_distributed": hk.DistributedOptimizer}
    epochs = measure({name: fit_of(wrap, steps) for name, wrap in cases.items()}, rounds, 1)
    return {name: epoch / steps for name, epoch in epochs.items()}


def steps(name: str, counts: list, rounds: int, steps: int) -> dict:
    cases = {f"{name}_{way.__name__}": step_of(counts, way) for way in (local, distributed, each)}
    return measure(cases, rounds, steps)


def main() -> None:
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    resnet50 = [int(line) for line in pathlib.Path(sys.argv[1]).read_text().split()]
    small = [tf.ones(count) for count in _SMALL]
    hvd.init()
    mine = steps("resnet50", resnet50, 15, 2) | steps("small", _SMALL, 60, 10) | fits(40, 40)
    mine |= measure({"eager_grouped": lambda: hvd.grouped_allreduce(small)}, 60, 10)
    slowest = hvd.allreduce(tf.constant(list(mine.values())), op=hvd.Max, name="steps").numpy()
    if hvd.rank() == 0:
        for name, value in zip(mine, slowest):
            print(f"{name} {value:.4f}", flush=True)
    hvd.shutdown()


if __name__ == "__main__":
    main()
