# SPDX-License-Identifier: Apache-2.0
"""Not there: says what to use instead."""

raise ImportError(
    "horovod.tensorflow.data is not part of hvd: give each rank its part of the data with "
    "dataset.shard(hvd.size(), hvd.rank()); or start a service of TensorFlow's own in the job, "
    "tf.data.experimental.service, and read from it with its distribute()."
)
