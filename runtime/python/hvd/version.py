# SPDX-License-Identifier: Apache-2.0
"""The version of hvd; that of meson.build, which a test compares, and of the libhvd it takes."""

__version__ = "0.2.0"
