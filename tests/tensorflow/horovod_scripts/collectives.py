# SPDX-License-Identifier: Apache-2.0
"""Operations of Horovod's interface for TensorFlow, and their values on any number of ranks."""

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

hvd.init(process_sets=[hvd.ProcessSet([0])])
rank, size = hvd.rank(), hvd.size()
total = size * (size + 1) / 2
mine = tf.fill([2, 3], float(rank + 1))


def equal(value, expected):
    np.testing.assert_allclose(np.asarray(value), expected, rtol=1e-6)


equal(hvd.allreduce(mine), np.full([2, 3], total / size))
equal(hvd.allreduce(mine, average=False), np.full([2, 3], total))
equal(hvd.allreduce(mine, op=hvd.Max, name="max"), np.full([2, 3], size))
equal(hvd.allreduce(mine, op=hvd.Sum, prescale_factor=2.0, postscale_factor=0.5), total)
equal(hvd.allreduce(mine, op=hvd.Min), 1)
equal(hvd.allreduce(mine, op=hvd.Product), float(np.prod(np.arange(1, size + 1))))
equal(hvd.allreduce(mine, compression=hvd.Compression.fp16), total / size)
equal(hvd.allreduce(mine, None, "/cpu:0", "/cpu:0"), total / size)
pair = hvd.grouped_allreduce([mine, tf.cast(mine, tf.int64)], op=hvd.Sum)
assert [one.dtype for one in pair] == [tf.float32, tf.int64]
equal(pair[1], total)

rows = tf.fill([rank + 1, 2], rank)
expected = np.repeat(np.arange(size), np.arange(size) + 1)
equal(hvd.allgather(rows)[:, 0], expected)
equal(hvd.grouped_allgather([rows, mine])[0][:, 1], expected)
equal(hvd.broadcast(mine, root_rank=size - 1), size)
sent, received = hvd.alltoall(tf.range(size), splits=[1] * size)
equal(sent, rank)
equal(received, 1)
equal(hvd.reducescatter(tf.fill([size, 2], 1.0), op=hvd.Sum), np.full([1, 2], size))
part = hvd.grouped_reducescatter(
    [tf.ones([size])], "", hvd.Compression.none, hvd.Sum, hvd.global_process_set, 2.0
)
equal(part[0], 2 * size)

slices = tf.IndexedSlices(tf.ones([1, 2]), tf.constant([rank]), [size, 2])
reduced = hvd.allreduce(slices)
equal(tf.convert_to_tensor(reduced), 1 / size)

variable = tf.Variable(mine)
hvd.broadcast_variables([variable], root_rank=0, inplace=True)
equal(variable, 1)
assert hvd.broadcast_object({"epoch": rank}, root_rank=0) == {"epoch": 0}
assert hvd.broadcast_object_fn(root_rank=size - 1)(rank) == size - 1
assert hvd.allgather_object(rank) == list(range(size))

first = hvd.add_process_set([size - 1])
assert hvd.size_op(first.process_set_id) == 1
assert hvd.process_set_included_op(first.process_set_id) == int(rank == size - 1)
if first.included():
    equal(hvd.allreduce(mine, op=hvd.Sum, process_set=first), size)
hvd.broadcast_object(None)  # the others wait for it
assert hvd.remove_process_set(first)


@tf.function
def in_a_function(x):
    x = hvd.allreduce(x, op=hvd.Sum, name="in_a_function")
    return x * tf.cast(hvd.size_op(), tf.float32), hvd.rank_op()


value, here = in_a_function(mine)
equal(value, total * size)
equal(here, rank)

with tf.GradientTape() as tape:
    tape.watch(mine)
    y = tf.reduce_sum(hvd.allgather(mine) * tf.reshape(tf.range(2.0 * size), [-1, 1]))
gradient = tape.gradient(y, mine)
equal(gradient[:, 0], [2.0 * rank, 2.0 * rank + 1])

# Ranks with fewer batches than others.
for _ in range(rank + 1):
    hvd.allreduce(tf.ones(1), op=hvd.Sum, name="uneven")
assert 0 <= hvd.join() < size
assert hvd.mpi_threads_supported() and hvd.gloo_built()
assert bool(hvd.nccl_built()) == (hvd.cuda_built() or hvd.rocm_built())
assert hvd.is_homogeneous() and hvd.local_size() == size and hvd.cross_size() == 1
