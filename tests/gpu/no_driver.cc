// SPDX-License-Identifier: Apache-2.0
// In place of libcuda.so.1 where something is linked with it, on machines that have none.
