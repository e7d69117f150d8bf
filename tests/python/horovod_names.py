# SPDX-License-Identifier: Apache-2.0
"""Every public name of Horovod 0.28.1 with its signature, and its state here: all but TensorFlow and Keras.

A line is a function, `class Name(...)` its constructor, an indented line a method, a line without
parentheses a value or module. `horovod_names_cases.py` holds horovod to it, and writes the table of
docs/how-to/migrate-from-horovod.md from it.
"""

from __future__ import annotations

_SCALES = "prescale_factor=1.0, postscale_factor=1.0"
_REDUCE = f"average=None, name=None, op=None, {_SCALES}, process_set=global_process_set"
_REDUCE_COMPRESSED = (
    "average=None, name=None, compression=Compression.none, op=None, "
    f"{_SCALES}, process_set=global_process_set"
)
_SHARE = f"op=Average, process_set=global_process_set, {_SCALES}"
_SET = "process_set=global_process_set"

JOB = """
is_initialized()
start_timeline(file_path, mark_cycles=False)
stop_timeline()
size()
local_size()
cross_size()
rank()
local_rank()
cross_rank()
mpi_threads_supported()
mpi_enabled()
mpi_built()
gloo_enabled()
gloo_built()
nccl_built()
ddl_built()
ccl_built()
cuda_built()
rocm_built()
"""

PROCESS_SETS = """
class ProcessSet(ranks_or_comm)
  size(self)
  rank(self)
  included(self)
add_process_set(process_set)
remove_process_set(process_set)
global_process_set
"""

_BASICS = "\n".join(
    "  " + line.replace("(", "(self, ").replace("self, )", "self)")
    for line in JOB.strip().splitlines()
)

_OPERATIONS = f"""
init(*args, **kwargs)
shutdown(*args, **kwargs)
allreduce(tensor, {_REDUCE_COMPRESSED})
allreduce_(tensor, {_REDUCE})
allreduce_async(tensor, {_REDUCE})
allreduce_async_(tensor, {_REDUCE})
grouped_allreduce(tensors, {_REDUCE_COMPRESSED})
grouped_allreduce_(tensors, {_REDUCE})
grouped_allreduce_async(tensors, {_REDUCE})
grouped_allreduce_async_(tensors, {_REDUCE})
sparse_allreduce_async(tensor, name, op, {_SET})
allgather(tensor, name=None, {_SET})
allgather_async(tensor, name=None, {_SET})
grouped_allgather(tensors, name=None, {_SET})
grouped_allgather_async(tensors, name=None, {_SET})
broadcast(tensor, root_rank, name=None, {_SET})
broadcast_(tensor, root_rank, name=None, {_SET})
broadcast_async(tensor, root_rank, name=None, {_SET})
broadcast_async_(tensor, root_rank, name=None, {_SET})
alltoall(tensor, splits=None, name=None, {_SET})
alltoall_async(tensor, splits=None, name=None, {_SET})
reducescatter(tensor, name=None, compression=Compression.none, {_SHARE})
reducescatter_async(tensor, name=None, {_SHARE})
grouped_reducescatter(tensors, name=None, compression=Compression.none, {_SHARE})
grouped_reducescatter_async(tensors, name=None, {_SHARE})
join(device=-1)
barrier({_SET})
poll(handle)
synchronize(handle)
{JOB}
{PROCESS_SETS}
Average
Sum
Adasum
Min
Max
Product
HorovodInternalError
"""

_FUNCTIONS = f"""
broadcast_parameters(params, root_rank)
broadcast_optimizer_state(optimizer, root_rank, model=None)
broadcast_object(obj, root_rank=0, name=None, {_SET})
allgather_object(obj, name=None)
"""

_OPTIMIZER = f"""
DistributedOptimizer(optimizer, named_parameters=None, compression=Compression.none, \
backward_passes_per_step=1, op=Average, gradient_predivide_factor=1.0, num_groups=0, groups=None, \
sparse_as_dense=False, {_SET})
"""

_BATCH_NORM = """
class SyncBatchNorm(num_features, eps=1e-05, momentum=0.1, affine=True, track_running_stats=True)
  forward(self, input)
"""

_STATE = """
class State(bcast_object, get_rank)
  register_reset_callbacks(self, callbacks)
  on_reset(self)
  on_hosts_updated(self, timestamp, update_res)
  commit(self)
  check_host_updates(self)
  save(self)
  restore(self)
  sync(self)
  reset(self)
class ObjectState(bcast_object, get_rank, **kwargs)
  save(self)
  restore(self)
  sync(self)
run_fn(func, reset)
"""

_HANDLER = """
  save(self)
  restore(self)
  sync(self)
"""

_SAMPLER = """
class ElasticSampler(dataset, shuffle=True, seed=0)
  set_epoch(self, epoch)
  record_batch(self, batch_idx, batch_size)
  load_state_dict(self, state_dict)
  state_dict(self)
  reset(self)
"""

_TORCH_STATE = f"""
class TorchState(model=None, optimizer=None, **kwargs)
{_HANDLER}
"""

_LOADERS = """
class BaseDataLoader()
class AsyncDataLoaderMixin(async_loader_queue_size=64, debug_data_loader=False, *args, **kwargs)
  close_async_loader(self)
"""

_RUN = """
run(func, args=(), kwargs=None, num_proc=1, min_num_proc=None, max_num_proc=None, slots=None, \
reset_limit=None, cooldown_range=None, hosts=None, hostfile=None, host_discovery_script=None, \
start_timeout=None, ssh_port=None, ssh_identity_file=None, disable_cache=None, \
output_filename=None, verbose=None, use_gloo=None, use_mpi=None, mpi_args=None, \
network_interface=None, network_interfaces=None, executable=None, np=None, min_np=None, max_np=None)
"""

NAMES = {
    "horovod": f"__version__\n{_RUN}",
    "horovod.runner": _RUN,
    "horovod.runner.launch": "parse_args()\nrun_commandline()",
    "horovod.torch": f"""
check_extension(ext_name, ext_env_var, pkg_path, *args)
elastic
mpi_ops
functions
optimizer
compression
sync_batch_norm
Compression
{_OPERATIONS}{_FUNCTIONS}{_OPTIMIZER}{_BATCH_NORM}""",
    "horovod.torch.mpi_ops": f"""
{_OPERATIONS}
is_homogeneous()
handle_average_backwards_compatibility(op, average)
HorovodAllreduce
HorovodGroupedAllreduce
HorovodAllgather
HorovodGroupedAllgather
HorovodBroadcast
HorovodAlltoall
HorovodReducescatter
HorovodGroupedReducescatter
""",
    "horovod.torch.functions": _FUNCTIONS,
    "horovod.torch.optimizer": _OPTIMIZER,
    "horovod.torch.compression": """
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
    "horovod.torch.sync_batch_norm": _BATCH_NORM,
    "horovod.torch.elastic": f"run(func)\n{_TORCH_STATE}{_SAMPLER}{_STATE}init()\nshutdown()",
    "horovod.torch.elastic.sampler": _SAMPLER,
    "horovod.torch.elastic.state": f"""
{_TORCH_STATE}
class StateHandler(value)
{_HANDLER}
  set_value(self, value)
class ModelStateHandler(model)
{_HANDLER}
class OptimizerStateHandler(optimizer)
{_HANDLER}
class SamplerStateHandler(sampler)
{_HANDLER}
get_handler_registry()
set_handler_registry(registry)
""",
    "horovod.data": _LOADERS,
    "horovod.data.data_loader_base": _LOADERS,
    "horovod.common.basics": f"""
class HorovodBasics(pkg_path, *args)
  init(self, comm=None, process_sets=None)
  shutdown(self)
  is_homogeneous(self)
{_BASICS}
""",
    "horovod.common.elastic": _STATE,
    "horovod.common.exceptions": """
HorovodInternalError
class HostsUpdatedInterrupt(skip_sync)
get_version_mismatch_message(name, version, installed_version)
class HorovodVersionMismatchError(name, version, installed_version)
""",
    "horovod.common.process_sets": PROCESS_SETS,
    "horovod.common.util": """
get_ext_suffix()
get_extension_full_path(pkg_path, *args)
check_extension(ext_name, ext_env_var, pkg_path, *args)
extension_available(ext_base_name, verbose=False)
gpu_available(ext_base_name, verbose=False)
mpi_built(verbose=False)
gloo_built(verbose=False)
nccl_built(verbose=False)
ddl_built(verbose=False)
ccl_built(verbose=False)
env(**kwargs)
get_average_backwards_compatibility_fun(reduce_ops)
num_rank_is_power_2(num_rank)
split_list(l, n)
check_installed_version(name, version, exception=None)
is_iterable(x)
is_version_greater_equal_than(ver, target)
""",
}

_ANY_TENSOR = "any memory order, every type, more than 2^31 elements; `priority=`"
_GRADIENT = _ANY_TENSOR + "; a gradient through any view"
_NOT_BUILT = "tells what libhvd has"
_HANDLERS = "as in Horovod; also what compression keeps"

# What is not the same, and how.
STATES = {
    "__version__": (
        "same",
        "0.28.1, the version whose interface this is; `hvd.build_info()` has ours",
    ),
    "run": (
        "different",
        "[arguments](#horovodrun) are mapped on `hvd.run`, or refused with a sentence",
    ),
    "parse_args": ("different", "`argv` may be given; names of the result are ours"),
    "run_commandline": ("different", "becomes hvdrun: [options](#horovodrun)"),
    "check_extension": ("different", "asks whether there is a binding and its framework"),
    "allreduce": ("better", _GRADIENT + "; `Min` and `Max` have a gradient"),
    "grouped_allreduce": ("better", _GRADIENT + "; an empty list is named"),
    "sparse_allreduce_async": (
        "better",
        "what it returns may be called, or given to `synchronize`",
    ),
    "allgather": ("better", _GRADIENT + "; a scalar is a `ValueError`"),
    "grouped_allgather": ("better", _GRADIENT),
    "broadcast": ("better", _GRADIENT),
    "alltoall": ("better", _GRADIENT + "; splits of any integers; a scalar is one row"),
    "reducescatter": ("better", _GRADIENT + "; any reduction but Adasum; a scalar is one row"),
    "grouped_reducescatter": ("better", _GRADIENT + "; any reduction but Adasum"),
    "allreduce_": ("better", _ANY_TENSOR),
    "allreduce_async": ("better", _ANY_TENSOR),
    "allreduce_async_": ("better", _ANY_TENSOR),
    "grouped_allreduce_": ("better", _ANY_TENSOR),
    "grouped_allreduce_async": ("better", _ANY_TENSOR),
    "grouped_allreduce_async_": ("better", _ANY_TENSOR),
    "allgather_async": ("better", _ANY_TENSOR),
    "grouped_allgather_async": ("better", _ANY_TENSOR),
    "broadcast_": ("better", _ANY_TENSOR),
    "broadcast_async": ("better", _ANY_TENSOR),
    "broadcast_async_": ("better", _ANY_TENSOR),
    "alltoall_async": ("better", _ANY_TENSOR),
    "reducescatter_async": ("better", _ANY_TENSOR),
    "grouped_reducescatter_async": ("better", _ANY_TENSOR),
    "join": ("better", 'right for every reduction; of a process set; `average="active"`'),
    "init": ("better", "Ctrl-C works, `start_timeout=` in `hvd.init`; `comm` of all ranks only"),
    "start_timeline": (
        "better",
        "with and without HOROVOD_TIMELINE; `{rank}` for a file of each rank",
    ),
    "stop_timeline": ("better", "the file is whole, or it says why not"),
    "mpi_threads_supported": ("better", "True: mpi4py may be used beside hvd"),
    "mpi_enabled": ("different", "whether MPI moves the bytes"),
    "mpi_built": ("different", _NOT_BUILT),
    "gloo_enabled": ("different", "whether bytes move without MPI, by libhvd's own planes"),
    "gloo_built": ("different", "True: jobs without MPI always run"),
    "nccl_built": (
        "different",
        "the version (22809) of the NCCL that is loaded, else of the headers of the build; 0 without",
    ),
    "add_process_set": ("better", "at any time, without HOROVOD_DYNAMIC_PROCESS_SETS"),
    "remove_process_set": ("better", "at any time, without HOROVOD_DYNAMIC_PROCESS_SETS"),
    "Adasum": ("better", "any number of ranks, with and without MPI"),
    "HorovodInternalError": ("different", "`hvd.HvdError`, and so the base of `ValueError`s too"),
    "broadcast_parameters": (
        "better",
        "takes generators, entries that are not tensors, a process set",
    ),
    "broadcast_optimizer_state": (
        "better",
        "any optimizer, never stepped or LBFGS; nothing is changed",
    ),
    "broadcast_object": ("better", "of any size"),
    "allgather_object": ("better", "of any size; `process_set=`"),
    "DistributedOptimizer": ("better", "closures, `zero_grad(set_to_none)`, more compressions"),
    "SyncBatchNorm": ("better", "on CPUs, too"),
    "Compression": ("better", "also bf16, 8-bit floats, top-k, PowerSGD"),
    "HorovodAllreduce": ("different", "`apply()` only"),
    "HorovodGroupedAllreduce": ("different", "`apply()` only"),
    "HorovodAllgather": ("different", "`apply()` only"),
    "HorovodGroupedAllgather": ("different", "`apply()` only"),
    "HorovodBroadcast": ("different", "`apply()` only"),
    "HorovodAlltoall": ("different", "`apply()` only"),
    "HorovodReducescatter": ("different", "`apply()` only"),
    "HorovodGroupedReducescatter": ("different", "`apply()` only"),
    "AsyncDataLoaderMixin": (
        "better",
        "every loop is one epoch, after one that was left early too",
    ),
    "run_fn": ("better", "gives up after `reset_limit=` errors without a commit"),
    "HorovodBasics": ("different", "its questions are those of `horovod.torch`"),
    "State": ("better", "its arguments may be left out"),
    "ObjectState": ("better", "its arguments may be left out"),
    "OptimizerStateHandler": ("better", _HANDLERS),
    "get_extension_full_path": ("different", "a path where nothing lies: nothing is compiled"),
    "extension_available": ("different", "asks whether there is a binding and its framework"),
    "check_installed_version": ("different", "does nothing: any version of a framework fits"),
    "gpu_available": ("different", "what the framework says"),
}

# Where a name means another thing than elsewhere.
STATES_IN = {
    ("horovod.torch.elastic", "run"): (
        "different",
        "gives up after `reset_limit=` errors without a commit",
    ),
}

# Whole modules, and why they are not there.
ABSENT = {
    "horovod.mxnet": "comes with hvd.mxnet",
    "horovod.spark": "`horovod.run`, `hvd.run`, or a job of Slurm by `hvdrun script`",
    "horovod.ray": "`horovod.run`, `hvd.run`, or a job of Slurm by `hvdrun script`",
}
