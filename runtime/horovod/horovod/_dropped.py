# SPDX-License-Identifier: Apache-2.0
"""What scripts of Horovod's time ask for, and Keras 3 or TensorFlow 2 has dropped: taken, and told once.

Only modules under the name ``horovod`` do this, to a Keras 3 that is there; Keras 2 needs none of it.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

from hvd._core import api


class Dropped(NamedTuple):
    """A line of an old script, what is done with it, and how.

    ``adapt(tell)`` changes Keras; ``tell()`` is called where a script uses it.
    """

    line: str
    sentence: str
    adapt: Callable[[Callable[[], None]], None]


_told: set[str] = set()


def tell_once(sentence: str) -> None:
    """Prints it on rank 0, the first time."""
    if sentence in _told:
        return
    _told.add(sentence)
    if not api.is_initialized() or api.rank() == 0:
        print(f"horovod: {sentence}", file=sys.stderr)


def _compile(tell: Callable[[], None]) -> None:
    from keras.src.trainers.trainer import Trainer

    given = Trainer.compile

    @functools.wraps(given)
    def compile(self: Any, *args: Any, **kwargs: Any) -> Any:
        if "experimental_run_tf_function" in kwargs:
            del kwargs["experimental_run_tf_function"]
            tell()
        return given(self, *args, **kwargs)

    Trainer.compile = compile


def _reset_states(tell: Callable[[], None]) -> None:
    import keras

    def reset_states(self: Any) -> None:
        tell()
        self.reset_state()

    keras.metrics.Metric.reset_states = reset_states


class _CallableList(list):
    """Variables, for scripts that call them."""

    tell: Callable[[], None]

    def __call__(self) -> list:
        self.tell()
        return list(self)


def _variables(tell: Callable[[], None]) -> None:
    import keras

    kinds = [keras.optimizers.Optimizer, *keras.optimizers.Optimizer.__mro__]
    kinds.append(keras.optimizers.LossScaleOptimizer)
    for kind in dict.fromkeys(kinds):
        given = vars(kind).get("variables")
        if not isinstance(given, property):
            continue

        def variables(self: Any, given: Any = given) -> _CallableList:
            found = _CallableList(given.fget(self))
            found.tell = tell
            return found

        kind.variables = property(variables, given.fset, given.fdel, given.__doc__)


def _base_optimizer() -> type:
    from keras.src.optimizers.base_optimizer import BaseOptimizer

    return BaseOptimizer


def _lr_argument(tell: Callable[[], None]) -> None:
    base = _base_optimizer()
    given = base.__init__  # type: ignore[misc]

    @functools.wraps(given)
    def initialized(self: Any, learning_rate: Any = None, *args: Any, **kwargs: Any) -> None:
        if "lr" in kwargs:
            learning_rate = kwargs.pop("lr")
            tell()
        given(self, learning_rate, *args, **kwargs)

    base.__init__ = initialized  # type: ignore[misc]


def _lr_attribute(tell: Callable[[], None]) -> None:
    def get(self: Any) -> Any:
        tell()
        return self.learning_rate

    def put(self: Any, rate: Any) -> None:
        tell()
        self.learning_rate = rate

    _base_optimizer().lr = property(get, put)  # type: ignore[attr-defined]


def _checkpoint(tell: Callable[[], None]) -> None:
    import keras

    given = keras.callbacks.ModelCheckpoint.__init__

    @functools.wraps(given)
    def initialized(self: Any, filepath: Any, *args: Any, **kwargs: Any) -> None:
        try:
            given(self, filepath, *args, **kwargs)
        except ValueError:
            name = str(filepath)
            if not name.endswith(".h5"):
                raise
            ending = ".weights.h5" if "weights" in str(sys.exc_info()[1]) else ".keras"
            given(self, name[: -len(".h5")] + ending, *args, **kwargs)
            tell()

    keras.callbacks.ModelCheckpoint.__init__ = initialized


def _set_session(tell: Callable[[], None]) -> None:
    import keras

    def set_session(session: Any) -> None:
        tell()

    for backend in (keras.backend, _tensorflow().keras.backend):
        if not hasattr(backend, "set_session"):
            backend.set_session = set_session


def _config(tell: Callable[[], None]) -> None:
    tensorflow = _tensorflow()

    def made(*args: Any, **kwargs: Any) -> Any:
        tell()
        return tensorflow.compat.v1.ConfigProto(*args, **kwargs)

    if not hasattr(tensorflow, "ConfigProto"):
        tensorflow.ConfigProto = made


def _session(tell: Callable[[], None]) -> None:
    tensorflow = _tensorflow()

    def made(target: str = "", graph: Any = None, config: Any = None) -> Any:
        tell()
        if config is not None and tensorflow.executing_eagerly():
            config = _gpus_chosen(tensorflow, config)
        return tensorflow.compat.v1.Session(target, graph, config)

    if not hasattr(tensorflow, "Session"):
        tensorflow.Session = made


def _gpus_chosen(tensorflow: Any, config: Any) -> Any:
    """Gives the process the GPUs of the session's config; returns the config without them."""
    options = config.gpu_options
    gpus = tensorflow.config.list_physical_devices("GPU")
    if gpus and options.visible_device_list:
        gpus = [gpus[int(number)] for number in options.visible_device_list.split(",")]
        tensorflow.config.set_visible_devices(gpus, "GPU")
    for gpu in gpus if options.allow_growth else ():
        tensorflow.config.experimental.set_memory_growth(gpu, True)
    rest = type(config)()
    rest.CopyFrom(config)
    rest.gpu_options.visible_device_list = ""
    return rest


def _tensorflow() -> Any:
    return sys.modules["tensorflow"]


KERAS = (
    Dropped(
        "model.compile(..., experimental_run_tf_function=False)",
        "Keras 3 has no experimental_run_tf_function in compile(): ignored",
        _compile,
    ),
    Dropped(
        "metric.reset_states()",
        "Keras 3 has no reset_states(): reset_state() is called",
        _reset_states,
    ),
    Dropped(
        "optimizer.variables()",
        "Keras 3 has no optimizer.variables(): it is the list optimizer.variables",
        _variables,
    ),
    Dropped(
        "Adadelta(lr=1.0)",
        "Keras 3 has no argument lr of optimizers: it is learning_rate",
        _lr_argument,
    ),
    Dropped(
        "optimizer.lr",
        "Keras 3 has no optimizer.lr: it is optimizer.learning_rate",
        _lr_attribute,
    ),
    Dropped(
        'ModelCheckpoint("w-{epoch}.h5", save_weights_only=True)',
        "Keras 3 has no checkpoints of this name: one that ends in .h5 gets .weights.h5 of weights, .keras of a model",
        _checkpoint,
    ),
)
TENSORFLOW = (
    Dropped(
        "keras.backend.set_session(session)",
        "Keras 3 has no sessions: set_session() is ignored",
        _set_session,
    ),
    Dropped(
        "tf.ConfigProto()",
        "TensorFlow 2 has no tf.ConfigProto: it is tf.compat.v1.ConfigProto",
        _config,
    ),
    Dropped(
        "tf.Session(config=config)",
        "TensorFlow 2 has no tf.Session: it is tf.compat.v1.Session, and the process gets the GPUs of its config",
        _session,
    ),
)
_adapted: set[str] = set()


def adapt() -> None:
    """Does so with the Keras 3 of this process, and its TensorFlow, once."""
    tables = (KERAS, TENSORFLOW) if "tensorflow" in sys.modules else (KERAS,)
    for one in (one for table in tables for one in table):
        if one.line not in _adapted:
            _adapted.add(one.line)
            one.adapt(functools.partial(tell_once, one.sentence))


def adapt_tensorflow_keras() -> None:
    """The same where ``tf.keras`` is Keras 3."""
    from hvd._core.frameworks import keras_package

    if keras_package() == "keras":
        adapt()


def late_names(module: ModuleType) -> Callable[[str], Any]:
    """The ``__getattr__`` of a package: names that pages print, and Horovod spells otherwise."""

    def find(name: str) -> Any:
        if name != "AdaSum":
            raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
        tell_once("Horovod has no AdaSum: it is Adasum")
        return module.Adasum

    return find
