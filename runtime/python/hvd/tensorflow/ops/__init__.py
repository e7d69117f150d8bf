# SPDX-License-Identifier: Apache-2.0
"""The operations on tensors, one file each with its gradient; users import them from ``hvd.tensorflow``."""
