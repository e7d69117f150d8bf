# SPDX-License-Identifier: Apache-2.0
"""The ``torch.distributed`` backend "hvd": scripts of DDP and FSDP on the CPU plane of this library.

Two lines of such a script change::

    import hvd.torch.distributed
    torch.distributed.init_process_group("hvd", init_method="hvd://")

``init_method="hvd://"`` asks the launcher who and where this process is (``hvdrun -np 4 python
train.py``). Where the script is given rank and world size in another way, as by torchrun, it may
keep that way.
"""

from hvd.torch.distributed import errors as _errors  # noqa: F401 (for hvd.elastic)
from hvd.torch.distributed.hooks import average_hook
from hvd.torch.distributed.process_group import register

register()

__all__ = ["average_hook", "register"]
