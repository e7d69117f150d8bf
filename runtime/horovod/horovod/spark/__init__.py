# SPDX-License-Identifier: Apache-2.0
"""Not there: says what to use instead."""

raise ImportError(
    "horovod.spark is not part of hvd, which starts ranks itself or through Slurm: call "
    "hvd.run(fn, np=N) from a notebook or program, or write the job with `hvdrun script` and "
    "submit it with sbatch; read data that Spark prepared from files."
)
