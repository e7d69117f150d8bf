# SPDX-License-Identifier: Apache-2.0
"""The names under which Keras stores classes in files."""

from __future__ import annotations


def store_as(kind: type, given: type) -> None:
    """Objects of the class `kind` are stored in files as those of the class `given`.

    So a model that was trained with an optimizer of ours loads where there is no hvd.
    """
    from keras.src import api_export
    from keras.src.saving import object_registration

    public = api_export.get_name_from_symbol(given)
    if public is not None:
        api_export.REGISTERED_OBJS_TO_NAMES[kind] = public
    custom = object_registration.GLOBAL_CUSTOM_NAMES.get(given)
    if custom is not None:
        object_registration.GLOBAL_CUSTOM_NAMES[kind] = custom
