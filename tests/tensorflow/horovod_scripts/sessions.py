# SPDX-License-Identifier: Apache-2.0
"""A graph of TensorFlow 1 with hooks: what rank 0 restores of its checkpoints reaches all ranks."""

import os
import sys
import tempfile

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
v1.disable_eager_execution()
v1.logging.set_verbosity(v1.logging.ERROR)
hvd.init()
passes = int(sys.argv[1]) if len(sys.argv) > 1 else 1
op = hvd.Adasum if "--use-adasum" in sys.argv else hvd.Average
rng = np.random.RandomState(hvd.rank())


def inputs():
    labels = rng.randint(0, 3, 32)
    return (0.2 * rng.rand(32, 4) + np.eye(4)[labels]).astype("float32"), labels


def network(images, labels):
    kernel = v1.get_variable("kernel", [4, 16], initializer=v1.random_normal_initializer())
    table = v1.get_variable("table", [3, 16], initializer=v1.random_normal_initializer())
    hidden = tf.nn.relu(images @ kernel)
    scores = tf.matmul(hidden, tf.gather(table, [0, 1, 2]), transpose_b=True)
    return v1.losses.sparse_softmax_cross_entropy(labels, scores)


def train(last_step, checkpoint_dir):
    with tf.Graph().as_default():
        v1.set_random_seed(hvd.rank())
        images = v1.placeholder(tf.float32, [None, 4], name="images")
        labels = v1.placeholder(tf.int64, [None], name="labels")
        loss = network(images, labels)
        opt = v1.train.RMSPropOptimizer(0.01 * hvd.size())
        opt = hvd.DistributedOptimizer(
            opt, backward_passes_per_step=passes, op=op, sparse_as_dense=passes > 1
        )
        global_step = v1.train.get_or_create_global_step()
        train_op = opt.minimize(loss, global_step=global_step)
        hooks = [
            hvd.BroadcastGlobalVariablesHook(0),
            v1.train.StopAtStepHook(last_step=last_step),
            v1.train.LoggingTensorHook({"step": global_step, "loss": loss}, every_n_iter=10),
        ]
        config = v1.ConfigProto()
        config.gpu_options.allow_growth = True
        config.gpu_options.visible_device_list = str(hvd.local_rank())
        losses = []
        with v1.train.MonitoredTrainingSession(
            checkpoint_dir=checkpoint_dir, hooks=hooks, config=config
        ) as session:
            first_step = session.run_step_fn(
                lambda step_context: step_context.session.run(global_step)
            )
            while not session.should_stop():
                image, label = inputs()
                _, value = session.run([train_op, loss], {images: image, labels: label})
                losses.append(value)
        return first_step, losses


folder = os.path.join(tempfile.mkdtemp(), "checkpoints")
checkpoint_dir = folder if hvd.rank() == 0 else None
first_step, losses = train(40, checkpoint_dir)
assert first_step == 0 and len(losses) == 40 * passes, (first_step, len(losses))
assert np.mean(losses[-5:]) < 0.5 * np.mean(losses[:5]), losses
first_step, losses = train(45, checkpoint_dir)
assert first_step == 40 and len(losses) == 5 * passes, (first_step, len(losses))

# Operations of a graph, in a session without hooks.
with tf.Graph().as_default(), v1.Session() as session:
    weights = v1.get_variable("weights", initializer=tf.fill([3], 1.0 + hvd.rank()))
    broadcast = hvd.broadcast_global_variables(0)
    session.run(v1.global_variables_initializer())
    session.run(broadcast)
    assert session.run(weights).tolist() == [1.0] * 3
    everywhere = session.run([hvd.allgather(weights), hvd.size_op(), hvd.rank_op()])
    assert everywhere[0].tolist() == [1.0] * 3 * hvd.size()
    assert everywhere[1:] == [hvd.size(), hvd.rank()]
    pair = hvd.broadcast_object({"rank": hvd.rank()}, root_rank=0, session=session)
    assert pair == {"rank": 0}
