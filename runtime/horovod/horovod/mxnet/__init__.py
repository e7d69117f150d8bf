# SPDX-License-Identifier: Apache-2.0
"""Not there: says so."""

raise ImportError(
    "horovod.mxnet is not part of this version: it comes with hvd.mxnet. Until then train with "
    "PyTorch (horovod.torch), or move NumPy arrays with hvd.numpy."
)
