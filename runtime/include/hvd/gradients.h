/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The framework-free halves of a distributed optimizer: gradients that are reduced while the
 * backward pass goes on, compression, clipping, and rules for the learning rate. Part of hvd.h.
 */
#pragma once

#include "hvd/hvd.h"

#if defined(__cplusplus)
extern "C" {
#endif

/**
 * The gradients that one optimizer reduces in each step. Each is submitted as soon as the
 * backward pass has produced it; hvd_gradients_wait() ends the step. One thread at a time per set.
 */
typedef struct hvd_gradients hvd_gradients;

/**
 * What travels instead of a gradient. The 8-bit floats, top-k and PowerSGD take float32 and are
 * for sums and averages; docs/explanation/compression.md says what each is good for.
 */
typedef enum hvd_compression_method {
  HVD_COMPRESS_NONE = 0,
  HVD_COMPRESS_FLOAT16 = 1,     /**< float32 and float64 travel as float16. */
  HVD_COMPRESS_BFLOAT16 = 2,    /**< The same as bfloat16. */
  HVD_COMPRESS_FLOAT8_E4M3 = 3, /**< One byte per element, with a scale that the ranks agree on. */
  HVD_COMPRESS_FLOAT8_E5M2 = 4, /**< The same with more range and less precision. */
  HVD_COMPRESS_TOP_K = 5,       /**< The largest elements; the rest is added to the next step. */
  HVD_COMPRESS_POWER_SGD = 6    /**< Two thin matrices; the rest is added to the next step. */
} hvd_compression_method;

/** A method and its parameters, alike on all ranks. Zero in a field: the default. A caller compiled
    before momentum was added need not have it. */
typedef struct hvd_compression {
  size_t struct_size; /**< sizeof(hvd_compression). */
  int32_t method;     /**< hvd_compression_method. */
  int32_t rank;       /**< PowerSGD: columns of the factors; 2. */
  double ratio;       /**< Top-k: the share of the elements that travels; 0.01. */
  uint64_t smallest;  /**< Gradients of fewer elements travel whole; 1024. */
  double momentum;    /**< Top-k: momentum correction, below 1; 0: none. The optimizer then has no
                           momentum of its own. */
} hvd_compression;

/** What becomes of a gradient between the ranks. */
typedef enum hvd_sharing {
  HVD_REDUCED = 0,
  HVD_LOCAL = 1,       /**< Never reduced: a variable of this rank alone. */
  HVD_LOCAL_SCALED = 2 /**< The same, divided by the ranks: its weight in an average. */
} hvd_sharing;

/** Settings of hvd_gradients_create(). Fields after flush_bytes: 0 is the default, and a caller
    compiled before they were added need not have them. */
typedef struct hvd_gradients_options {
  size_t struct_size;      /**< sizeof(hvd_gradients_options). */
  int32_t reduce_op;       /**< hvd_reduce_op; usually HVD_AVERAGE. */
  int32_t passes_per_step; /**< Backward passes that add up before a reduction; 0: 1. */
  double prescale;
  double postscale;
  uint64_t flush_bytes; /**< Gradients leave when so many bytes are pending; 0: 4 MiB. */
  double predivide; /**< f: scales by 1/f before the sum and f/size after it, HVD_AVERAGE only. */
  double clip_norm; /**< Largest global norm, over all gradients after reduction; 0: any. */
  int32_t mean_over_passes; /**< 1: also divides by the passes of the step; 0: their sum. */
  int32_t compression;      /**< hvd_compression_method of all gradients that it takes; see also
                                 hvd_gradient_compress(). */
  int32_t process_set;      /**< The ranks that reduce; 0: all. The others must not call ready. */
  int32_t device_kind;      /**< hvd_device_kind of all gradients. GPU memory takes no clip_norm, no
                                 compression but the half types, no HVD_LOCAL_SCALED and no
                                 hvd_gradient_start(): those compute on the host. */
  int32_t device_index;     /**< Index of the device; 0 for HVD_CPU. */
  int32_t tracks_use;       /**< 1: hvd_gradients_exchange() works, for one small request a step;
                                 alike on all ranks. */
} hvd_gradients_options;

/** The averages of all ranks, one pass per step. */
#define HVD_GRADIENTS_OPTIONS_INITIALIZER                                                          \
  {                                                                                                \
    sizeof(hvd_gradients_options), HVD_AVERAGE, 1, 1.0, 1.0, 0, 1.0, 0.0, 0, HVD_COMPRESS_NONE, 0, \
        HVD_CPU, 0, 0                                                                              \
  }

/**
 * Names and describes the gradients; works before hvd_init().
 *
 * @param names [count] unique, equal on all ranks; copied.
 * @param tensors [count] dtype, shape and layout; copied. Their pointers are ignored.
 */
HVD_API hvd_status hvd_gradients_create(const hvd_gradients_options* options,
                                        const char* const* names, const hvd_tensor* tensors,
                                        uint32_t count, hvd_gradients** gradients) HVD_NOEXCEPT;

/**
 * Gradient `index` got the contribution of one backward pass. Submits its reduction, in place at
 * `data`, when all passes of the step are there, or at once with `last_pass` 1. From then on the
 * memory at `data` is borrowed: it must neither change, move nor end until hvd_gradients_wait()
 * has ended the step, or hvd_gradients_abandon() or hvd_gradients_destroy() has returned.
 *
 * @return HVD_INVALID_ARGUMENT: no such gradient, or a pass more than passes_per_step.
 */
HVD_API hvd_status hvd_gradient_ready(hvd_gradients* gradients, uint32_t index, void* data,
                                      int last_pass) HVD_NOEXCEPT;

/**
 * The same for GPU memory, in the order of a stream: the gradient is read after what `stream` holds
 * by now. hvd_gradient_ready() means the default stream.
 *
 * @param stream as hvd_request.stream; it and the memory are borrowed until the step is waited for.
 */
HVD_API hvd_status hvd_gradient_ready_on(hvd_gradients* gradients, uint32_t index, void* data,
                                         int last_pass, void* stream) HVD_NOEXCEPT;

/**
 * Gradient `index` of this step travels by other requests of the caller's: as rows, say. For
 * hvd_gradients_exchange() it is one that this rank has.
 */
HVD_API hvd_status hvd_gradient_elsewhere(hvd_gradients* gradients, uint32_t index) HVD_NOEXCEPT;

/**
 * Ranks tell each other which gradients they have submitted in this step, so that nobody waits for
 * what another rank does not have; all ranks of the set call it. Where every rank has submitted all
 * gradients it costs one small request, which has left with the last of them. Needs tracks_use.
 *
 * @param is_final 1: this rank submits no more in this step, but what is needed.
 * @param needed [capacity] the gradients that another rank has submitted and this one has not:
 *   submit zeros for each by hvd_gradient_ready() with `last_pass` 1.
 * @param is_over set to 1 where no rank submits more in this step: end it by hvd_gradients_wait().
 *   Else wait by hvd_gradients_wait_part(), and exchange again when there is more, or no more, to
 *   submit.
 * @return HVD_TIMEOUT: not every rank has called it, call again. After any other failure the step
 * is over.
 */
HVD_API hvd_status hvd_gradients_exchange(hvd_gradients* gradients, int is_final,
                                          double timeout_seconds, uint32_t* needed,
                                          uint32_t capacity, uint32_t* count,
                                          int* is_over) HVD_NOEXCEPT;

/** Waits for what is submitted, as hvd_gradients_wait() does, and does not end the step. */
HVD_API hvd_status hvd_gradients_wait_part(hvd_gradients* gradients,
                                           double timeout_seconds) HVD_NOEXCEPT;

/** The same in the order of a stream, as hvd_gradients_wait_stream(). */
HVD_API hvd_status hvd_gradients_wait_part_stream(hvd_gradients* gradients, void* stream,
                                                  double timeout_seconds) HVD_NOEXCEPT;

/** Changes dtype, shape and layout of a gradient for later steps. */
HVD_API hvd_status hvd_gradient_describe(hvd_gradients* gradients, uint32_t index,
                                         const hvd_tensor* tensor) HVD_NOEXCEPT;

/**
 * Chooses how a gradient travels, from the next step on; alike on all ranks. Choosing the same
 * again keeps what the method has kept.
 *
 * @return HVD_UNSUPPORTED: not float32, or not a sum or an average; HVD_INVALID_ARGUMENT: a
 *   parameter out of its range, or the gradient is on its way.
 */
HVD_API hvd_status hvd_gradient_compress(hvd_gradients* gradients, uint32_t index,
                                         const hvd_compression* compression) HVD_NOEXCEPT;

/** Chooses an hvd_sharing for a gradient, from the next step on; alike on all ranks. */
HVD_API hvd_status hvd_gradient_share(hvd_gradients* gradients, uint32_t index,
                                      int sharing) HVD_NOEXCEPT;

/**
 * This step reduces what a local optimizer step changes: keeps a copy of `values` (float32). Then
 * step locally, call hvd_gradient_ready() with the changed values, and hvd_gradients_wait() leaves
 * there the old values plus the reduced difference. With HVD_ADASUM: the Adasum delta optimizer.
 */
HVD_API hvd_status hvd_gradient_start(hvd_gradients* gradients, uint32_t index,
                                      const void* values) HVD_NOEXCEPT;

/**
 * The gradients not yet submitted in this step.
 *
 * @param indices [capacity] filled in ascending order; may be null with capacity 0.
 * @param count set to their number, also when above the capacity.
 */
HVD_API hvd_status hvd_gradients_missing(const hvd_gradients* gradients, uint32_t* indices,
                                         uint32_t capacity, uint32_t* count) HVD_NOEXCEPT;

/**
 * Waits for all submitted reductions of the step, then starts the next step. HVD_TIMEOUT: some are
 * still in flight, wait again. After any other failure the step is over and gradients undefined.
 */
HVD_API hvd_status hvd_gradients_wait(hvd_gradients* gradients,
                                      double timeout_seconds) HVD_NOEXCEPT;

/**
 * Ends the step of a set in GPU memory in the order of a stream: what is put into `stream` from now
 * on sees the reduced gradients. The host waits as in hvd_wait_stream(), until the ranks have
 * agreed on all of them. What the device meets later is the status of the next calls.
 *
 * @return as hvd_gradients_wait(); after HVD_TIMEOUT call this again, not that.
 */
HVD_API hvd_status hvd_gradients_wait_stream(hvd_gradients* gradients, void* stream,
                                             double timeout_seconds) HVD_NOEXCEPT;

/** Changes how many backward passes add up; from the next gradient on. */
HVD_API hvd_status hvd_gradients_set_passes(hvd_gradients* gradients, int passes) HVD_NOEXCEPT;

/** Changes the largest global norm, from this step on; 0: any. */
HVD_API hvd_status hvd_gradients_set_clip_norm(hvd_gradients* gradients,
                                               double clip_norm) HVD_NOEXCEPT;

/**
 * The gradients of the next steps are the true ones times `scale`: the scale of a mixed precision
 * loss. They come back scaled; what compression keeps, the clip norm and hvd_gradients_norm() are
 * true, so that the scale may change from step to step. 1 until called; alike on all ranks.
 *
 * @return HVD_INVALID_ARGUMENT: not between 2^-100 and 2^100, or a gradient of this step is ready.
 */
HVD_API hvd_status hvd_gradients_set_loss_scale(hvd_gradients* gradients,
                                                double scale) HVD_NOEXCEPT;

/** The global norm of the last step that was waited for with a clip norm, before clipping. */
HVD_API hvd_status hvd_gradients_norm(const hvd_gradients* gradients, double* norm) HVD_NOEXCEPT;

/**
 * Writes what compression keeps between steps (errors to feed back, factors to start with). It is
 * this rank's own: save it on every rank. Call it between steps.
 *
 * @param buffer [capacity] null with capacity 0 to ask for the size.
 * @param size set to the bytes of the state, also when above the capacity: nothing is written then.
 */
HVD_API hvd_status hvd_gradients_save(const hvd_gradients* gradients, void* buffer, size_t capacity,
                                      size_t* size) HVD_NOEXCEPT;

/** Takes over what hvd_gradients_save() wrote for the same gradients and methods; call it after
    choosing those. On failure nothing has changed. */
HVD_API hvd_status hvd_gradients_load(hvd_gradients* gradients, const void* state,
                                      size_t size) HVD_NOEXCEPT;

/**
 * Ends a step that will not be waited for, without its results; gradients are undefined then. When
 * it returns, nothing of the set reads or writes memory that hvd_gradient_ready() was given, which
 * may be freed. Between steps it does nothing.
 *
 * Waits for the ranks that reduce the same gradients. Where they do not come in time, and with a
 * timeout of 0 at once, this rank's part in the job ends as by hvd_abort(): what is pending on any
 * rank fails with HVD_PEER_LOST, this rank's name and `cause`. After a wait that was long enough
 * the job goes on; ranks that go on with the step then wait for its other gradients.
 *
 * @param cause why, in a few words ("ValueError: no data"). NULL: none given.
 * @param timeout_seconds negative: no limit. A job of one rank needs none.
 */
HVD_API hvd_status hvd_gradients_abandon(hvd_gradients* gradients, const char* cause,
                                         double timeout_seconds) HVD_NOEXCEPT;

/** Frees the set; null: nothing. In the middle of a step it is hvd_gradients_abandon() with 10 s
    first, so that nothing is written into gradients that end with their set. */
HVD_API void hvd_gradients_destroy(hvd_gradients* gradients) HVD_NOEXCEPT;

/** How the learning rate follows a larger batch. */
typedef enum hvd_rate_rule {
  HVD_RATE_CONSTANT = 0,
  HVD_RATE_LINEAR = 1,     /**< As much as the batch grows; usual for SGD. */
  HVD_RATE_SQUARE_ROOT = 2 /**< The square root of that; usual for Adam and LAMB. */
} hvd_rate_rule;

/**
 * What to multiply the learning rate by when the batch grows `growth` times (usually the ranks
 * times the passes per step). NaN and hvd_last_error() for an unknown rule or a growth not above 0.
 */
HVD_API double hvd_rate_factor(int rule, double growth) HVD_NOEXCEPT;

/**
 * The learning rate of `step` (from 0): grows linearly from `base` to `base * factor` during
 * `warmup_steps`, then stays. `factor` is usually hvd_rate_factor(). NaN and hvd_last_error() when
 * an argument is negative. Works before hvd_init().
 */
HVD_API double hvd_learning_rate(double base, double factor, int64_t warmup_steps,
                                 int64_t step) HVD_NOEXCEPT;

/**
 * The trust ratio of LARS for one layer, to multiply its learning rate by:
 * coefficient * |w| / (|g| + weight_decay * |w|); 1 when a norm is 0.
 */
HVD_API double hvd_lars_ratio(double weight_norm, double gradient_norm, double coefficient,
                              double weight_decay) HVD_NOEXCEPT;

/** The trust ratio of LAMB for one layer: |w| / |update|; 1 when a norm is 0. */
HVD_API double hvd_lamb_ratio(double weight_norm, double update_norm) HVD_NOEXCEPT;

/**
 * 64 bits that stand for `bytes` bytes of CPU memory, to compare replicas of a model over ranks: as
 * quick as memory is read, and never equal for memories whose difference lies within one aligned
 * 64-bit word, such as a flipped bit; other differences have one digest once in 2^64 times. The
 * same on all ranks of one byte order. Works before hvd_init().
 *
 * @param seed the digest of what came before, to make one of many pieces; 0 for the first.
 */
HVD_API uint64_t hvd_digest(const void* data, size_t bytes, uint64_t seed) HVD_NOEXCEPT;

#if defined(__cplusplus)
}
#endif
