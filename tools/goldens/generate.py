#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/data/goldens: what Keras 3's layers, losses, metrics, optimizers and schedules give, in float64.

Each family is one FAMILY.json, a list of cases, and, where there are arrays, one FAMILY.npz with "CASE.NAME" as float32. Needs Debian's
python3-torch; the tests do not. The numbers come from keras_*.py beside this file, the cases from cases.py.
"""
import json
import pathlib

import numpy
import torch

import cases
import keras_layers
import keras_optimizers
import keras_scores

SEED = 20240117
OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "data" / "goldens"
BATCH = 2
RNG = numpy.random.default_rng(SEED)


def numbers(*shape, low=-1.0, high=1.0):
    """Odd multiples of 2^-10: exact in float32, small in a compressed file, never 0 and all different in small arrays."""
    count = int(numpy.prod(shape))
    grid = int((high - low) * 512)
    draws = RNG.permutation(grid)[:count] if count <= grid else RNG.integers(0, grid, count)
    return torch.tensor(low + (2 * draws + 1) / 1024.0, dtype=torch.float64).reshape(shape)


class Family:
    def __init__(self, name):
        self.name, self.cases, self.arrays = name, [], {}

    def add(self, entry, arrays):
        self.cases.append(entry)
        for key, value in arrays.items():
            value = numpy.asarray(value.detach() if isinstance(value, torch.Tensor) else value)
            kind = numpy.float32 if value.dtype.kind == "f" else numpy.int32
            self.arrays[f"{len(self.cases) - 1}.{key}"] = numpy.ascontiguousarray(value, dtype=kind)

    def write(self):
        OUT.mkdir(parents=True, exist_ok=True)
        lines = ",\n".join(" " + json.dumps(case) for case in self.cases)
        (OUT / f"{self.name}.json").write_text("[\n" + lines + "\n]\n")
        if self.arrays:
            numpy.savez_compressed(OUT / f"{self.name}.npz", **self.arrays)


def layer_weights(class_name, config, shapes):
    weights = {}
    for name, shape in keras_layers.weights_of(class_name, config, shapes).items():
        positive = name in ("moving_variance", "variance")
        weights[name] = numbers(*shape, low=0.5 if positive else -1.0, high=1.5 if positive else 1.0)
    return weights


def add_layer(family, class_name, config, shapes, training=True):
    spread = 4.0 if class_name in ("Activation", "ReLU") else 1.0
    # A little apart from each other, so that a largest of several inputs is never shared.
    xs = [numbers(BATCH, *shape, low=-spread, high=spread) + i / 4096 for i, shape in enumerate(shapes)]
    xs = [x.requires_grad_() for x in xs]
    weights = layer_weights(class_name, config, shapes)
    trained = {name: value.requires_grad_() for name, value in weights.items() if keras_layers.trained(name)}
    mode = keras_layers.Mode(training)
    y = keras_layers.call(class_name, config, xs, weights, mode)
    dy = numbers(*y.shape)
    (y * dy).sum().backward()
    arrays = {"y": y, "dy": dy}
    for i, x in enumerate(xs):
        arrays |= {f"x{i}": x, f"dx{i}": x.grad}
    for name, value in weights.items():
        arrays[name] = value
        if name in trained:
            arrays["d" + name] = value.grad
        if name in mode.updates:
            arrays["after_" + name] = mode.updates[name]
    if training and mode.updates:
        arrays["evaluated"] = keras_layers.call(class_name, config, xs, weights, keras_layers.Mode(False))
    family.add({"class_name": class_name, "config": config, "inputs": shapes, "training": training}, arrays)


def layers():
    for name, family_cases in cases.LAYER_FAMILIES.items():
        family = Family("layers_" + name)
        for class_name, config, shapes in family_cases:
            add_layer(family, class_name, config, shapes)
        if name == "drawn":
            for class_name, config, shapes in cases.EVALUATED:
                add_layer(family, class_name, config, shapes, training=False)
        family.write()


def predictions(shape, kind):
    if kind == "logits":
        return numbers(*shape, low=-4, high=4)
    if kind == "shares":  # rows that sum to 1, up to float32
        return torch.softmax(numbers(*shape, low=-2, high=2), -1).float().double()
    if kind in ("probabilities", "extremes", "soft"):
        p = numbers(*shape, low=0, high=1)
        return torch.where(torch.tensor(RNG.random(shape) < 0.3), (p > 0.5).double(), p) if kind == "extremes" else p
    return numbers(*shape, low=-2, high=2)


def targets(shape, kind, loss):
    if loss == "SparseCategoricalCrossentropy":
        return torch.tensor(RNG.integers(0, shape[-1], shape[:-1]))
    if loss.startswith("Categorical"):
        labels = torch.tensor(RNG.integers(0, shape[-1], shape[:-1]))
        return torch.nn.functional.one_hot(labels, shape[-1]).double()
    if kind == "values":
        return numbers(*shape, low=-2, high=2)
    if kind == "soft":
        return torch.softmax(numbers(*shape, low=-2, high=2), -1).float().double()
    return torch.tensor(RNG.integers(0, 2, shape)).double()


def losses():
    family = Family("losses")
    for class_name, config, shape, kind in cases.LOSSES:
        p, t = predictions(shape, kind).requires_grad_(), targets(shape, kind, class_name)
        values = keras_scores.LOSSES[class_name](t, p, **config)
        values.mean().backward()
        family.add({"class_name": class_name, "config": config}, {"p": p, "t": t, "losses": values, "dp": p.grad})
    family.write()


def metrics():
    family = Family("metrics")
    for class_name, config, shape, kind, loss in cases.METRICS:
        p, t = predictions(shape, kind), targets(shape, kind, loss)
        value = float(keras_scores.METRICS[class_name](t.numpy(), p.numpy(), **config))
        family.add({"class_name": class_name, "config": config, "loss": loss, "value": value}, {"p": p, "t": t})
    family.write()


def optimizers():
    family = Family("optimizers")
    start, gradients = numbers(29), [numbers(29) for _ in range(6)]
    for class_name, config in cases.OPTIMIZERS:
        optimizer, weights, steps = keras_optimizers.Optimizer(class_name, **config), {"w": start}, []
        for gradient in gradients:
            weights = optimizer.apply(weights, {"w": gradient})
            steps.append(weights["w"])
        family.add({"class_name": class_name, "config": config}, {"steps": torch.stack(steps)})
    family.add({"class_name": "inputs"}, {"start": start, "gradients": torch.stack(gradients)})
    family.write()


def schedules():
    family = Family("schedules")
    for class_name, config in cases.SCHEDULES:
        rates = [keras_optimizers.SCHEDULES[class_name](step, **config) for step in range(48)]
        family.add({"class_name": class_name, "config": config, "rates": rates}, {})
    family.write()


class Adafactor:
    """Adafactor as Keras 3 defines it, for one variable, in double; only the moments are kept in float32."""

    def __init__(self, shape, learning_rate=0.001, beta_2_decay=-0.8, epsilon_1=1e-30, epsilon_2=1e-3,
                 clip_threshold=1.0, weight_decay=0.0):
        self.__dict__.update(locals())
        self.row, self.column = numpy.zeros(shape[:-1]), numpy.zeros(shape[:-2] + shape[-1:])
        self.velocity = numpy.zeros(shape)

    def step(self, t, weights, gradient):
        weights = weights - weights * self.weight_decay * self.learning_rate
        beta_2 = 1 - t ** self.beta_2_decay
        blend = lambda old, new: (beta_2 * old + (1 - beta_2) * new).astype(numpy.float32).astype(numpy.float64)
        rms = lambda x: numpy.sqrt(numpy.mean(x * x))
        alpha = max(self.epsilon_2, rms(weights)) * min(self.learning_rate, 1 / t ** 0.5)
        square = gradient * gradient + self.epsilon_1
        if weights.ndim >= 2:
            self.row = blend(self.row, square.mean(axis=-1))
            self.column = blend(self.column, square.mean(axis=-2))
            share = self.row / self.row.mean(axis=-1, keepdims=True)
            self.velocity = share[..., :, None] * self.column[..., None, :]
        else:
            self.velocity = blend(self.velocity, square)
        direction = gradient / numpy.sqrt(self.velocity)
        direction /= max(1.0, rms(direction) / self.clip_threshold)
        return weights - alpha * direction


def adafactor():
    random, arrays = numpy.random.default_rng(SEED), {}
    plain = {}
    own = dict(learning_rate=0.05, beta_2_decay=-0.6, epsilon_1=1e-3, epsilon_2=0.2, clip_threshold=0.5, weight_decay=0.1)
    for name, shape, options in [("conv", (3, 3, 5, 13), plain), ("conv_own", (3, 3, 5, 13), own),
                                 ("depthwise", (3, 3, 13, 1), own), ("multiplied", (2, 2, 5, 3), own),
                                 ("dense", (30, 11), plain), ("vector", (29,), own)]:
        start = random.uniform(-1, 1, shape).astype(numpy.float32)
        # Of sizes that differ by row and column, or the factors would have nothing to do.
        gradients = (random.uniform(-1, 1, (6, *shape)) * random.uniform(0.01, 1, shape[-1:])).astype(numpy.float32)
        rule, weights, steps = Adafactor(shape, **options), start.astype(numpy.float64), []
        for t, gradient in enumerate(gradients.astype(numpy.float64), start=1):
            weights = rule.step(t, weights, gradient)
            steps.append(weights)
        arrays |= {f"{name}_start": torch.tensor(start), f"{name}_gradients": torch.tensor(gradients),
                   name: torch.tensor(numpy.stack(steps))}
    arrays = {key: numpy.asarray(value, dtype=numpy.float32) for key, value in arrays.items()}
    numpy.savez_compressed(OUT / "adafactor.npz", **arrays)


def main():
    torch.manual_seed(SEED)
    for make in (layers, losses, metrics, optimizers, schedules, adafactor):
        make()
    source = {"torch": torch.__version__, "numpy": numpy.__version__, "seed": SEED}
    (OUT / "source.json").write_text(json.dumps(source) + "\n")


if __name__ == "__main__":
    main()
