#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Validates on all ranks: each sample once, and the result of one process that sees them all.

    hvdrun -np 3 python3 validation.py

The mean of the ranks' means is wrong where parts are of different sizes, and padded parts count
some samples twice. Here each rank evaluates its part, and its means count as much as that has
samples. What makes the training distributed is marked with (1) to (5), as everywhere.
"""

from __future__ import annotations

import sys

import keras
import numpy as np
from keras_digits import Digits, load, network, parser_for, part_of_rank

import hvd.keras as hvd
from hvd.data import shard_indices
from hvd.metrics import average_metrics


def validate(model: keras.Model, data: Digits) -> tuple[dict[str, float], int]:
    """The metrics over all samples, the same on every rank; and the samples of this rank."""
    mine = np.array(shard_indices(len(data.images)), dtype="int64")  # each index on one rank
    found = dict.fromkeys(["loss", *(metric.name for metric in model.metrics[1].metrics)], 0.0)
    if len(mine):  # with fewer samples than ranks some have none; they count with weight 0
        found = model.evaluate(data.images[mine], data.digits[mine], return_dict=True, verbose=0)
    return average_metrics(found, weight=len(mine)), len(mine)


def main() -> int:
    """Trains a little, validates in three ways; 1 when the exact one is not exact."""
    parser = parser_for(__doc__, epochs=2, batch=16, rate=0.03)
    parser.add_argument("--samples", type=int, default=359, help="of the test set (all: 359)")
    options = parser.parse_args()
    if not 1 <= options.samples <= 359:
        parser.error(f"--samples {options.samples}: 1 to 359 digits are for the test")
    hvd.init()  # (1) joins the job
    hvd.use_own_gpu()
    train, test = load()
    test = Digits(*(array[: options.samples] for array in test))
    model = network()
    optimizer = keras.optimizers.SGD(options.rate * hvd.size(), momentum=0.9)
    # (2) gradients become averages over all ranks
    optimizer = hvd.DistributedOptimizer(optimizer)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, loss, metrics=["accuracy"])
    model.fit(
        *part_of_rank(train),  # (4) each rank has images of its own
        batch_size=options.batch,
        epochs=options.epochs,
        # (3) all ranks start as rank 0 does
        callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)],
        verbose=0,
    )
    exact, mine = validate(model, test)
    counts = hvd.allgather(np.array([mine])).tolist()
    # What it should be: after a training all ranks have the same weights, so one process can tell.
    whole = model.evaluate(*test, return_dict=True, verbose=0)
    # As many do it: every rank takes equally many, the first samples come twice.
    padded = np.array(shard_indices(len(test.images), pad=True))
    found = model.evaluate(test.images[padded], test.digits[padded], return_dict=True, verbose=0)
    means = {name: float(hvd.allreduce(value)) for name, value in sorted(found.items())}
    is_exact = all(abs(exact[name] - whole[name]) < 1e-5 for name in whole)
    if hvd.rank() == 0:  # (5) one rank speaks for all
        ways = {"one process": whole, "each sample once": exact, "padded, plain means": means}
        for name, row in ways.items():
            print(f"{name:20} accuracy {row['accuracy']:.6f}  loss {row['loss']:.6f}")
        print(f"samples by rank: {counts}, together {sum(counts)}")
        print("validation is exact" if is_exact else "validation is NOT exact")
    return 0 if is_exact else 1


if __name__ == "__main__":
    sys.exit(main())
