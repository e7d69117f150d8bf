# SPDX-License-Identifier: Apache-2.0
"""What the examples have in common: scanned digits and options."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

DATA = Path(__file__).resolve().parent.parent / "data" / "optdigits.csv"


def load(path: Path = DATA) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Images (64 numbers, 0 to 1) and digits for training; every fifth of both for the test."""
    table = np.loadtxt(path, delimiter=",", dtype="float32")
    images, digits = table[:, :64] / 16, table[:, 64].astype("int32")
    is_test = np.arange(len(table)) % 5 == 4
    return images[~is_test], digits[~is_test], images[is_test], digits[is_test]


def parser_for(text: str | None, batch: int, rate: float) -> argparse.ArgumentParser:
    """The options that all have; `text` is what --help says first."""
    parser = argparse.ArgumentParser(
        description=text, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--batch", type=positive, default=batch, help=f"images per rank and step ({batch})")
    add("--rate", type=float, default=rate, help=f"learning rate of one rank ({rate})")
    return parser


def positive(text: str) -> int:
    """A number from 1 on, of the command line."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 1 on")
    return int(text)
