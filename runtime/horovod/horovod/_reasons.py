# SPDX-License-Identifier: Apache-2.0
"""Why some of Horovod's variables, options and arguments change nothing here."""

NO_CYCLE = "there is no cycle: operations start as they come"
NO_CACHE = "what ranks agreed on is kept without a limit to set"
NO_TUNING = "there is nothing to tune: batches form from what is ready"
NO_GPU = "the GPU data plane is not part of this version"
NO_XLA = "XLA compiles no operation between ranks: leave jit_compile to the parts without any"
NO_SSH = "ranks start on this machine or through Slurm, never through ssh"
NO_TIME = "messages have no time; --timestamp adds it"
TWO_LEVELS = "on several nodes reductions always have two levels"
ALL_THREADS = "libhvd calls MPI only where it was started with all threads"
LOST_AT_ONCE = "a lost rank is noticed at once, a slow one awaited"
BINDING = "hvdrun --bind places ranks with their threads"
