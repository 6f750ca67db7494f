#!/usr/bin/python3
"""Writes fuzz/corpus/keras_json/: small models. good_* must be accepted, bad_* refused.

Standard library only; the result is committed and the same on every machine.
"""
import json
import os

here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus", "keras_json")


def put(name, data):
    os.makedirs(here, exist_ok=True)
    with open(os.path.join(here, name), "wb") as f:
        f.write(data if isinstance(data, bytes) else json.dumps(data, separators=(",", ":")).encode())


def layer(kind, name="a", **config):
    return {"class_name": kind, "config": {"name": name, **config}}


def start(*shape, name="i"):
    return {"class_name": "InputLayer", "config": {"batch_shape": [None, *shape], "name": name}}


def sequential(*layers):
    return {"class_name": "Sequential", "config": {"name": "s", "layers": list(layers)}}


def tensor(name, node=0):
    return {"class_name": "__keras_tensor__", "config": {"keras_history": [name, node, 0]}}


def called(entry, *inputs):
    args = [tensor(inputs[0])] if len(inputs) == 1 else [[tensor(name) for name in inputs]]
    return {**entry, "name": entry["config"]["name"], "inbound_nodes": [{"args": args, "kwargs": {}}]}


def functional(layers, outputs):
    return {"class_name": "Functional", "config": {"name": "f", "layers": layers, "input_layers": [["i", 0, 0]],
                                                   "output_layers": [[name, 0, 0] for name in outputs]}}


picture = start(6, 6, 3)
good = {
    "cnn": sequential(picture, layer("Conv2D", "c", filters=4, kernel_size=[3, 3], activation="relu"),
                      layer("MaxPooling2D", "p"), layer("Flatten", "f"), layer("Dense", "d", units=3, activation="softmax")),
    "mobile": sequential(picture, layer("ZeroPadding2D", "z", padding=[[0, 1], [0, 1]]),
                         layer("DepthwiseConv2D", "w", kernel_size=3, depth_multiplier=2),
                         layer("BatchNormalization", "b"), layer("ReLU", "r", max_value=6.0),
                         layer("SeparableConv2D", "s", filters=5, kernel_size=3)),
    "up": sequential(picture, layer("Conv2DTranspose", "t", filters=4, kernel_size=2, strides=2),
                     layer("UpSampling2D", "u", size=2, interpolation="bilinear"), layer("Cropping2D", "c", cropping=1)),
    "residual": functional([{**picture, "name": "i", "inbound_nodes": []},
                            called(layer("Conv2D", "c", filters=3, kernel_size=3, padding="same"), "i"),
                            called(layer("Add", "a"), "c", "i"), called(layer("Concatenate", "k", axis=-1), "a", "i"),
                            called(layer("GlobalAveragePooling2D", "g"), "k")], ["g"]),
}
bad = {
    "empty": b"",
    "unknown": sequential(picture, layer("Conv7D")),
    "huge_filters": sequential(picture, layer("Conv2D", filters=2**31 - 1, kernel_size=3)),
    "huge_kernel": sequential(picture, layer("Conv2D", filters=1, kernel_size=2**31 - 1, padding="same")),
    "huge_picture": sequential(start(2**20, 2**20, 2**20), layer("Flatten")),
    "huge_upsampling": sequential(picture, *[layer("UpSampling2D", f"u{i}", size=1024) for i in range(9)]),
    "huge_stride": sequential(picture, layer("Conv2DTranspose", filters=1, kernel_size=1, strides=2**31 - 1)),
    "huge_dense": sequential(start(2**20), layer("Dense", units=2**31 - 1)),
    "negative": sequential(picture, layer("Cropping2D", cropping=-1)),
    "cycle": functional([{**picture, "name": "i", "inbound_nodes": []}, called(layer("ReLU", "a"), "b"),
                         called(layer("ReLU", "b"), "a")], ["b"]),
    "twice": sequential(picture, layer("ReLU", "a"), layer("ReLU", "a")),
    "no_input": sequential(layer("ReLU", "a")),
    "not_connected": functional([{**picture, "name": "i", "inbound_nodes": []}], ["x"]),
}
for key, value in good.items():
    put("good_" + key, value)
for key, value in bad.items():
    put("bad_" + key, value)
