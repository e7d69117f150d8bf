# SPDX-License-Identifier: Apache-2.0
"""Elastic state that knows no framework, under Horovod's names."""

from hvd.elastic import ObjectState, State, run_fn

__all__ = ["ObjectState", "State", "run_fn"]
