/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What libhvd asks of MPI: one plugin per MPI ABI implements it, against that ABI's headers. No MPI
 * is linked: the functions are taken from a library that is in the process already, or was opened
 * for it. Codes are those of MPI: 0 is success, text by error_text. Not thread-safe: libhvd calls
 * under one lock; MPI itself must have MPI_THREAD_MULTIPLE, since the program may call it too. */

#define HVD_MPI_PLUGIN_VERSION 2
#define HVD_MPI_INTERCOMMUNICATOR (-1)
#define HVD_MPI_PLUGIN_SYMBOL "hvd_mpi_plugin_table"

typedef struct hvd_mpi hvd_mpi;                 /* a bound MPI library */
typedef struct hvd_mpi_channel hvd_mpi_channel; /* operations under way, by slot */

typedef struct hvd_mpi_state {
  int initialized;
  int finalized;
  int is_thread_multiple;
  int size; /* of MPI_COMM_WORLD; 0 unless initialised and not finalised */
  int rank;
  char thread_level[32]; /* "MPI_THREAD_FUNNELED" */
  char library[64];      /* "Open MPI v4.1.4" */
} hvd_mpi_state;

typedef struct hvd_mpi_done {
  int slot;
  int bytes; /* received; of no meaning for a send */
} hvd_mpi_done;

typedef struct hvd_mpi_plugin {
  int version;
  const char* abi;     /* "Open MPI", "MPICH" */
  size_t handle_bytes; /* sizeof(MPI_Comm): a pointer in one ABI, an int in the other */

  /* Takes the functions from `library` (of dlopen, or RTLD_DEFAULT). Null: *missing is not there.
   */
  hvd_mpi* (*bind)(void* library, const char** missing);
  void (*unbind)(hvd_mpi* mpi);
  int (*state)(hvd_mpi* mpi, hvd_mpi_state* state);
  int (*error_text)(hvd_mpi* mpi, int code, char* text, int size);

  /* MPI_Init_thread with MPI_THREAD_MULTIPLE; collective. */
  int (*init)(hvd_mpi* mpi);
  int (*finalize)(hvd_mpi* mpi);
  /* MPI_Finalized: true, 1, once MPI has ended; quick, and allowed at any time. */
  int (*is_finalized)(hvd_mpi* mpi);

  /* A communicator of our own like MPI_COMM_WORLD, then one int of each rank: begun, and tested
   * until *done. Collective. `all` has room for the world and stays valid until then. */
  int (*begin_duplicate)(hvd_mpi* mpi);
  int (*begin_allgather)(hvd_mpi* mpi, int mine, int* all);
  int (*test)(hvd_mpi* mpi, int* done);
  int (*free_duplicate)(hvd_mpi* mpi);

  /* Messages over that communicator. A slot holds one operation at a time. */
  hvd_mpi_channel* (*open_channel)(hvd_mpi* mpi, int slots);
  void (*close_channel)(hvd_mpi_channel* channel);
  int (*send)(hvd_mpi_channel* channel, int slot, const void* bytes, int count, int rank, int tag);
  int (*receive)(hvd_mpi_channel* channel, int slot, void* bytes, int count, int rank, int tag);
  /* What has completed since; `done` has room for all slots. */
  int (*poll)(hvd_mpi_channel* channel, hvd_mpi_done* done, int* count);
  /* Asks for the end of a receive, which poll() then reports. */
  int (*cancel)(hvd_mpi_channel* channel, int slot);

  /* Ranks in MPI_COMM_WORLD of the members of the communicator whose handle lies at `handle`, in
   * their order: the first `room` of them, and how many there are. A member outside that world has
   * a negative rank. *size is 0 for MPI_COMM_NULL and HVD_MPI_INTERCOMMUNICATOR for one of those.
   */
  int (*members)(hvd_mpi* mpi, const void* handle, int* ranks, int room, int* size);
} hvd_mpi_plugin;

/* The plugin's one exported symbol is a function of this type. */
typedef const hvd_mpi_plugin* (*hvd_mpi_plugin_function)(void);

#ifdef __cplusplus
}
#endif
