# SPDX-License-Identifier: Apache-2.0
"""Compression, where Horovod has it; a class of your own derives from ``Compressor``."""

from hvd.tensorflow.compression import Compression, Compressor, FP16Compressor, NoneCompressor

__all__ = ["Compression", "Compressor", "FP16Compressor", "NoneCompressor"]
