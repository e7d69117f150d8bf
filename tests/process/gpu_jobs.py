# SPDX-License-Identifier: Apache-2.0
"""Jobs whose ranks have tensors on GPUs of the doubles of the driver and of NCCL.

Usage of the tests: SOMETHING_test.py HVDRUN LIBHVD CUDA_DOUBLE NCCL_DOUBLE [unittest arguments]
"""

from __future__ import annotations

import os
import socket
import sys
import unittest

import jobs

HOST = os.uname().nodename
LAYOUTS = ([], ["--nodes", "3"])

# Tensors in GPU memory, which is memory of the host with the double of the driver.
GPUS = """
driver = ctypes.CDLL(os.environ["HVD_CUDA_LIBRARY"])


def called(code):
    assert code == 0, f"the driver gives {code}"


class Gpu:
    def __init__(self, number):
        self.number = number
        context = ctypes.c_void_p()
        called(driver.cuInit(0))
        called(driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), number))
        called(driver.cuCtxSetCurrent(context))
        self.stream = ctypes.c_void_p()
        called(driver.cuStreamCreate(ctypes.byref(self.stream), 1))

    def tensor(self, values):
        memory = ctypes.c_uint64()
        called(driver.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(4 * len(values))))
        tensor = (ctypes.c_float * len(values)).from_address(memory.value)
        tensor[:] = values
        return tensor


class GpuSum:
    def __init__(self, gpu, name, tensor, stream=None):
        address = ctypes.addressof(tensor)
        given = api.tensor_struct(FLOAT32, (len(tensor),), source=address, target=address)
        place = (_lib.CUDA, gpu.number, (stream or gpu.stream).value)
        self.tensor = tensor
        self.handle = api.submit(Work(_lib.ALLREDUCE, name), [given], place=place)

    def wait(self):
        try:
            api.wait(self.handle)
        finally:
            api.release(self.handle)


def gpu_sum(gpu, name, value=1.0, count=1000):
    tensor = gpu.tensor([value] * count)
    GpuSum(gpu, name, tensor).wait()
    assert tensor[0] == tensor[count - 1], "the ends differ"
    return tensor[0]


def refused(call):
    try:
        call()
    except (hvd.HvdError, ValueError) as failure:
        say("REFUSED", type(failure).__name__, str(failure).replace("\\n", " "))
    else:
        say("REFUSED by nobody")


RANK = int(os.environ["HVD_RANK"])
"""


def free_port() -> int:
    """A port of localhost that nobody listens at."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


class GpuJobCase(jobs.JobCase):
    """A job whose node has three GPUs."""

    def run_gpus(self, options: list[str], program: str, ranks: int = 3, **more: str) -> jobs.Ended:
        environment = {
            "HVD_CUDA_LIBRARY": sys.argv[3],
            "HVD_NCCL_LIBRARY": sys.argv[4],
            "HVD_DOUBLE_GPUS": "3",
        }
        environment.update(more)
        return self.run_job(["-np", str(ranks), *options], GPUS + program, **environment)

    def assert_all_fine(self, ended: jobs.Ended, ranks: int = 3) -> None:
        self.assertEqual(ended.code, 0, ended.text())
        for rank in range(ranks):
            self.assertEqual(ended.line(rank, "FINE"), "", ended.text())

    def assert_refused(self, ended: jobs.Ended, what: str, ranks: range = range(3)) -> None:
        for rank in ranks:
            self.assertRegex(ended.line(rank, "REFUSED"), what, ended.text())


def main() -> None:
    """unittest without the first four arguments."""
    unittest.main(argv=[sys.argv[0], *sys.argv[5:]], verbosity=2)
