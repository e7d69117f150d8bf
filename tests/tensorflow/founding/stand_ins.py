# SPDX-License-Identifier: Apache-2.0
"""What the founding pages take from elsewhere: data, models, names of a site, an Estimator. All are small."""

from __future__ import annotations

import types
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow import keras

NUM_STEPS = 60
batch_size = 7


def arrays(rank: int, count: int = 64) -> tuple[np.ndarray, np.ndarray]:
    """Pictures of 28 x 28, each class with a stripe of its own, and their classes."""
    generator = np.random.default_rng(rank)
    labels = generator.integers(0, 10, count)
    images = generator.random((count, 28, 28), "float32")
    images[np.arange(count), 2 * labels] += 3.0
    return images, labels


def digits(rank: int) -> Any:
    """A dataset without an end."""
    return tf.data.Dataset.from_tensor_slices(arrays(rank)).repeat().batch(16)


def network(module: Any) -> Any:
    """A model of this Keras; its first weights differ between processes."""
    layers = module.layers
    return module.Sequential(
        [
            layers.Input((28, 28)),
            layers.Flatten(),
            layers.Dense(16, activation="relu"),
            layers.Dense(10, activation="softmax"),
        ]
    )


def tf_parse_eval(record: Any) -> tuple[Any, Any]:
    """A picture and its class from a record of 785 numbers."""
    values = tf.ensure_shape(tf.io.decode_raw(record, tf.float32), [785])
    return tf.reshape(values[1:], [28, 28]), tf.cast(values[0], tf.int64)


def write_records(folder: str, files: int = 2, count: int = 10) -> None:
    """What `tf_parse_eval` reads."""
    for file in range(files):
        with tf.io.TFRecordWriter(f"{folder}/validation-{file}") as writer:
            for image, label in zip(*arrays(100 + file, count)):
                writer.write(np.append(np.float32(label), image).tobytes())


def linear(v1: Any, rank: int) -> Any:
    """The loss of a line of the course, in a new graph of TensorFlow 1: y = m x + n."""
    v1.reset_default_graph()
    generator = np.random.default_rng(rank)
    x = generator.normal(size=64).astype("float32")
    first = v1.random_normal_initializer(seed=rank)
    m = v1.get_variable("m", [], initializer=first)
    n = v1.get_variable("n", [], initializer=first)
    v1.train.get_or_create_global_step()
    return v1.reduce_mean((m * x + n - (2.0 * x + 1.0)) ** 2)


def estimators(v1: Any) -> Any:
    """The same module with as much of ``tf.estimator`` as the course prints."""

    class Estimator:
        def __init__(self, model_fn: Any) -> None:
            self.model_fn = model_fn

        def train(self, input_fn: Any, steps: int, hooks: Any) -> None:
            loss, train_op = self.model_fn()
            with v1.train.MonitoredTrainingSession(hooks=hooks) as session:
                self.losses = [session.run([loss, train_op])[0] for _ in range(steps)]
                self.weights = session.run(v1.trainable_variables())

    found = types.SimpleNamespace(**{name: getattr(v1, name) for name in dir(v1)})
    found.estimator = types.SimpleNamespace(Estimator=Estimator)
    return found


def __getattr__(name: str) -> Any:
    if name == "mnist_model":  # a new one for each script
        return network(keras)
    raise AttributeError(name)
