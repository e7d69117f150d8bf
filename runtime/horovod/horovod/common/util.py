# SPDX-License-Identifier: Apache-2.0
"""Small functions that scripts import from Horovod: what is built, versions, lists."""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import os
import re
import sysconfig
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from hvd._core.frameworks import check_framework

# Frameworks that have a binding here, `horovod.<name>`.
FRAMEWORKS = ("torch", "tensorflow", "keras")


def get_ext_suffix() -> str:
    """How files of compiled modules end.

    >>> get_ext_suffix().endswith(".so")
    True
    """
    return sysconfig.get_config_var("EXT_SUFFIX") or ".so"


def get_extension_full_path(pkg_path: str, *args: str) -> str:
    """Where Horovod would have a compiled module; there is none here.

    >>> get_extension_full_path("/a/b.py", "c").startswith("/a/c.")
    True
    """
    folder = os.path.dirname(os.path.abspath(pkg_path))
    return os.path.join(folder, *args) + get_ext_suffix()


def check_extension(ext_name: str, ext_env_var: str, pkg_path: str, *args: str) -> None:
    """Raises ImportError when a binding (``horovod.torch``) or its framework is not there.

    >>> check_extension("horovod.numpy", "HOROVOD_WITH_NUMPY", __file__)
    Traceback (most recent call last):
    ImportError: horovod.numpy is not part of this version of hvd, which serves torch, \
tensorflow, keras; HOROVOD_WITH_NUMPY changes nothing, for nothing is compiled
    """
    framework = ext_name.rpartition(".")[2]
    if framework not in FRAMEWORKS:
        raise ImportError(
            f"{ext_name} is not part of this version of hvd, which serves "
            f"{', '.join(FRAMEWORKS)}; {ext_env_var} changes nothing, for nothing is compiled"
        )
    check_framework(ext_name, framework)


def extension_available(ext_base_name: str, verbose: bool = False) -> bool:
    """True when a framework ("torch") has a binding here and is installed.

    >>> extension_available("mxnet")
    False
    """
    there = ext_base_name in FRAMEWORKS and importlib.util.find_spec(ext_base_name) is not None
    if verbose:
        print(f"{ext_base_name}: {'there' if there else 'not there'}")
    return there


@functools.cache
def gpu_available(ext_base_name: str, verbose: bool = False) -> bool:
    """True when the framework sees a GPU."""
    if not extension_available(ext_base_name, verbose):
        return False
    framework = importlib.import_module(ext_base_name)
    if ext_base_name == "torch":
        return framework.cuda.is_available()
    if ext_base_name == "tensorflow":
        return bool(framework.config.list_physical_devices("GPU"))
    return gpu_available(framework.backend.backend())


def _ask(question: str, verbose: bool) -> Any:
    from horovod.common.basics import HorovodBasics

    answer = getattr(HorovodBasics(__file__), question)()
    if verbose:
        print(f"{question}: {answer}")
    return answer


@functools.cache
def mpi_built(verbose: bool = False) -> bool:
    """True when libhvd has a plugin for MPI."""
    return _ask("mpi_built", verbose)


@functools.cache
def gloo_built(verbose: bool = False) -> bool:
    """True: jobs without MPI are always possible."""
    return _ask("gloo_built", verbose)


@functools.cache
def nccl_built(verbose: bool = False) -> int:
    """22809 for NCCL 2.28.9; 0 where libhvd was built without its part for GPUs."""
    return _ask("nccl_built", verbose)


@functools.cache
def ddl_built(verbose: bool = False) -> bool:
    """False: there is no DDL."""
    return _ask("ddl_built", verbose)


@functools.cache
def ccl_built(verbose: bool = False) -> bool:
    """False: there is no oneCCL."""
    return _ask("ccl_built", verbose)


@contextlib.contextmanager
def env(**kwargs: str | None) -> Iterator[None]:
    """Within, these variables are set; None unsets one.

    >>> with env(HVD_EXAMPLE="1"):
    ...     os.environ["HVD_EXAMPLE"]
    '1'
    """
    before = {name: os.environ.get(name) for name in kwargs}
    try:
        _set(kwargs)
        yield
    finally:
        _set(before)


def _set(variables: dict[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def get_average_backwards_compatibility_fun(reduce_ops: Any) -> Callable[..., int]:
    """A function of `op` and `average` that says which reduction they mean.

    Parameters
    ----------
    reduce_ops
        What has ``Average`` and ``Sum``, such as ``horovod.torch``.
    """

    def chosen(op: int | None, average: bool | None) -> int:
        if op is None and average is None:
            return reduce_ops.Average
        if op is None:
            warnings.warn(
                "Parameter `average` is deprecated. Use `op` instead.",
                DeprecationWarning,
                stacklevel=3,
            )
            return reduce_ops.Average if average else reduce_ops.Sum
        if average is None:
            return op
        raise ValueError("The op parameter supersedes average. Please provide only one of them.")

    return chosen


def num_rank_is_power_2(num_rank: int) -> bool:
    """True for 1, 2, 4, 8, ...; Adasum works for any number here.

    >>> [number for number in range(9) if num_rank_is_power_2(number)]
    [1, 2, 4, 8]
    """
    return num_rank > 0 and num_rank & (num_rank - 1) == 0


def split_list(l: Sequence[Any], n: int) -> list[Sequence[Any]]:  # noqa: E741 (Horovod's name)
    """The list in `n` parts, of which the first are one longer where it does not divide.

    >>> split_list([1, 2, 3, 4, 5], 2)
    [[1, 2, 3], [4, 5]]
    """
    least, longer = divmod(len(l), n)
    begins = [part * least + min(part, longer) for part in range(n + 1)]
    return [l[begin:end] for begin, end in zip(begins, begins[1:])]


def check_installed_version(name: str, version: str, exception: Exception | None = None) -> None:
    """Does nothing: hvd is compiled against no framework, and so any version of one fits.

    >>> check_installed_version("torch", "1.13.0")
    """


def is_iterable(x: Any) -> bool:
    """True when a loop can go over it.

    >>> is_iterable([]), is_iterable(1)
    (True, False)
    """
    return isinstance(x, Iterable) or hasattr(x, "__getitem__")


@functools.cache
def is_version_greater_equal_than(ver: str, target: str) -> bool:
    """Whether version `ver` is at least `target`, of the form "1.2.3".

    >>> is_version_greater_equal_than("2.15.0+cpu", "2.4.0")
    True
    """
    if not isinstance(target, str) or not re.fullmatch(r"\d+\.\d+\.\d+", target):
        raise ValueError(f"the version to compare with is {target!r}; write it as '1.2.3'")
    return _release(ver) >= _release(target)


def _release(version: str) -> tuple[int, ...]:
    numbers = re.match(r"\d+(\.\d+)*", version)
    if numbers is None:
        raise ValueError(f"{version!r} is not a version")
    found = [int(number) for number in numbers.group().split(".")]
    return tuple(found + [0] * (3 - len(found)))
