# SPDX-License-Identifier: Apache-2.0
"""What a type checker, and so an editor, knows of an optimizer that is wrapped: class and methods.

Python has no type for "the class that was given, and more". The optimizers of torch that are used
most have one written out; of any other the class stays, without what is added.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from typing import Any, Protocol, TypeVar, overload

    from torch.optim import SGD, Adagrad, Adam, AdamW, Optimizer, RMSprop
    from typing_extensions import Concatenate, ParamSpec

    Arguments = ParamSpec("Arguments")
    Given = TypeVar("Given", bound=Optimizer)

    class Added:
        """Methods of a distributed optimizer that the given one has not."""

        def synchronize(self) -> None: ...
        def skip_synchronize(self) -> AbstractContextManager[None]: ...
        def set_backward_passes_per_step(self, passes: int) -> None: ...
        def save_compression(self) -> bytes: ...
        def load_compression(self, state: bytes) -> None: ...

    class DistributedSGD(SGD, Added): ...

    class DistributedAdam(Adam, Added): ...

    class DistributedAdamW(AdamW, Added): ...

    class DistributedAdagrad(Adagrad, Added): ...

    class DistributedRMSprop(RMSprop, Added): ...

    class Distributing(Protocol[Arguments]):
        """A function that makes an optimizer distributed."""

        @overload
        def __call__(
            self, optimizer: SGD, *args: Arguments.args, **kwargs: Arguments.kwargs
        ) -> DistributedSGD: ...
        @overload
        def __call__(
            self, optimizer: AdamW, *args: Arguments.args, **kwargs: Arguments.kwargs
        ) -> DistributedAdamW: ...
        @overload
        def __call__(
            self, optimizer: Adam, *args: Arguments.args, **kwargs: Arguments.kwargs
        ) -> DistributedAdam: ...
        @overload
        def __call__(
            self, optimizer: Adagrad, *args: Arguments.args, **kwargs: Arguments.kwargs
        ) -> DistributedAdagrad: ...
        @overload
        def __call__(
            self, optimizer: RMSprop, *args: Arguments.args, **kwargs: Arguments.kwargs
        ) -> DistributedRMSprop: ...
        @overload
        def __call__(
            self, optimizer: Given, *args: Arguments.args, **kwargs: Arguments.kwargs
        ) -> Given: ...

    def keeps_class(
        function: Callable[Concatenate[Optimizer, Arguments], Any],
    ) -> Distributing[Arguments]: ...

else:

    def keeps_class(function):
        """Says so to type checkers; the function stays what it is."""
        return function
