# SPDX-License-Identifier: Apache-2.0
"""Stands in for the module of this name that IDRIS puts into its TensorFlow modules: the cores of a task."""

cpus_per_task = 2
