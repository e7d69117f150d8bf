# SPDX-License-Identifier: Apache-2.0
"""Where the tensors of GPU tests are: on a GPU, or in CPU memory that passes for one.

With HVD_CUDA_LIBRARY naming the double of the driver, "device" memory is host memory: then this
tells hvd.torch that tensors of the CPU are on GPU 0, 1, ... of the rank. The double's streams run on
threads of their own, and torch on the CPU waits for no stream: so what waits in a stream's order also
waits for it to be empty. A torch that brings a real NCCL keeps its double out: then all goes through host memory.
Otherwise a real GPU is used; exit code 77 where none is.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import ranks
import torch

from hvd._core import _lib, api
from hvd._core.gradients import Gradients
from hvd.torch import devices

IS_DOUBLE = ranks.ON_DOUBLE
_WAITS = (api.wait_stream, Gradients.wait_stream)  # as users have them
LOCAL_RANK = int(os.environ.get("HVD_LOCAL_DEVICE", os.environ.get("LOCAL_RANK", "0")))
NUMBER = LOCAL_RANK if os.environ.get("HVD_SHARE_GPU") != "1" else 0  # of this rank's GPU


class HostAsGpu(devices.TorchGpus):
    """CPU memory is that of a GPU, except for tensors in `host`."""

    def __init__(self, number: int) -> None:
        self.kind = _lib.CUDA
        self.number = number
        self.current = 0  # the stream
        self.host: dict[int, torch.Tensor] = {}  # by address; kept, so that none comes again

    def index(self, tensor: torch.Tensor) -> int:
        return -1 if tensor.data_ptr() in self.host else self.number

    def stays(self, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor, which is in CPU memory."""
        self.host[tensor.data_ptr()] = tensor
        return tensor

    def stream(self, index: int) -> int:
        return self.current

    def keep(self, tensor: torch.Tensor) -> None:
        raise AssertionError("there is one stream")

    def copy(self, target: torch.Tensor, address: int) -> None:
        _lib.copy_bytes(target.data_ptr(), address, target.numel() * target.element_size())


class Driver:
    """The double of the driver, with a GPU current where ``with`` has it."""

    def __init__(self, number: int) -> None:
        self._library = ctypes.CDLL(os.environ["HVD_CUDA_LIBRARY"])
        self._number = number
        self._context = ctypes.c_void_p()

    def __enter__(self) -> Driver:
        if not self._context:
            self.call("cuInit", 0)
            self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self._context), self._number)
        self.call("cuCtxPushCurrent_v2", self._context)
        return self

    def __exit__(self, *_: object) -> None:
        self.call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))

    def call(self, name: str, *arguments: Any) -> None:
        if code := getattr(self._library, name)(*arguments):
            raise AssertionError(f"{name} of the double of the driver: code {code}")

    def tell(self, name: str, *arguments: Any) -> None:
        """Calls what gives no code."""
        getattr(self._library, name)(*arguments)


@contextlib.contextmanager
def captured_graph() -> Iterator[None]:
    """Within it the current stream is captured into a graph, and nobody spoils that."""
    if not IS_DOUBLE:
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            yield
        return
    gpus, stream, graph = devices.gpus, ctypes.c_void_p(), ctypes.c_void_p()
    with Driver(NUMBER) as driver:
        driver.call("cuStreamCreate", ctypes.byref(stream), 1)  # as torch's: non-blocking
        driver.call("cuStreamBeginCapture_v2", stream, 0)  # as torch.cuda.graph: global
        gpus.current = stream.value  # type: ignore[attr-defined]
        try:
            yield
        finally:
            gpus.current = 0  # type: ignore[attr-defined]
        driver.call("cuStreamEndCapture", stream, ctypes.byref(graph))
        driver.call("cuGraphDestroy", graph)
        driver.call("cuStreamDestroy_v2", stream)


@contextlib.contextmanager
def idle_stream() -> Iterator[Callable[[], None]]:
    """Of the double: within it the current stream does nothing before this function is called.

    Waits are those of users: nothing waits for the device that they do not wait for.
    """
    gpus, stream = devices.gpus, ctypes.c_void_p()
    ours = (api.wait_stream, Gradients.wait_stream)
    with Driver(NUMBER) as driver:
        driver.call("cuStreamCreate", ctypes.byref(stream), 1)
        driver.tell("double_hang", stream)
        gpus.current = stream.value  # type: ignore[attr-defined]
        api.wait_stream, Gradients.wait_stream = _WAITS  # type: ignore[method-assign]
        try:
            yield lambda: driver.tell("double_release")
        finally:
            api.wait_stream, Gradients.wait_stream = ours  # type: ignore[method-assign]
            gpus.current = 0  # type: ignore[attr-defined]
            driver.tell("double_release")
            driver.call("cuStreamSynchronize", stream)
            driver.call("cuStreamDestroy_v2", stream)


@contextlib.contextmanager
def another_stream() -> Iterator[None]:
    """Within it another stream is the current one."""
    if not IS_DOUBLE:
        with torch.cuda.stream(torch.cuda.Stream()):
            yield
        return
    gpus: Any = devices.gpus
    before, gpus.current = gpus.current, 0
    try:
        yield
    finally:
        gpus.current = before


_side: list[Any] = []


@contextlib.contextmanager
def side_stream(is_used: bool) -> Iterator[None]:
    """Within it a second stream of torch is the current one, behind what the first has; behind it
    the first waits for the second. Nothing of that where it is not used, or on the double."""
    if IS_DOUBLE or not is_used:
        yield
        return
    if not _side:
        _side.append(torch.cuda.Stream())
    main = torch.cuda.current_stream()
    _side[0].wait_stream(main)
    with torch.cuda.stream(_side[0]):
        yield
    main.wait_stream(_side[0])


def _empty_streams_after_waits(number: int) -> None:
    driver = Driver(number)
    wait_stream, wait_for_gradients = api.wait_stream, Gradients.wait_stream

    def finish() -> None:
        with driver:
            driver.call("cuStreamSynchronize", None)

    def wait_and_finish(*arguments: Any) -> None:
        wait_stream(*arguments)
        finish()

    def wait_for_gradients_and_finish(*arguments: Any) -> None:
        wait_for_gradients(*arguments)
        finish()

    api.wait_stream = wait_and_finish
    Gradients.wait_stream = wait_for_gradients_and_finish  # type: ignore[method-assign]


def own_device() -> torch.device:
    """The device of this rank; to be called before ``hvd.init()``."""
    if IS_DOUBLE:
        if torch.version.cuda or torch.version.hip:
            os.environ["HVD_BACKEND"] = "staged"
        devices.gpus = HostAsGpu(NUMBER)
        _empty_streams_after_waits(NUMBER)
        return torch.device("cpu")
    if not torch.cuda.is_available():
        print("skipped: torch finds no GPU here")
        sys.exit(77)
    device = torch.device("cuda", NUMBER % torch.cuda.device_count())
    torch.cuda.set_device(device)
    return device
