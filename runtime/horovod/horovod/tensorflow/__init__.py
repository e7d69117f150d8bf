# SPDX-License-Identifier: Apache-2.0
"""Not there: says so."""

raise ImportError(
    "horovod.tensorflow is not part of this version: it comes with hvd.tensorflow. Until then"
    " train with PyTorch (horovod.torch), or move NumPy arrays with hvd.numpy."
)
