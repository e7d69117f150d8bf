# SPDX-License-Identifier: Apache-2.0
# ruff: noqa
# fmt: off
"""Adaltas, "Avoid Bottlenecks in distributed Deep Learning pipelines with Horovod", as printed."""

import horovod.keras as hvd

hvd.init()  # the page leaves it out

import horovod as hvd
import tensorflow as tf
from keras import backend as K

config = tf.ConfigProto()
config.gpu_options.allow_growth = True
config.gpu_options.visible_device_list = str(hvd.local_rank())
K.set_session(tf.Session(config=config))

import horovod as hvd
import keras

opt = keras.optimizers.Adadelta(1.0 * hvd.size())
opt = hvd.DistributedOptimizer(opt)

callback = (
hvd.callbacks.BroadcastGlobalVariablesCallback(0)
)

# The page trains nothing: this does.
from stand_ins import digits, network

model = network(keras)
model.compile(opt, "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(digits(hvd.rank()), steps_per_epoch=20, epochs=2, callbacks=[callback], verbose=0)
