# SPDX-License-Identifier: Apache-2.0
# ruff: noqa
# fmt: off
"""IDRIS, the same page: distributed validation, as printed."""

import glob
import os

import idr_tf  # IDRIS's module
import tensorflow as tf
import horovod.tensorflow as hvd
from stand_ins import batch_size, mnist_model as model, tf_parse_eval

hvd.init()

# validation dataset loading (imagenet for example)
val_dataset = tf.data.TFRecordDataset(glob.glob(os.environ['DSDIR']+'/imagenet/validation*'))

# define distributed sharding for validation
val_dataset = val_dataset.shard(hvd.size(), hvd.rank())

# define dataloader for validation
val_dataset = val_dataset.map(tf_parse_eval, num_parallel_calls=idr_tf.cpus_per_task).batch(batch_size).prefetch(buffer_size=5)

val_loader = val_dataset  # the page has two names for it

loss = tf.losses.SparseCategoricalCrossentropy() # Define loss function

val_loss = tf.keras.metrics.Mean() # Define Keras metrics

@tf.function # Define validation step function
def eval_step(images, labels):
    logits_ = model(images, training=False) # evaluate model - switch into validation mode
    loss_value = loss(labels, logits_) # compute loss
    val_loss.update_state(loss_value, sample_weight=images.shape[0]) # cumulate weighted mean per GP

val_loss.reset_states() # initialize val_loss value

for val_images, val_labels in val_loader:
    eval_step(val_images, val_labels) # Call eval_step function

val_loss_dist = hvd.allreduce(val_loss.result()) # Average weighted means and broadcast value to each GPU
