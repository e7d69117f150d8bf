# SPDX-License-Identifier: Apache-2.0
"""The same for eager execution, where Horovod has it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.tensorflow.gradient_aggregation import LocalGradientAggregationHelper


class LocalGradientAggregationHelperEager(LocalGradientAggregationHelper):
    """``LocalGradientAggregationHelper``, which serves eager execution as well."""

    def __init__(
        self,
        backward_passes_per_step: int,
        allreduce_func: Callable[[list[Any], list[Any]], Sequence[Any]],
        sparse_as_dense: bool,
        average_aggregated_gradients: bool,
        process_set: ProcessSet = global_process_set,
        scale_local_gradients: bool = True,
    ) -> None:
        super().__init__(
            backward_passes_per_step,
            allreduce_func,
            sparse_as_dense,
            average_aggregated_gradients,
            process_set=process_set,
            scale_local_gradients=scale_local_gradients,
        )


__all__ = ["LocalGradientAggregationHelperEager"]
