# SPDX-License-Identifier: Apache-2.0
"""The same as horovod_names.py for TensorFlow and Keras."""

from __future__ import annotations

from horovod_names import JOB, PROCESS_SETS

_SCALES = "prescale_factor=1.0, postscale_factor=1.0"
_SET = "process_set=global_process_set"
_DEVICES = "device_dense='', device_sparse=''"
_REDUCE = f"average=None, {_DEVICES}, compression=Compression.none, op=None, {_SCALES}"
_SHARE = "device_dense='', compression=Compression.none, op=Average"

_QUESTIONS = """
rank_op(name=None)
local_rank_op(name=None)
size_op(process_set_id=0, name=None)
local_size_op(name=None)
process_set_included_op(process_set_id=0, name=None)
"""

_OPERATIONS = f"""
init(*args, **kwargs)
shutdown(*args, **kwargs)
allgather(tensor, name=None, ignore_name_scope=False, {_SET})
grouped_allgather(tensors, name=None, ignore_name_scope=False, {_SET})
broadcast(tensor, root_rank, name=None, ignore_name_scope=False, {_SET})
broadcast_(variables, root_rank, name=None, {_SET})
alltoall(tensor, splits=None, name=None, ignore_name_scope=False, {_SET})
join()
{JOB}
is_homogeneous()
{_QUESTIONS}
{PROCESS_SETS}
Average
Sum
Adasum
Min
Max
Product
handle_average_backwards_compatibility(op, average)
check_num_rank_power_of_2(num_rank)
"""

_FUNCTIONS = f"""
broadcast_variables(variables, root_rank, {_SET}, inplace=False)
broadcast_object(obj, root_rank=0, session=None, name=None, {_SET})
broadcast_object_fn(root_rank=0, session=None, name=None, {_SET})
allgather_object(obj, session=None, name=None, {_SET})
"""

_BATCH_NORM = "class SyncBatchNormalization(fused=False, **kwargs)\n"

_AGGREGATION = """
class LocalGradientAggregationHelper(backward_passes_per_step, allreduce_func, sparse_as_dense, \
average_aggregated_gradients, rank, optimizer_type)
  register_local_var(self, var)
  compute_gradients(self, grads, vars)
  apply_gradients(self, apply_grads_closure, optimizer, *args, **kwargs)
"""

_TAPE_BEGIN = f"gradtape, {_DEVICES}, compression=Compression.none, sparse_as_dense=False"
_TAPE = (
    f"{_TAPE_BEGIN}, op=Average, gradient_predivide_factor=1.0, num_groups=0, groups=None, {_SET}"
)
_LOCAL = "scale_local_gradients=True"

_TENSORFLOW = f"""
check_extension(ext_name, ext_env_var, pkg_path, *args)
gpu_available(ext_base_name, verbose=False)
split_list(l, n)
elastic
mpi_ops
functions
compression
util
gradient_aggregation
sync_batch_norm
Compression
allreduce(tensor, {_REDUCE}, name=None, {_SET}, ignore_name_scope=False)
grouped_allreduce(tensors, {_REDUCE}, {_SET}, ignore_name_scope=False, name=None)
reducescatter(tensor, {_SHARE}, name=None, {_SET}, ignore_name_scope=False, {_SCALES})
grouped_reducescatter(tensors, {_SHARE}, {_SET}, {_SCALES})
broadcast_global_variables(root_rank)
class BroadcastGlobalVariablesHook(root_rank, device='')
  begin(self)
  after_create_session(self, session, coord)
DistributedOptimizer(optimizer, name=None, use_locking=False, {_DEVICES}, \
compression=Compression.none, sparse_as_dense=False, backward_passes_per_step=1, op=Average, \
gradient_predivide_factor=1.0, average_aggregated_gradients=False, num_groups=0, groups=None, \
{_SET}, {_LOCAL})
DistributedGradientTape({_TAPE}, {_LOCAL})
PartialDistributedGradientTape({_TAPE}, local_layers=None, {_LOCAL})
{_OPERATIONS}{_FUNCTIONS}{_BATCH_NORM}{_AGGREGATION}
vars_to_refs(vars)
refs_to_vars(refs)
"""

_STATE = """
  save(self)
  restore(self)
  sync(self)
"""

_KERAS_JOB = f"""
init(*args, **kwargs)
shutdown(*args, **kwargs)
{JOB}
Average
Sum
"""

_KERAS_OPTIMIZER = f"optimizer, name=None, {_DEVICES}, compression=Compression.none, \
sparse_as_dense=False, gradient_predivide_factor=1.0, op=Average"

_KERAS_VALUES = """
broadcast_global_variables(root_rank)
allgather(value, name=None)
broadcast(value, root_rank, name=None)
reducescatter(value, name=None, op=Average)
load_model(filepath, custom_optimizers=None, custom_objects=None, compression=Compression.none, \
legacy_opts=False)
callbacks
elastic
Compression
"""

_CALLBACKS = """
class BroadcastGlobalVariablesCallback(root_rank, device='', local_variables=None)
  register_local_var(self, var)
class MetricAverageCallback(device='')
class LearningRateScheduleCallback(initial_lr, multiplier, start_epoch=0, end_epoch=None, \
staircase=True, momentum_correction=True, steps_per_epoch=None)
class LearningRateWarmupCallback(initial_lr, warmup_epochs=5, momentum_correction=True, \
steps_per_epoch=None, verbose=0)
"""

_ELASTIC_CALLBACKS = f"""
run(func)
class KerasState(model, optimizer=None, **kwargs)
{_STATE}
class CommitStateCallback(state, batches_per_commit=1)
class UpdateBatchStateCallback(state)
class UpdateEpochStateCallback(state)
"""

_VALUE = "value, name=None"
_VALUE_END = f"{_SCALES}, op=None, compression=Compression.none"

NAMES = {
    "horovod.tensorflow": _TENSORFLOW,
    "horovod.tensorflow.mpi_ops": _OPERATIONS,
    "horovod.tensorflow.functions": _FUNCTIONS,
    "horovod.tensorflow.compression": """
class Compressor()
  compress(tensor)
  decompress(tensor, ctx)
class NoneCompressor()
  compress(tensor)
  decompress(tensor, ctx)
class FP16Compressor()
  compress(tensor)
  decompress(tensor, ctx)
Compression
""",
    "horovod.tensorflow.sync_batch_norm": _BATCH_NORM,
    "horovod.tensorflow.gradient_aggregation": _AGGREGATION,
    "horovod.tensorflow.gradient_aggregation_eager": """
class LocalGradientAggregationHelperEager(backward_passes_per_step, allreduce_func, \
sparse_as_dense, average_aggregated_gradients)
  compute_gradients(self, grads, vars)
  apply_gradients(self, apply_grads_closure, optimizer, *args, **kwargs)
""",
    "horovod.tensorflow.util": "vars_to_refs(vars)\nrefs_to_vars(refs)",
    "horovod.tensorflow.elastic": f"""
run(func)
class TensorFlowKerasState(model, optimizer=None, backend=None, **kwargs)
{_STATE}
class TensorFlowState(variables=None, session=None, **kwargs)
{_STATE}
""",
    "horovod.tensorflow.keras": f"""
{_KERAS_JOB}{PROCESS_SETS}
DistributedOptimizer({_KERAS_OPTIMIZER}, backward_passes_per_step=1, \
average_aggregated_gradients=False, num_groups=0, groups=None, {_SET}, {_LOCAL})
allreduce({_VALUE}, average=None, {_VALUE_END})
{_KERAS_VALUES}""",
    "horovod.tensorflow.keras.callbacks": f"""
{_CALLBACKS}
class BestModelCheckpoint(monitor='val_loss', verbose=0, save_weights_only=False, mode='auto', \
save_freq='epoch')
""",
    "horovod.tensorflow.keras.elastic": _ELASTIC_CALLBACKS,
    "horovod.keras": f"""
{_KERAS_JOB}Adasum
global_process_set
DistributedOptimizer({_KERAS_OPTIMIZER}, num_groups=0, groups=None)
PartialDistributedOptimizer({_KERAS_OPTIMIZER}, backward_passes_per_step=1, \
average_aggregated_gradients=False, groups=None, {_SET}, local_layers=None, {_LOCAL})
allreduce({_VALUE}, average=True, {_VALUE_END})
{_KERAS_VALUES}""",
    "horovod.keras.callbacks": f"""
{_CALLBACKS}
class BestModelCheckpoint(monitor='val_loss', verbose=0, mode='auto', save_freq='epoch')
""",
    "horovod.keras.elastic": _ELASTIC_CALLBACKS,
    "horovod._keras": f"""
create_distributed_optimizer(keras, optimizer, name, device_dense, device_sparse, compression, \
sparse_as_dense, gradient_predivide_factor, op, backward_passes_per_step=1, \
average_aggregated_gradients=False, groups=None, {_SET}, {_LOCAL})
broadcast_global_variables(backend, root_rank)
allreduce(backend, value, name, average, prescale_factor, postscale_factor, op, compression)
allgather(backend, value, name)
broadcast(backend, value, root_rank, name)
reducescatter(backend, value, name, op)
load_model(keras, wrap_optimizer, filepath, custom_optimizers, custom_objects, legacy_opts=False)
""",
    "horovod._keras.callbacks": """
class BroadcastGlobalVariablesCallbackImpl(backend, root_rank, device='', *args)
class MetricAverageCallbackImpl(backend, device='', *args)
class LearningRateScheduleCallbackImpl(backend, *args)
class LearningRateWarmupCallbackImpl(backend, *args)
""",
    "horovod._keras.elastic": """
class CommitStateCallbackImpl(backend, state, batches_per_commit, *args)
class UpdateBatchStateCallbackImpl(backend, state, *args)
class UpdateEpochStateCallbackImpl(backend, state, *args)
""",
}

_ANY_TENSOR = "every type; any order in a graph, with any number of threads"
_OF_KERAS_3 = "any optimizer of Keras 2 or 3; the one that is given, whose class stays"
_HALF = "a whole callback, whose first argument is not used"
_VALUES = "the result is a NumPy array"

# What is not the same, and how; what is not here is as in horovod_names.STATES, or the same.
STATES = {
    "init": ("better", "Ctrl-C works, `start_timeout=` in `hvd.init`; `comm` of all ranks only"),
    "shutdown": ("same", ""),
    "gpu_available": ("different", "what TensorFlow sees; tensors are those of the CPU"),
    "Compression": ("better", "also bf16"),
    "allreduce": ("better", _ANY_TENSOR + "; `Min` and `Max` have a gradient"),
    "grouped_allreduce": ("better", _ANY_TENSOR + "; an empty list is named"),
    "allgather": ("better", _ANY_TENSOR),
    "grouped_allgather": ("better", _ANY_TENSOR),
    "broadcast": ("better", _ANY_TENSOR),
    "alltoall": ("better", _ANY_TENSOR + "; splits of any integers; a scalar is one row"),
    "reducescatter": ("better", _ANY_TENSOR + "; any reduction but Adasum"),
    "grouped_reducescatter": ("better", _ANY_TENSOR + "; any reduction but Adasum"),
    "broadcast_": ("better", "variables of every kind, also mixed"),
    "broadcast_variables": ("better", "variables of every kind, of Keras too, in one operation"),
    "broadcast_global_variables": ("same", "where TensorFlow is eager it names what to use"),
    "broadcast_object": ("better", "of any size; also between runs of a session"),
    "broadcast_object_fn": ("better", "works with every TensorFlow"),
    "allgather_object": ("better", "of any size"),
    "join": ("better", "right for every reduction; in a graph too"),
    "check_num_rank_power_of_2": ("different", "does nothing: Adasum takes any number of ranks"),
    "BroadcastGlobalVariablesHook": ("same", "for `MonitoredTrainingSession`"),
    "DistributedOptimizer": (
        "better",
        "of `tf.compat.v1.train` or Keras, whose `groups` count, too; `global_step` counts steps",
    ),
    "DistributedGradientTape": ("better", "`unconnected_gradients=`; sparse and no gradients"),
    "PartialDistributedGradientTape": ("better", "layers may be built later"),
    "SyncBatchNormalization": ("better", "masks; batches of different sizes; a saved model loads"),
    "LocalGradientAggregationHelper": ("different", "one class for graphs and eager execution"),
    "LocalGradientAggregationHelperEager": ("different", "the same class"),
    "run": (
        "different",
        "gives up after `reset_limit=` errors without a commit",
    ),
    "TensorFlowState": ("better", "with a session, also a `MonitoredSession`"),
    "TensorFlowKerasState": ("better", "optimizer, loss scale and learning rate too"),
    "KerasState": ("better", "optimizer, loss scale and learning rate too"),
    "load_model": (
        "different",
        "`legacy_opts` must be False with Keras 3, which has no such optimizers",
    ),
    "CommitStateCallback": ("better", "the order of the three does not matter"),
    "UpdateBatchStateCallback": ("different", "`fit` gets what is left of an epoch's data"),
    "UpdateEpochStateCallback": ("better", "also with `fit(initial_epoch=)`"),
    "BroadcastGlobalVariablesCallback": (
        "better",
        "before the first batch where the model is built; also on Keras' torch backend",
    ),
    "MetricAverageCallback": ("better", "weighs ranks by their samples; metrics of some ranks"),
    "LearningRateScheduleCallback": ("better", "its momentum correction works with Keras 2 and 3"),
    "LearningRateWarmupCallback": ("better", "its momentum correction works with Keras 2 and 3"),
    "BestModelCheckpoint": ("better", "says so where `filepath` was not set"),
    "create_distributed_optimizer": ("different", "`keras` is not used"),
    **{
        name: ("different", _HALF)
        for name in (
            "BroadcastGlobalVariablesCallbackImpl",
            "MetricAverageCallbackImpl",
            "LearningRateScheduleCallbackImpl",
            "LearningRateWarmupCallbackImpl",
            "CommitStateCallbackImpl",
            "UpdateBatchStateCallbackImpl",
            "UpdateEpochStateCallbackImpl",
        )
    },
}

# Where a name means another thing than in horovod.tensorflow.
_OF_VALUES = {
    "allreduce": ("better", _VALUES),
    "allgather": ("better", _VALUES),
    "broadcast": ("better", _VALUES),
    "reducescatter": ("better", _VALUES + "; any reduction but Adasum"),
}
_OF_KERAS = {
    **_OF_VALUES,
    "DistributedOptimizer": ("better", _OF_KERAS_3 + "; saves as if it were not there"),
}
STATES_IN = {
    **{("horovod.tensorflow.keras", name): state for name, state in _OF_KERAS.items()},
    **{("horovod.keras", name): state for name, state in _OF_KERAS.items()},
    **{("horovod._keras", name): state for name, state in _OF_VALUES.items()},
    ("horovod.keras", "PartialDistributedOptimizer"): (
        "better",
        _OF_KERAS_3 + "; layers may be built later",
    ),
    ("horovod.keras", "Adasum"): (
        "same",
        "for `allreduce`; an optimizer of Keras refuses it, as in Horovod",
    ),
    ("horovod.keras", "allreduce"): (
        "better",
        _VALUES + "; `op=` without `average=None`, which Horovod's refuses",
    ),
}

ABSENT = {
    "horovod.tensorflow.data": "`dataset.shard(size, rank)`, or `tf.data.experimental.service`",
}
