/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The collectives of one flat tensor in CPU memory, each of which waits. Part of hvd.h.
 */
#pragma once

#include "hvd/hvd.h"

#if defined(__cplusplus)
extern "C" {
#endif

/** output[i] = reduction over ranks of input[i], for i < count. input may equal output. */
HVD_API hvd_status hvd_allreduce(const char* name, const void* input, void* output, size_t count,
                                 hvd_dtype dtype, hvd_reduce_op op) HVD_NOEXCEPT;

/** Replaces `count` elements of `buffer` by those of rank `root`. */
HVD_API hvd_status hvd_broadcast(const char* name, void* buffer, size_t count, hvd_dtype dtype,
                                 int root) HVD_NOEXCEPT;

/**
 * Concatenates `rows` rows of `row_count` elements each from every rank; rows may differ by rank.
 * Read the result with hvd_gathered(*handle, 0, ...), then hvd_release(*handle).
 */
HVD_API hvd_status hvd_allgather(const char* name, const void* input, size_t rows, size_t row_count,
                                 hvd_dtype dtype, hvd_handle* handle) HVD_NOEXCEPT;

/** As hvd_allreduce(), but only rank `root` gets the result; `output` may be null elsewhere. */
HVD_API hvd_status hvd_reduce(const char* name, const void* input, void* output, size_t count,
                              hvd_dtype dtype, hvd_reduce_op op, int root) HVD_NOEXCEPT;

/**
 * Reduces `rows` rows of `row_count` elements over ranks, of which each rank keeps its share: the
 * first ranks one row more where they do not divide. Result: as hvd_allgather().
 */
HVD_API hvd_status hvd_reducescatter(const char* name, const void* input, size_t rows,
                                     size_t row_count, hvd_dtype dtype, hvd_reduce_op op,
                                     hvd_handle* handle) HVD_NOEXCEPT;

/**
 * Sends splits[r] rows of `row_count` elements, taken in order from `input`, to each rank r.
 * Result: the rows that the others sent, by rank; as hvd_allgather().
 *
 * @param splits [hvd_size()]
 */
HVD_API hvd_status hvd_alltoall(const char* name, const void* input, const int64_t* splits,
                                size_t row_count, hvd_dtype dtype, hvd_handle* handle) HVD_NOEXCEPT;

/** As hvd_allgather(), but only rank `root` gets the rows. */
HVD_API hvd_status hvd_gather_rows(const char* name, const void* input, size_t rows,
                                   size_t row_count, hvd_dtype dtype, int root,
                                   hvd_handle* handle) HVD_NOEXCEPT;

/** Sends splits[r] rows of `row_count` elements, taken in order from `input` on `root`, to each
   rank r. Result: as hvd_allgather(). splits: [hvd_size()]; ignored, as `input` is, where not root.
 */
HVD_API hvd_status hvd_scatter_rows(const char* name, const void* input, const int64_t* splits,
                                    size_t row_count, hvd_dtype dtype, int root,
                                    hvd_handle* handle) HVD_NOEXCEPT;

/** Returns when every rank has called it. */
HVD_API hvd_status hvd_barrier(void) HVD_NOEXCEPT;

#if defined(__cplusplus)
}
#endif
