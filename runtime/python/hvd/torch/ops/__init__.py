# SPDX-License-Identifier: Apache-2.0
"""The operations on torch tensors, one file each; users import them from ``hvd.torch``."""
