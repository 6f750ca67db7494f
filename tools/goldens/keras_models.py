# SPDX-License-Identifier: Apache-2.0
"""Random small models as Keras 3's model.to_json() writes them, and their training by torch."""
import re

import torch

import keras_layers
import keras_optimizers
import keras_scores

FILTERS = [2, 3, 5, 8, 9, 16]
PICTURE_ACTIVATIONS = ["linear", "relu", "relu6", "leaky_relu", "elu", "selu", "gelu", "silu", "tanh", "sigmoid", "softplus",
                       "softsign", "mish", "hard_silu"]


def glorot():
    return {"module": "keras.initializers", "class_name": "GlorotUniform", "config": {"seed": None}, "registered_name": None}


def zeros(name="Zeros"):
    return {"module": "keras.initializers", "class_name": name, "config": {}, "registered_name": None}


def policy():
    return {"module": "keras", "class_name": "DTypePolicy", "config": {"name": "float32"}, "registered_name": None}


def regularizers(*names):
    return {f"{name}_regularizer": None for name in names} | {f"{name}_constraint": None for name in names}


NORM = {"epsilon": 0.001, "center": True, "scale": True, "beta_initializer": zeros(), "gamma_initializer": zeros("Ones"),
        **regularizers("beta", "gamma")}
CONV = {"strides": [1, 1], "padding": "valid", "data_format": "channels_last", "dilation_rate": [1, 1],
        "activation": "linear", "use_bias": True, "bias_initializer": zeros(), "activity_regularizer": None}
POOL = {"padding": "valid", "data_format": "channels_last"}

# What Keras writes beside what a model asks for.
FULL = {
    "Conv2D": {**CONV, "groups": 1, "kernel_initializer": glorot(), **regularizers("kernel", "bias")},
    "DepthwiseConv2D": {**CONV, "depth_multiplier": 1, "depthwise_initializer": glorot(), **regularizers("depthwise", "bias")},
    "SeparableConv2D": {**CONV, "depth_multiplier": 1, "depthwise_initializer": glorot(), "pointwise_initializer": glorot(),
                        **regularizers("depthwise", "pointwise", "bias")},
    "Conv2DTranspose": {**CONV, "kernel_initializer": glorot(), **regularizers("kernel", "bias")},
    "Dense": {"activation": "linear", "use_bias": True, "kernel_initializer": glorot(), "bias_initializer": zeros(),
              "activity_regularizer": None, **regularizers("kernel", "bias")},
    "BatchNormalization": {"axis": -1, "momentum": 0.99, "moving_mean_initializer": zeros(),
                           "moving_variance_initializer": zeros("Ones"), "synchronized": False, **NORM},
    "LayerNormalization": {"axis": -1, "rms_scaling": False, **NORM},
    "GroupNormalization": {"groups": 32, "axis": -1, **NORM},
    "MaxPooling2D": POOL, "AveragePooling2D": POOL,
    "GlobalAveragePooling2D": {"data_format": "channels_last", "keepdims": False},
    "GlobalMaxPooling2D": {"data_format": "channels_last", "keepdims": False},
    "Flatten": {"data_format": "channels_last"},
    "UpSampling2D": {"data_format": "channels_last", "interpolation": "nearest"},
    "ZeroPadding2D": {"data_format": "channels_last"},
    "Cropping2D": {"data_format": "channels_last"},
    "PReLU": {"alpha_initializer": zeros(), "shared_axes": None, **regularizers("alpha")},
    "ReLU": {"max_value": None, "negative_slope": 0.0, "threshold": 0.0},
    "Dropout": {"seed": None, "noise_shape": None},
    "SpatialDropout2D": {"seed": None, "data_format": "channels_last"},
    "GaussianNoise": {"seed": None},
}


class Node:
    """A layer and its calls: each call is a list of (node, index of its call)."""

    def __init__(self, name, class_name, config):
        self.name, self.class_name, self.config, self.calls, self.shapes = name, class_name, config, [], []
        self.trainable = True


class RandomModel:
    def __init__(self, rng):
        self.rng, self.nodes, self.counts, self.branched = rng, [], {}, False
        self.weights = {}  # "layer/name" -> tensor
        shape = [rng.randint(6, 13), rng.randint(6, 13), rng.choice([1, 2, 3, 4, 8])]
        self.input_shape = shape
        source = Node("input_layer", "InputLayer", {"batch_shape": [None, *shape], "dtype": "float32", "sparse": False,
                                                    "ragged": False, "name": "input_layer"})
        source.shapes.append(shape)
        self.nodes.append(source)
        self.head = (source, 0)

    # ---- building

    def apply(self, class_name, config, inputs=None, node=None):
        """Adds a layer (or one more call of `node`) behind the inputs; the result becomes the head."""
        inputs = inputs or [self.head]
        shapes = [source.shapes[index] for source, index in inputs]
        if node is None:
            stem = re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", class_name)).lower()
            stem = stem.replace("conv2_d", "conv2d").replace("pooling2_d", "pooling2d")
            count = self.counts.get(stem, 0)
            self.counts[stem] = count + 1
            node = Node(f"{stem}_{count}" if count else stem, class_name, config)
            node.trainable = self.rng.random() < 0.95
            for name, shape in keras_layers.weights_of(class_name, config, shapes).items():
                self.weights[f"{node.name}/{name}"] = self.initial(name, shape)
            self.nodes.append(node)
        weights = self.weights_of(node)
        x = [torch.zeros(2, *shape, dtype=torch.float64) for shape in shapes]
        out = keras_layers.call(class_name, config, x, weights, keras_layers.Mode(False))
        node.calls.append(inputs)
        node.shapes.append(list(out.shape[1:]))
        if node.class_name == "InputLayer" or min(out.shape[1:]) < 1:
            raise ValueError("empty picture")
        self.head = (node, len(node.calls) - 1)
        return self.head

    def initial(self, name, shape):
        # Rounded to float32: both sides start from the same numbers.
        values = torch.tensor([self.rng.uniform(-1, 1) for _ in range(int(torch.tensor(shape).prod()))]).float().double()
        values = values.reshape(shape)
        if name in ("gamma", "moving_variance", "variance"):
            return (values * 0.25 + 1).float().double()
        if name in ("beta", "bias", "moving_mean", "alpha", "mean"):
            return (values * 0.2).float().double()
        fan = max(1, int(values.numel() / shape[-1])) if "depthwise" not in name else shape[0] * shape[1]
        return (values * (1.7 / fan ** 0.5)).float().double()

    def weights_of(self, node):
        stem = node.name + "/"
        return {name[len(stem):]: value for name, value in self.weights.items() if name.startswith(stem)}

    @property
    def shape(self):
        return self.head[0].shapes[self.head[1]]

    def grow(self):
        rng = self.rng
        for _ in range(rng.randint(2, 7)):
            before = (list(self.nodes), dict(self.weights), self.head, dict(self.counts))
            calls = [len(node.calls) for node in self.nodes]
            try:
                self.branch() if rng.random() < 0.25 else self.picture_layer()
            except (ValueError, RuntimeError):  # the picture got too small
                self.nodes, self.weights, self.head, self.counts = before
                for node, count in zip(self.nodes, calls):
                    del node.calls[count:], node.shapes[count if node.class_name != "InputLayer" else 1:]

    def regularizer(self):
        if self.rng.random() < 0.85:
            return None
        kind = self.rng.choice(["L1", "L2", "L1L2"])
        config = {"L1": {"l1": 0.003}, "L2": {"l2": 0.01}, "L1L2": {"l1": 0.002, "l2": 0.01}}[kind]
        return {"module": "keras.regularizers", "class_name": kind, "config": config, "registered_name": None}

    def convolution(self, same=False):
        rng = self.rng
        kernel = [rng.randint(1, 4), rng.randint(1, 4)] if rng.random() < 0.4 else [rng.choice([1, 2, 3, 3, 3, 5])] * 2
        config = {"filters": rng.choice(FILTERS), "kernel_size": kernel, "strides": [1, 1],
                  "padding": "same" if same or rng.random() < 0.6 else "valid", "activation": rng.choice(PICTURE_ACTIVATIONS),
                  "use_bias": rng.random() < 0.8, "kernel_regularizer": self.regularizer()}
        if not same and rng.random() < 0.3:
            config["strides"] = [rng.randint(1, 3)] * 2
        elif rng.random() < 0.2:
            config["dilation_rate"] = [rng.randint(1, 2), rng.randint(1, 2)]
        return config

    def picture_layer(self):
        rng, shape = self.rng, self.shape
        config = self.convolution()
        kinds = ["Conv2D"] * 6 + ["DepthwiseConv2D", "SeparableConv2D", "Conv2DTranspose", "MaxPooling2D", "AveragePooling2D",
                                  "BatchNormalization", "BatchNormalization", "LayerNormalization", "GroupNormalization",
                                  "UpSampling2D", "ZeroPadding2D", "Cropping2D", "Activation", "ReLU", "LeakyReLU", "PReLU",
                                  "ELU", "Rescaling", "Permute", "Reshape", "Dropout", "Softmax", "Dense"]
        kind = rng.choice(kinds)
        if kind == "Conv2D" and shape[2] % 2 == 0 and config["filters"] % 2 == 0 and rng.random() < 0.3:
            config["groups"] = 2
        if kind in ("DepthwiseConv2D", "SeparableConv2D"):
            regularizer = config.pop("kernel_regularizer")
            config["depthwise_regularizer"] = regularizer
            config["depth_multiplier"] = rng.choice([1, 1, 2])
            if kind == "DepthwiseConv2D":
                del config["filters"]
            config["strides"] = [config["strides"][0]] * 2
        if kind == "Conv2DTranspose" and max(shape[:2]) > 12:
            config["strides"] = [1, 1]
        if "dilation_rate" in config and max(config["strides"]) > 1:
            del config["dilation_rate"]
        simple = {
            "MaxPooling2D": {"pool_size": [rng.randint(2, 3), rng.randint(2, 3)], "strides": [rng.randint(1, 3)] * 2,
                             "padding": rng.choice(["same", "valid"])},
            "BatchNormalization": {"momentum": rng.choice([0.99, 0.9]), "scale": rng.random() < 0.8,
                                   "center": rng.random() < 0.8},
            "LayerNormalization": {"axis": rng.choice([-1, [1, 2, 3]])},
            "GroupNormalization": {"groups": rng.choice([1, -1] + [g for g in (2, 3, 4) if shape[-1] % g == 0])},
            "UpSampling2D": {"size": [2, rng.randint(1, 2)], "interpolation": rng.choice(["nearest", "bilinear"])},
            "ZeroPadding2D": {"padding": [[rng.randint(0, 2), 1], [rng.randint(0, 1), rng.randint(0, 2)]]},
            "Cropping2D": {"cropping": [[rng.randint(0, 1), 0], [1, rng.randint(0, 1)]]},
            "Activation": {"activation": rng.choice(PICTURE_ACTIVATIONS)},
            "ReLU": {"max_value": rng.choice([None, 1.5]), "negative_slope": rng.choice([0.0, 0.1]),
                     "threshold": rng.choice([0.0, 0.125])},
            "LeakyReLU": {"negative_slope": rng.choice([0.3, 0.01])},
            "PReLU": {"shared_axes": rng.choice([None, [1, 2]])},
            "ELU": {"alpha": rng.choice([1.0, 0.5])},
            "Softmax": {"axis": -1},
            "Rescaling": {"scale": 0.5, "offset": 0.25},
            "Permute": {"dims": [2, 1, 3]},
            "Reshape": {"target_shape": [shape[1], shape[0], shape[2]]},
            "Dropout": {"rate": 0.0},
            "Dense": {"units": rng.choice([3, 8]), "activation": rng.choice(PICTURE_ACTIVATIONS)},
        }
        simple["AveragePooling2D"] = simple["MaxPooling2D"]
        if kind == "UpSampling2D" and max(shape[:2]) > 12:
            raise ValueError("large enough")
        self.apply(kind, simple.get(kind, config))

    def branch(self):
        """Two ways from the head that meet again; sometimes both by one shared layer."""
        rng, start = self.rng, self.head
        self.branched = True
        config = self.convolution(same=True)
        left = self.apply("Conv2D", config, [start])
        if rng.random() < 0.4:
            left = self.apply("BatchNormalization", {}, [left])
        kind = rng.choice(["Add", "Add", "Multiply", "Average", "Maximum", "Minimum", "Subtract", "Concatenate"])
        if rng.random() < 0.3:  # the same layer once more, on its own output's like
            other = self.apply("Conv2D", {**config, "filters": start[0].shapes[start[1]][2], "kernel_size": [1, 1]}, [start])
            shared = next(node for node in self.nodes if node is left[0] or node.calls and node.calls[0] == [start])
            right = self.apply(shared.class_name, shared.config, [other], node=shared) if shared.class_name == "Conv2D" else other
        else:
            right = self.apply("Conv2D", {**self.convolution(same=True), "filters": config["filters"]}, [start])
        if kind != "Concatenate" and left[0].shapes[left[1]] != right[0].shapes[right[1]]:
            kind = "Concatenate"
        self.apply(kind, {"axis": -1} if kind == "Concatenate" else {}, [left, right])

    def finish(self, task, classes):
        """An output for the task; returns the shape of the prediction."""
        rng = self.rng
        ends = {"probabilities": "softmax", "logits": "linear", "binary": "sigmoid", "values": "linear"}
        if task.startswith("pixels_"):
            config = {"filters": classes, "kernel_size": [1, 1], "activation": ends[task[7:]]}
            self.apply("Conv2D", config)
        else:
            self.apply(rng.choice(["Flatten", "GlobalAveragePooling2D", "GlobalMaxPooling2D"]), {})
            if rng.random() < 0.4:
                self.apply("Dense", {"units": rng.choice([5, 8, 17]), "activation": rng.choice(PICTURE_ACTIVATIONS),
                                     "kernel_regularizer": self.regularizer()})
            if rng.random() < 0.2:
                self.apply("BatchNormalization", {})
            self.apply("Dense", {"units": classes, "activation": ends[task]})
        self.head[0].trainable = True  # or there might be nothing to train
        return self.shape

    # ---- Keras's JSON

    def to_json(self, compile_config):
        layers = []
        plain = not self.branched and self.rng.random() < 0.5
        for node in self.nodes:
            config = dict(node.config)
            if node.class_name != "InputLayer":
                config = {"name": node.name, "trainable": node.trainable, "dtype": policy(), **FULL.get(node.class_name, {}), **config}
            entry = {"module": "keras.layers", "class_name": node.class_name, "config": config, "registered_name": None}
            if not plain:
                entry |= {"name": node.name, "inbound_nodes": [self.inbound(call, node) for call in node.calls]}
            layers.append(entry)
        shape = [None, *self.input_shape]
        if plain:
            return {"module": "keras", "class_name": "Sequential",
                    "config": {"name": "sequential", "trainable": True, "dtype": policy(), "layers": layers,
                               "build_input_shape": shape},
                    "registered_name": None, "build_config": {"input_shape": shape}, "compile_config": compile_config}
        return {"module": "keras.src.models.functional", "class_name": "Functional",
                "config": {"name": "functional", "trainable": True, "layers": layers, "input_layers": [["input_layer", 0, 0]],
                           "output_layers": [[self.head[0].name, self.head[1], 0]]},
                "registered_name": "Functional", "build_config": {"input_shape": None}, "compile_config": compile_config}

    @staticmethod
    def inbound(call, node):
        tensors = [{"class_name": "__keras_tensor__",
                    "config": {"shape": [None, *source.shapes[index]], "dtype": "float32",
                               "keras_history": [source.name, index, 0]}} for source, index in call]
        merges = node.class_name in ("Add", "Multiply", "Average", "Maximum", "Minimum", "Subtract", "Concatenate")
        return {"args": [tensors] if merges else tensors, "kwargs": {}}

    # ---- training by torch

    def forward(self, x, weights, training):
        """The output, and the new values of weights that training changes by itself."""
        results, updates = {(self.nodes[0].name, 0): x}, {}
        waiting = [(node, i) for node in self.nodes[1:] for i in range(len(node.calls))]
        while waiting:
            for node, i in list(waiting):
                keys = [(source.name, index) for source, index in node.calls[i]]
                if any(key not in results for key in keys):
                    continue
                # A frozen BatchNormalization normalises by its moving statistics.
                mode = keras_layers.Mode(training and (node.trainable or node.class_name != "BatchNormalization"))
                stem = node.name + "/"
                own = {name[len(stem):]: value for name, value in weights.items() if name.startswith(stem)}
                results[node.name, i] = keras_layers.call(node.class_name, node.config, [results[key] for key in keys], own,
                                                          mode)
                updates |= {stem + name: value for name, value in mode.updates.items()}
                waiting.remove((node, i))
        return results[self.head[0].name, self.head[1]], updates

    def penalty(self, weights):
        total = 0.0
        for node in self.nodes:
            for key, value in node.config.items():
                if not key.endswith("_regularizer") or value is None:
                    continue
                name = key[:-len("_regularizer")]
                if node.class_name == "SeparableConv2D" and name in ("depthwise", "pointwise"):
                    name += "_kernel"
                tensor = weights.get(f"{node.name}/{'kernel' if name == 'depthwise' else name}")
                if tensor is None:  # frozen: not penalised
                    continue
                total = total + value["config"].get("l1", 0.0) * tensor.abs().sum()
                total = total + value["config"].get("l2", 0.0) * (tensor ** 2).sum()
        return total

    def train(self, x, y, loss, optimizer, steps, dtype):
        """Losses before each step and the weights behind the last, in this precision."""
        weights = {name: value.to(dtype) for name, value in self.weights.items()}
        x, y = x.to(dtype), y if not y.is_floating_point() else y.to(dtype)
        losses, frozen = [], {node.name for node in self.nodes if not node.trainable}
        rule = keras_optimizers.Optimizer(optimizer[0], **optimizer[1])
        for _ in range(steps):
            trained = {name: value.detach().requires_grad_() for name, value in weights.items()
                       if keras_layers.trained(name.split("/")[-1]) and name.split("/")[0] not in frozen}
            prediction, updates = self.forward(x, {**weights, **trained}, True)
            value = keras_scores.LOSSES[loss[0]](y, prediction, **loss[1]).mean() + self.penalty(trained)
            value.backward()
            losses.append(float(value))
            gradients = {name: value.grad for name, value in trained.items() if value.grad is not None}
            detached = {name: value.detach() for name, value in trained.items()}
            weights = {**weights, **updates, **detached, **rule.apply(detached, gradients)}
        return losses, weights
