#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Keras MNIST script that Horovod's users know, as it is written today.

    hvdrun -np 2 python3 mnist.py                      # scanned digits, 8 x 8, that are here
    hvdrun -np 2 python3 mnist.py --mnist mnist.npz    # the file of keras.datasets.mnist

The script of the sites' pages is for TensorFlow 1. What had to change is marked with WAS; what makes
it distributed with (1) to (5). Compute nodes have no network: get mnist.npz before, on a front end, by
python3 -c 'import keras; keras.datasets.mnist.load_data()'; it is then in ~/.keras/datasets.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from keras_digits import Digits, load, parser_for, part_of_rank

# WAS: import keras, and `from keras import backend as K` for sessions.
from tensorflow import keras

# WAS: import horovod.keras as hvd; with the package `horovod` of hvdrun that line may stay.
import hvd.tensorflow.keras as hvd


def read(path: Path | None) -> tuple[Digits, Digits]:
    """Images for training and for the test."""
    if path is None:
        return load()
    with np.load(path) as file:
        images = [file[name][..., None].astype("float32") / 255 for name in ("x_train", "x_test")]
        return Digits(images[0], file["y_train"]), Digits(images[1], file["y_test"])


def convolutional(shape: tuple[int, ...]) -> keras.Model:
    """Images of this shape to probabilities of 10 digits."""
    layers = keras.layers
    return keras.Sequential(
        [
            # WAS: input_shape= of the first layer. Keras 3 warns of it; with an Input the model is
            # built at once, so (3) is done before the first batch.
            keras.Input(shape),
            layers.Conv2D(32, (3, 3), activation="relu"),
            layers.Conv2D(64, (3, 3), activation="relu"),
            layers.MaxPooling2D((2, 2)),
            layers.Dropout(0.25),
            layers.Flatten(),
            layers.Dense(128, activation="relu"),
            layers.Dropout(0.5),
            layers.Dense(10, activation="softmax"),
        ]
    )


def main() -> int:
    """Trains and reports; 1 when the accuracy is below what was expected."""
    parser = parser_for(__doc__, epochs=12, batch=32, rate=0.5)
    parser.add_argument("--mnist", type=Path, help="mnist.npz; the digits of the examples without")
    parser.add_argument("--expect", type=float, default=0.95, help="least test accuracy (0.95)")
    parser.add_argument("--checkpoints", type=Path, help="folder for checkpoint-EPOCH.keras (none)")
    options = parser.parse_args()
    if options.mnist is not None and not options.mnist.exists():
        parser.error(f"--mnist {options.mnist} does not exist; --help says how to get it")
    hvd.init()  # (1) joins the job
    # WAS: config.gpu_options.visible_device_list and K.set_session(tf.Session(config=config)).
    hvd.use_own_gpu()
    train, test = read(options.mnist)
    train = part_of_rank(train)  # (4) each rank has images of its own
    model = convolutional(train.images.shape[1:])
    # The rate grows with the ranks. WAS: lr=.
    optimizer = keras.optimizers.Adadelta(learning_rate=options.rate * hvd.size())
    optimizer = hvd.DistributedOptimizer(optimizer)  # (2) gradients become averages over all ranks
    # WAS: keras.utils.to_categorical of the digits; numbers do, with the sparse loss.
    # WAS: experimental_run_tf_function=False, which compile() does not take any more.
    model.compile(optimizer, "sparse_categorical_crossentropy", metrics=["accuracy"])
    callbacks = [
        hvd.callbacks.BroadcastGlobalVariablesCallback(0),  # (3) all ranks start as rank 0 does
        hvd.callbacks.MetricAverageCallback(),
    ]
    if hvd.rank() == 0 and options.checkpoints:  # or the ranks would write over each other
        options.checkpoints.mkdir(parents=True, exist_ok=True)
        # WAS: checkpoint-{epoch}.h5, which Keras 3 calls a legacy format.
        path = options.checkpoints / "checkpoint-{epoch}.keras"
        callbacks.append(keras.callbacks.ModelCheckpoint(str(path)))
    model.fit(
        *train,
        batch_size=options.batch,
        epochs=options.epochs,
        callbacks=callbacks,
        verbose=2 if hvd.rank() == 0 else 0,  # (5) one rank speaks for all
    )
    loss, accuracy = model.evaluate(*test, verbose=0)
    if hvd.rank() == 0:
        print(f"Test loss: {loss:.4f}\nTest accuracy: {accuracy:.4f} on {hvd.size()} ranks")
    return 0 if accuracy >= options.expect else 1


if __name__ == "__main__":
    sys.exit(main())
