/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The C interface of libhvd: collective operations for data-parallel training.
 *
 * Every function that can fail returns an `hvd_status`; the sentence behind a failure is
 * `hvd_last_error()`, per thread. No function throws or ends the process. Unless a function says
 * otherwise it may be called from any thread, also at the same time.
 *
 * In the child of a fork() made after hvd_init() the library is not initialised: every call there
 * fails at once with HVD_ABORTED, so that data loader workers are safe but take no part.
 *
 * Numbers of enumerators and fields of structs never change their meaning. A struct that begins
 * with `struct_size` may grow at its end: set it to sizeof as you compiled it. The size of a
 * request also tells which fields its tensors have.
 */
#ifndef HVD_HVD_H_
#define HVD_HVD_H_

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define HVD_API __attribute__((visibility("default")))
#else
#define HVD_API
#endif

#if defined(__cplusplus)
#define HVD_NOEXCEPT noexcept
extern "C" {
#else
#define HVD_NOEXCEPT
#endif

/** What the caller can do about a failure. */
typedef enum hvd_status {
  HVD_OK = 0,
  HVD_INVALID_ARGUMENT = 1, /**< Correct the call. */
  HVD_MISMATCH = 2,         /**< The ranks disagree: correct the program. */
  HVD_UNSUPPORTED = 3,      /**< Choose another operation, type or backend. */
  HVD_TIMEOUT = 4,          /**< A deadline passed. */
  HVD_PEER_LOST = 5,        /**< A rank, node or link died: start again, see hvd_abort(). */
  HVD_SYSTEM = 6,           /**< The operating system refused. */
  HVD_ABORTED = 7,          /**< Shut down, or never initialised. */
  HVD_INTERNAL = 8          /**< A defect of this library: please report it. */
} hvd_status;

/** Element types. */
typedef enum hvd_dtype {
  HVD_UINT8 = 0,
  HVD_INT8 = 1,
  HVD_UINT16 = 2,
  HVD_INT16 = 3,
  HVD_INT32 = 4,
  HVD_INT64 = 5,
  HVD_FLOAT16 = 6,
  HVD_FLOAT32 = 7,
  HVD_FLOAT64 = 8,
  HVD_BOOL = 9,
  HVD_BFLOAT16 = 10,
  HVD_UINT32 = 11,
  HVD_UINT64 = 12,
  HVD_COMPLEX64 = 13, /**< Two float32. */
  HVD_COMPLEX128 = 14,
  HVD_FLOAT8_E4M3 = 15, /**< As torch.float8_e4m3fn: no infinity, NaN is s.1111.111. */
  HVD_FLOAT8_E5M2 = 16
} hvd_dtype;

/** Reductions. Half types are summed in float32. */
typedef enum hvd_reduce_op {
  HVD_AVERAGE = 0, /**< The sum divided by the number of ranks. */
  HVD_SUM = 1,
  HVD_ADASUM = 2, /**< Allreduce of floats only; see docs/reference/reductions.md. */
  HVD_MIN = 3,
  HVD_MAX = 4,
  HVD_PRODUCT = 5,
  HVD_BIT_AND = 6,
  HVD_BIT_OR = 7,
  HVD_BIT_XOR = 8
} hvd_reduce_op;

/** What the elements of a float32 or float64 allreduce travel as. */
typedef enum hvd_wire { HVD_WIRE_SAME = 0, HVD_WIRE_FLOAT16 = 1, HVD_WIRE_BFLOAT16 = 2 } hvd_wire;

/** Kinds of collective operation. */
typedef enum hvd_kind {
  HVD_ALLREDUCE = 0,     /**< output = postscale * reduce over ranks of (prescale * input). */
  HVD_ALLGATHER = 1,     /**< Concatenates along the first dimension, which may differ by rank. */
  HVD_BROADCAST = 2,     /**< Copies the tensor of `root` to every rank. */
  HVD_BARRIER = 3,       /**< Completes when every rank has submitted it. Has no tensors. */
  HVD_REDUCESCATTER = 4, /**< As allreduce; each rank keeps its share of the rows, the first ranks
                              one more where they do not divide. */
  HVD_ALLTOALL = 5,      /**< Sends `splits` rows to each rank, gets what the others sent. */
  HVD_REDUCE = 6,        /**< As allreduce; only `root` gets the result. */
  HVD_GATHER = 7,        /**< As allgather; only `root` gets the rows. */
  HVD_SCATTER = 8,       /**< Sends each rank its share (`splits`) of the rows of `root`. */
  HVD_JOIN = 9           /**< Not for hvd_submit(): see hvd_join(). */
} hvd_kind;

/** Where the memory of a tensor lives. */
typedef enum hvd_device_kind { HVD_CPU = 0, HVD_CUDA = 1, HVD_ROCM = 2 } hvd_device_kind;

/** A submitted operation. Opaque; never 0. Belongs to the process that submitted it. */
typedef uint64_t hvd_handle;

/** More submissions follow at once: the engine need not wake for this one. See hvd_flush(). */
#define HVD_SUBMIT_MORE UINT32_C(1)

/** A list of ranks of the job. */
typedef struct hvd_ranks {
  const int32_t* ranks; /**< [count] in any order. */
  uint32_t count;
} hvd_ranks;

/** Settings of hvd_init(). Zero in a field: the environment variable, else the default. */
typedef struct hvd_init_options {
  size_t struct_size;            /**< sizeof(hvd_init_options). */
  double start_timeout_seconds;  /**< Wait for the other ranks. HVD_START_TIMEOUT_SECONDS, 120. */
  uint64_t fusion_bytes;         /**< Most bytes of one batch. HVD_FUSION_THRESHOLD, 64 MiB. */
  double stall_check_seconds;    /**< Report a tensor that waits this long; negative: never.
                                      HVD_STALL_CHECK_TIME_SECONDS (0: never), 60. */
  const hvd_ranks* process_sets; /**< Become process sets 1, 2, ...; the same on every rank. */
  uint32_t process_set_count;
} hvd_init_options;

/** One tensor: dense, of any layout, taken flat; on a GPU at multiples of its elements' size. */
typedef struct hvd_tensor {
  const void* input;     /**< Borrowed until the request completes. May be null when empty. */
  void* output;          /**< As long as input; may be the same memory, must not overlap otherwise.
                              Allgather, alltoall, gather, scatter: see output_bytes. Ignored by
                              reduce where not root. Reducescatter: this rank's share of the
                              rows; null: see hvd_gathered(). */
  int32_t dtype;         /**< hvd_dtype. */
  int32_t dimensions;    /**< Entries of shape; 0 for a scalar. */
  const int64_t* shape;  /**< Elements per dimension; copied by hvd_submit(). */
  uint64_t layout;       /**< Any number that tells memory orders apart, equal on all ranks;
                              0: row-major. Ranks that differ get HVD_MISMATCH. */
  const int64_t* splits; /**< [split_count] rows for each rank, of alltoall and on the root of
                              scatter; copied; may differ by rank. Null: shared out evenly. */
  size_t split_count;    /**< Ranks of the process set; 0 where splits is null. */
  size_t output_bytes;   /**< Length of output, for allgather, alltoall, gather and scatter, whose
                              result is written there if it fits, else to memory of the library:
                              hvd_gathered() tells. 0: output is ignored. Must not overlap input.
                              May differ by rank. */
} hvd_tensor;

/** A collective operation on one tensor, or on a group that completes as one. */
typedef struct hvd_request {
  size_t struct_size;        /**< sizeof(hvd_request). */
  const char* name;          /**< UTF-8, equal on all ranks, copied. Null or "": a name is made
                                  from the kind and the order of nameless submissions. */
  int32_t kind;              /**< hvd_kind. */
  int32_t process_set;       /**< 0: all ranks; see hvd_process_set_add(). */
  int32_t reduce_op;         /**< hvd_reduce_op; allreduce, reducescatter and reduce. */
  int32_t root;              /**< Rank of the job, in the process set; broadcast,
                                  reduce, gather and scatter. */
  double prescale;           /**< As reduce_op. Mind: 0 multiplies by 0; see below. */
  double postscale;          /**< As reduce_op. */
  int32_t device_kind;       /**< hvd_device_kind of all tensors. */
  int32_t device_index;      /**< Index of the device; 0 for HVD_CPU. */
  uint32_t flags;            /**< HVD_SUBMIT_MORE or 0. */
  uint32_t tensor_count;     /**< 1 or more; 0 for barrier and join. */
  const hvd_tensor* tensors; /**< [tensor_count]; the structs are copied, their memory is not. */
  /** Called once when the request has completed, from any thread, without a lock held; may be
      null. It may submit, and must neither wait nor block. `message` is valid during the call. */
  void (*on_complete)(void* context, hvd_status status, const char* message);
  void* context;    /**< First argument of on_complete. */
  int32_t wire;     /**< hvd_wire; allreduce only. */
  int32_t priority; /**< Higher runs first among what waits; equal on all ranks. */
  void* stream;     /**< GPU memory: the cudaStream_t (CUstream, hipStream_t) that makes the inputs;
                         null: the default stream. It stays, uncaptured, until hvd_submit() returns;
                         with HVD_SUBMIT_MORE: until hvd_flush() or a wait. See hvd_wait_stream(). */
} hvd_request;

/** A float32 sum of nothing, named by the library: the start of every request. */
#define HVD_REQUEST_INITIALIZER                                                                \
  {                                                                                            \
    sizeof(hvd_request), NULL, HVD_ALLREDUCE, 0, HVD_SUM, 0, 1.0, 1.0, HVD_CPU, 0, 0, 0, NULL, \
        NULL, NULL, HVD_WIRE_SAME, 0, NULL                                                     \
  }

/** A result whose size only the library knows: of allgather, alltoall, gather, scatter, and of a
    reducescatter without output. Valid until hvd_release() or hvd_shutdown(). */
typedef struct hvd_gather {
  const void* data;     /**< The rows that came from all ranks, by rank; null when there are none.
                             Equals hvd_tensor.output where that was long enough. */
  const int64_t* shape; /**< [dimensions]; the first is the sum of `rows`. */
  const int64_t* rows;  /**< [ranks] rows that came from each rank; reducescatter: [1] mine. */
  int32_t dimensions;
  int32_t ranks;
} hvd_gather;

/** Counters since hvd_init(). */
typedef struct hvd_counters {
  size_t struct_size;    /**< sizeof(hvd_counters); set by the caller. */
  uint64_t batches;      /**< Times that a backend ran. */
  uint64_t requests;     /**< Operations that all ranks were ready for. */
  uint64_t bytes;        /**< Bytes of this rank's tensors in them. */
  double waited_seconds; /**< Time that callers spent in hvd_wait(). */
} hvd_counters;

/* ---- start and end ---------------------------------------------------------------------- */

/**
 * Finds the other ranks of the job and starts the engine. Collective: every rank calls it.
 * A second call does nothing. After hvd_shutdown() it may be called again.
 *
 * @param options null for the defaults.
 * @return HVD_TIMEOUT: a rank did not come (named); HVD_INVALID_ARGUMENT: a setting or an
 *   environment variable is not valid, or the process was started in a way that is not a rank
 *   (the sentence says what to type); HVD_ABORTED: in a forked child.
 */
HVD_API hvd_status hvd_init(const hvd_init_options* options) HVD_NOEXCEPT;

/**
 * Leaves the job. Waits until all ranks have called it, at most `timeout_seconds` (negative: no
 * limit), then fails what is pending with HVD_ABORTED and stops the engine. Memory of requests
 * may be freed afterwards. Without hvd_init(): does nothing. A process that exits with code 0
 * calls it by itself with a short limit; one that exits otherwise leaves at once.
 */
HVD_API hvd_status hvd_shutdown(double timeout_seconds) HVD_NOEXCEPT;

/**
 * Ends this rank's part in the job because of an error: what is pending fails on every rank with
 * HVD_PEER_LOST and `cause` in the text. The process goes on, hvd_shutdown() may follow. For a
 * program that is about to end use hvd_set_farewell().
 *
 * @param cause why, in a few words ("ValueError: no data"); 500 bytes are kept. NULL: none given.
 * @return HVD_OK, also when not initialised.
 */
HVD_API hvd_status hvd_abort(const char* cause) HVD_NOEXCEPT;

/**
 * What the other ranks are told should this program end with a non-zero exit code. They are told
 * when it ends, not before: a launcher then sees this rank end first.
 *
 * @param cause why, in a few words; 500 bytes are kept. NULL: forget it.
 * @return HVD_OK, also when not initialised.
 */
HVD_API hvd_status hvd_set_farewell(const char* cause) HVD_NOEXCEPT;

/** 1 between hvd_init() and hvd_shutdown(), else 0; in a forked child what it was at the fork. */
HVD_API int hvd_is_initialized(void) HVD_NOEXCEPT;

/** 1 where the ranks of this elastic job were at work when this process was first initialised: it
 * takes part in no operation before they have agreed to give it their state. Else 0. */
HVD_API int hvd_came_late(void) HVD_NOEXCEPT;

/** 1 on rank 0 of an elastic job (hvdrun --spares, --min-np, --max-np, --restarts) whose ranks
 * should become others: it has fewer than it is to have and processes wait to become some, or it
 * has more. They do when all ranks shut down and initialise again. Else 0. Never waits. */
HVD_API int hvd_has_newcomers(void) HVD_NOEXCEPT;

/* ---- who and where, in forked children too; -1 and hvd_last_error() when not initialised - */

HVD_API int hvd_rank(void) HVD_NOEXCEPT;       /**< 0..size-1. */
HVD_API int hvd_size(void) HVD_NOEXCEPT;       /**< Ranks of the job. */
HVD_API int hvd_local_rank(void) HVD_NOEXCEPT; /**< Place among the ranks of this node. */
HVD_API int hvd_local_size(void) HVD_NOEXCEPT; /**< Ranks of this node. */
HVD_API int hvd_cross_rank(void) HVD_NOEXCEPT; /**< Place among ranks of this local rank. */
HVD_API int hvd_cross_size(void) HVD_NOEXCEPT; /**< Nodes that have a rank of this local rank. */
HVD_API int hvd_is_homogeneous(void) HVD_NOEXCEPT; /**< 1: all nodes have as many ranks; else 0. */

/* ---- process sets: collectives among some of the ranks ----------------------------------- */

/**
 * Makes some ranks a process set, for `hvd_request.process_set`. Collective: every rank of the job
 * calls it with the same ranks, those that are not in the set too, and gets the same number. Sets
 * may overlap and work at the same time; each has its own memory and connections.
 *
 * @param ranks [count] ranks of the job, in any order; the set counts them in ascending order.
 * @param timeout_seconds for the other ranks to come; negative: no limit.
 * @param process_set set to the number, from 1; numbers never come again.
 * @return HVD_INVALID_ARGUMENT: no rank, one that does not exist or is listed twice, or the ranks
 *   of a set that is there; HVD_MISMATCH: the ranks of the job disagree (named, with their lists);
 *   HVD_TIMEOUT: not all came, and nothing has changed; HVD_PEER_LOST.
 */
HVD_API hvd_status hvd_process_set_add(const int32_t* ranks, uint32_t count, double timeout_seconds,
                                       int32_t* process_set) HVD_NOEXCEPT;

/**
 * Makes process sets of MPI communicators, as hvd_process_set_add() does of lists of ranks.
 * Collective over the job: every rank gives the communicator that it is in, all members of one
 * give it, and a rank without one gives the address of an MPI_Comm that is MPI_COMM_NULL. So a
 * split world (MPI_Comm_split) becomes several sets at once, that of the lowest rank first.
 *
 * This header needs no mpi.h, and libhvd links no MPI: an MPI_Comm is an int in one MPI and a
 * pointer in another, so its address and its size say which:
 * `hvd_process_set_add_mpi(&comm, sizeof comm, -1, &set)`. The communicator is only asked who its
 * members are, on this thread and before this returns; it may be freed afterwards. hvd sends
 * nothing in it, and need not move its data by MPI.
 *
 * @param communicator address of the MPI_Comm, not the MPI_Comm; a handle that is none of this
 *   MPI ends the program, as in any MPI call.
 * @param communicator_size sizeof(MPI_Comm).
 * @param process_set set to the number of the set that this rank is in; without one, to that of
 *   the first. The set counts its ranks as the job does, whatever their order in MPI.
 * @return HVD_INVALID_ARGUMENT: a null address, another MPI's size, MPI that does not run, an
 *   intercommunicator, a member that is not a rank of the job, only MPI_COMM_NULL, or the ranks of
 * a set that is there; HVD_UNSUPPORTED: no MPI, or no plugin for it; HVD_MISMATCH: a member did not
 *   give it. What one rank gives wrongly is the error of all. HVD_TIMEOUT, HVD_PEER_LOST as above.
 */
HVD_API hvd_status hvd_process_set_add_mpi(const void* communicator, size_t communicator_size,
                                           double timeout_seconds,
                                           int32_t* process_set) HVD_NOEXCEPT;

/**
 * Ends a process set and frees its memory and connections. Collective: every rank of the job calls
 * it, with nothing of the set in flight (else HVD_INVALID_ARGUMENT on every rank, and it stays).
 */
HVD_API hvd_status hvd_process_set_remove(int32_t process_set, double timeout_seconds) HVD_NOEXCEPT;

/** The number of process sets, that of all ranks included; -1 when not initialised. */
HVD_API int hvd_process_set_count(void) HVD_NOEXCEPT;

/** The process sets, ascending; filled up to `capacity`, *count is their number in any case. */
HVD_API hvd_status hvd_process_set_ids(int32_t* ids, uint32_t capacity,
                                       uint32_t* count) HVD_NOEXCEPT;

/** The ranks of a process set, ascending; filled up to `capacity`, *count is their number. */
HVD_API hvd_status hvd_process_set_ranks(int32_t process_set, int32_t* ranks, uint32_t capacity,
                                         uint32_t* count) HVD_NOEXCEPT;

/** Place of this rank in a process set; -1 when it is not in it, or there is no such set. */
HVD_API int hvd_process_set_rank(int32_t process_set) HVD_NOEXCEPT;

/** Ranks of a process set; -1 when there is no such set. */
HVD_API int hvd_process_set_size(int32_t process_set) HVD_NOEXCEPT;

/**
 * This rank has no more data for the process set. Until all its ranks have joined it takes part in
 * their allreduces with nothing to add (0 for sums, 1 for products, the highest value for min, ...)
 * and may submit nothing for the set; other operations are an error on every rank that asks for
 * them. Meanwhile averages divide by the size of the set or, with `active_average` 1, by the ranks
 * that have not joined; all ranks must say the same (HVD_MISMATCH).
 *
 * @param timeout_seconds negative: no limit. HVD_TIMEOUT: still joined, call it again.
 * @param last_rank set to the last rank of the job to join, the same on every rank. May be null.
 */
HVD_API hvd_status hvd_join(int32_t process_set, int32_t active_average, double timeout_seconds,
                            int32_t* last_rank) HVD_NOEXCEPT;

/* ---- operations ------------------------------------------------------------------------- */

/**
 * Starts an operation and returns at once. Ranks may submit in any order. A name that is in
 * flight queues behind itself.
 *
 * @param handle set on success; give it to hvd_release() in the end.
 * @return HVD_INVALID_ARGUMENT, HVD_UNSUPPORTED: the request is wrong on this rank, nothing
 *   started; HVD_PEER_LOST: the job is broken; HVD_ABORTED: not initialised. What the ranks
 *   disagree about is found later, and is the status of hvd_wait() on every rank.
 */
HVD_API hvd_status hvd_submit(const hvd_request* request, hvd_handle* handle) HVD_NOEXCEPT;

/** Wakes the engine for requests submitted with HVD_SUBMIT_MORE. A wait does so as well. */
HVD_API hvd_status hvd_flush(void) HVD_NOEXCEPT;

/** Sets *done to 1 when the operation has completed (on GPU memory: on the device), well or not,
    else to 0. Never waits. */
HVD_API hvd_status hvd_poll(hvd_handle handle, int* done) HVD_NOEXCEPT;

/**
 * Waits for an operation, and works on it meanwhile.
 *
 * @param timeout_seconds negative: no limit.
 * @return the outcome of the operation, or HVD_TIMEOUT while it is still in flight (wait again).
 *   After HVD_PEER_LOST outputs are undefined.
 */
HVD_API hvd_status hvd_wait(hvd_handle handle, double timeout_seconds) HVD_NOEXCEPT;

/**
 * hvd_submit() and hvd_wait() in one call; hvd_release(), too, where nothing is left to read.
 *
 * @param timeout_seconds negative: no limit. HVD_TIMEOUT: it is in flight; hvd_wait() waits on.
 * @param handle set to what must be given to hvd_release() in the end: after HVD_TIMEOUT, and after
 *   HVD_OK of a kind whose result hvd_gathered() gives; else to 0.
 * @return that of hvd_submit(), or of hvd_wait(); HVD_ABORTED: it was itself not in time.
 */
HVD_API hvd_status hvd_run(const hvd_request* request, double timeout_seconds,
                           hvd_handle* handle) HVD_NOEXCEPT;

/** Puts what follows in `stream` after an operation on GPU memory. The host waits until the ranks
   have agreed to run it; for the device where it needs new memory, or goes through the host's. What
   the device meets later is the status of hvd_wait(), of on_complete, and of every call after it.
   From now on what is put into `stream` may read the results, or give their memory back to an
   allocator that keeps its order. As hvd_wait(); HVD_INVALID_ARGUMENT: an operation on CPU memory;
   HVD_UNSUPPORTED: the stream is being captured. */
HVD_API hvd_status hvd_wait_stream(hvd_handle handle, void* stream,
                                   double timeout_seconds) HVD_NOEXCEPT;

/** The result of tensor `index` of a completed operation; hvd_gather says of which. */
HVD_API hvd_status hvd_gathered(hvd_handle handle, uint32_t index, hvd_gather* result) HVD_NOEXCEPT;

/** Forgets an operation, when it is over, and frees what it gathered: GPU memory after what the
    streams of hvd_wait_stream(), which must still exist, hold by now; others must be done. */
HVD_API hvd_status hvd_release(hvd_handle handle) HVD_NOEXCEPT;

/* ---- memory that the ranks of a node share ----------------------------------------------- */

/**
 * Memory for tensors on which collectives work without copying: the ranks of the node reach it
 * where it lies. An allreduce of more than 4 KiB does so where all its tensors, on every rank of
 * the node, are such memory and all ranks live on one node; the results are the same bits.
 *
 * Zeroed where it was not used before, at a multiple of 64 bytes (of 4096 from 4096 bytes on). It
 * stays valid until hvd_free(), also after hvd_shutdown(). While an operation on it is in flight
 * other ranks write into it; after HVD_PEER_LOST they have stopped, unless the sentence says
 * "buffers undefined": a rank that did not answer for 2 s may go on, and the memory is not given
 * out again. A forked child sees the same memory, not a copy.
 *
 * @param bytes 0 gives memory that must be freed as well.
 * @return HVD_SYSTEM: the share of this rank (HVD_ARENA_BYTES, 32 GiB of addresses) is used up, or
 *   the machine has no such memory; HVD_ABORTED: not initialised.
 */
HVD_API hvd_status hvd_alloc(size_t bytes, void** memory) HVD_NOEXCEPT;

/** Takes memory of hvd_alloc() back; null: nothing. No operation on it may be in flight. */
HVD_API hvd_status hvd_free(void* memory) HVD_NOEXCEPT;

/* ---- explanations ----------------------------------------------------------------------- */

/** The sentence behind the last failure on this thread, "" before any. Valid until the next. */
HVD_API const char* hvd_last_error(void) HVD_NOEXCEPT;

/** "peer lost" for HVD_PEER_LOST, and so on. Never null. */
HVD_API const char* hvd_status_name(hvd_status status) HVD_NOEXCEPT;

/** Text for people: ranks, nodes, hosts, how the ranks found each other, which backend moves the
    bytes and why, which promise of reproducibility holds. Null when not initialised. Valid until
    the next call on this thread. */
HVD_API const char* hvd_describe(void) HVD_NOEXCEPT;

/** What this build contains, as JSON: "version", and hvd_version() is that alone; "nccl_version",
   of the NCCL that is loaded, else of the headers, 0 without; "backends", "bootstraps",
   "libraries": lists of {"name", "available", "reason"}. Before hvd_init() too; never null; valid
   for ever. */
HVD_API const char* hvd_version(void) HVD_NOEXCEPT;
HVD_API const char* hvd_build_info(void) HVD_NOEXCEPT;

/** Fills the fields that fit into statistics->struct_size. */
HVD_API hvd_status hvd_statistics(hvd_counters* statistics) HVD_NOEXCEPT;

/**
 * Writes from now on what becomes of each operation into a file that chrome://tracing and
 * ui.perfetto.dev show: when it was submitted, when all ranks had it, when its bytes moved, what it
 * came to. Not collective. Operations that are in flight are not in it. HVD_TIMELINE does so from
 * hvd_init() on. The file is whole after hvd_timeline_stop() or hvd_shutdown(); of a program that
 * died it lacks a second at most.
 *
 * @param path what was in the file is lost. With "{rank}" in its name every rank that calls writes
 *   its own, else rank 0 alone does, and elsewhere nothing happens.
 * @param mark_batches 1: also when each batch was decided on.
 * @return HVD_SYSTEM: the file cannot be opened (its name and why); HVD_INVALID_ARGUMENT: no name,
 *   or a timeline is on; HVD_ABORTED: not initialised.
 */
HVD_API hvd_status hvd_timeline_start(const char* path, int mark_batches) HVD_NOEXCEPT;

/** Ends the file; none, or not initialised: ok. HVD_SYSTEM: it is not whole (a full disk, say). */
HVD_API hvd_status hvd_timeline_stop(void) HVD_NOEXCEPT;

#if defined(__cplusplus)
}
#endif

#include "hvd/collectives.h"
#include "hvd/gradients.h"

#endif /* HVD_HVD_H_ */
