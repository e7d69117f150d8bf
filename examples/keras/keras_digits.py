# SPDX-License-Identifier: Apache-2.0
"""What the examples have in common: scanned digits and a small network."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NamedTuple

import keras
import numpy as np

import hvd.keras as hvd

DATA = Path(__file__).resolve().parent.parent / "data" / "optdigits.csv"


class Digits(NamedTuple):
    """Images of 8 x 8 pixels, 0 to 1, and which digit each is."""

    images: np.ndarray
    digits: np.ndarray


def load(path: Path = DATA) -> tuple[Digits, Digits]:
    """Those for training, and every fifth for the test."""
    table = np.loadtxt(path, delimiter=",", dtype="float32")
    images, digits = table[:, :64].reshape(-1, 8, 8, 1) / 16, table[:, 64].astype("int32")
    is_test = np.arange(len(table)) % 5 == 4
    return Digits(images[~is_test], digits[~is_test]), Digits(images[is_test], digits[is_test])


def part_of_rank(data: Digits) -> Digits:
    """Every size-th image from this rank's on; equally many on all ranks, so that steps match."""
    each = len(data.images) // hvd.size()
    mine = slice(hvd.rank(), each * hvd.size(), hvd.size())
    return Digits(data.images[mine], data.digits[mine])


def network() -> keras.Model:
    """Images (N, 8, 8, 1) to scores (N, 10)."""
    return keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Flatten(),
            keras.layers.Dense(128, activation="relu"),
            # Scores are float32 in mixed precision, too.
            keras.layers.Dense(10, dtype="float32"),
        ]
    )


def parser_for(text: str | None, epochs: int, batch: int, rate: float) -> argparse.ArgumentParser:
    """The options that all have; `text` is what --help says first."""
    parser = argparse.ArgumentParser(
        description=text, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--epochs", type=positive, default=epochs, help=f"passes over the images ({epochs})")
    add("--batch", type=positive, default=batch, help=f"images per rank and step ({batch})")
    add("--rate", type=float, default=rate, help=f"learning rate of one rank ({rate})")
    return parser


def positive(text: str) -> int:
    """A number from 1 on, of the command line."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 1 on")
    return int(text)
