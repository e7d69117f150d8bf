#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains with model.fit: warm-up, averaged metrics, checkpoints that the next job goes on from.

    hvdrun -np 4 python3 fit.py
    hvdrun -np 4 python3 fit.py --checkpoints run-1    # twice: the second one goes on
    hvdrun -np 4 python3 fit.py --half --accumulate 2

What makes it distributed is marked with (1) to (5). --half computes in mixed precision; when one
rank's gradients overflow, all skip the step. --accumulate N updates once in N steps, and gradients
travel once in N steps.
"""

from __future__ import annotations

import sys
from pathlib import Path

import keras
from keras_digits import load, network, parser_for, part_of_rank, positive

import hvd.keras as hvd
from hvd.checkpoints import save_atomically


class SaveOnRoot(keras.callbacks.Callback):
    """Rank 0 saves the model with its optimizer after each epoch: whole, or not at all."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        if hvd.rank() == 0:
            self.folder.mkdir(parents=True, exist_ok=True)
            save_atomically(self.folder / f"epoch-{epoch + 1:04}.keras", self.model.save)


def newest(folder: Path | None) -> tuple[Path | None, int]:
    """The last model that was saved, and how many epochs it has seen; as rank 0 sees the folder."""
    found = max(folder.glob("epoch-*.keras"), default=None) if folder else None
    found = hvd.broadcast_object(found, root_rank=0)
    return found, int(found.stem.split("-")[1]) if found else 0


def compiled(rate: float, accumulate: int) -> keras.Model:
    """A new model, ready to be trained."""
    model = network()
    steps = accumulate if accumulate > 1 else None
    optimizer = keras.optimizers.SGD(rate, momentum=0.9, gradient_accumulation_steps=steps)
    # (2) gradients become averages over all ranks
    optimizer = hvd.DistributedOptimizer(optimizer)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, loss, metrics=["accuracy"])
    return model


def main() -> int:
    """Trains and reports; 1 when the accuracy is below what was expected."""
    parser = parser_for(__doc__, epochs=8, batch=16, rate=0.03)
    add = parser.add_argument
    add("--half", action="store_true", help="compute in mixed_float16")
    add("--accumulate", type=positive, default=1, help="steps for each update (1)")
    add("--checkpoints", type=Path, help="a folder that all ranks can read (none)")
    add("--expect", type=float, default=0.93, help="least validation accuracy (0.93)")
    options = parser.parse_args()
    hvd.init()  # (1) joins the job
    hvd.use_own_gpu()
    keras.utils.set_random_seed(hvd.rank())  # ranks shuffle differently
    if options.half:
        keras.mixed_precision.set_global_policy("mixed_float16")
    train, test = load()
    train = part_of_rank(train)  # (4) each rank has images of its own
    rate = options.rate * hvd.size()  # that of all ranks together
    path, first = newest(options.checkpoints)
    if path is None:
        model = compiled(rate, options.accumulate)
    else:
        model = hvd.load_model(path)  # with its optimizer, distributed again
        model.optimizer.learning_rate = rate  # there may be more ranks now
    callbacks = [
        hvd.callbacks.BroadcastGlobalVariablesCallback(0),  # (3) all start as rank 0 does
        hvd.callbacks.MetricAverageCallback(),  # for what stands behind it
        hvd.callbacks.LearningRateWarmupCallback(rate, warmup_epochs=2),
        hvd.callbacks.StopInTimeCallback(margin_seconds=60),  # before Slurm's limit, or at a signal
    ]
    if options.checkpoints:
        callbacks.append(SaveOnRoot(options.checkpoints))
    history = model.fit(
        *train,
        batch_size=options.batch,
        initial_epoch=first,
        epochs=options.epochs,
        validation_data=part_of_rank(test),
        callbacks=callbacks,
        verbose=2 if hvd.rank() == 0 else 0,  # (5) one rank speaks for all
    ).history
    if not history:
        print(f"rank {hvd.rank()}: {first} epochs are done already; give more of them: --epochs")
        return 0
    accuracy = history["val_accuracy"][-1]
    if hvd.rank() == 0:
        name, policy = type(model.optimizer).__name__, model.dtype_policy.name
        print(f"{name}, {policy}: epochs {first + 1} to {first + len(history['loss'])} on", end=" ")
        print(f"{hvd.size()} ranks, validation accuracy {accuracy:.4f}")
    return 0 if accuracy >= options.expect else 1


if __name__ == "__main__":
    sys.exit(main())
