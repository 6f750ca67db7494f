#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/data/goldens/*.npz from torch, in Keras's layouts. Needs Debian's python3-torch; the tests do not.

Every file records the torch version and the seed. Torch computes in float64, so that the goldens carry no rounding of
their own; they are stored as float32.
"""
import pathlib

import numpy
import torch
from torch.nn import functional

SEED = 20240117
OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "data" / "goldens"
BATCH = 3


def uniform(*shape):
    # Rounded to float32 first: both sides must start from the same numbers.
    return (torch.rand(*shape) * 2 - 1).double().requires_grad_()


def keras(tensor):
    """(n, c, h, w) -> (n, h, w, c)."""
    return tensor.detach().permute(0, 2, 3, 1) if tensor.dim() == 4 else tensor.detach()


def save(name, arrays):
    OUT.mkdir(parents=True, exist_ok=True)
    plain = {key: numpy.ascontiguousarray(numpy.asarray(value)) for key, value in arrays.items()}
    plain = {key: value.astype(numpy.float32) if value.dtype == numpy.float64 else value for key, value in plain.items()}
    plain["seed"] = numpy.array([SEED], dtype=numpy.int64)
    plain["torch_version"] = numpy.frombuffer(torch.__version__.encode(), dtype=numpy.uint8)
    numpy.savez_compressed(OUT / f"{name}.npz", **plain)


def same_pads(size, kernel, stride, dilation):
    reach = (kernel - 1) * dilation + 1
    total = max(0, (-(-size // stride) - 1) * stride + reach - size)
    return total // 2, total - total // 2


def pad_same(x, kernel, stride, dilation=(1, 1), value=0.0):
    top, bottom = same_pads(x.shape[2], kernel[0], stride[0], dilation[0])
    left, right = same_pads(x.shape[3], kernel[1], stride[1], dilation[1])
    return functional.pad(x, (left, right, top, bottom), value=value)


def backward(arrays, y, inputs):
    """Adds the output, a random projection and the gradients of <projection, y> to the arrays."""
    projection = (torch.rand_like(y) * 2 - 1).float().double()
    (y * projection).sum().backward()
    arrays["y"] = keras(y)
    arrays["dy"] = keras(projection)
    for name, (value, layout) in inputs.items():
        arrays[name] = layout(value.detach())
        arrays["d" + name] = layout(value.grad)


def hwio(kernel):
    return kernel.permute(2, 3, 1, 0)


def conv(name, size, channels, filters, kernel, stride=(1, 1), dilation=(1, 1), same=False):
    x, w, b = uniform(BATCH, channels, *size), uniform(filters, channels, *kernel), uniform(filters)
    padded = pad_same(x, kernel, stride, dilation) if same else x
    y = functional.conv2d(padded, w, b, stride=stride, dilation=dilation)
    arrays = {}
    backward(arrays, y, {"x": (x, keras), "kernel": (w, hwio), "bias": (b, lambda t: t)})
    save(name, arrays)


def pool(name, size, channels, window, stride, same, average):
    x = uniform(BATCH, channels, *size)
    if average:
        # Padded positions do not count: divide the sums by the number of real pixels under each window.
        ones = pad_same(torch.ones_like(x), window, stride) if same else torch.ones_like(x)
        padded = pad_same(x, window, stride) if same else x
        y = functional.avg_pool2d(padded, window, stride) / functional.avg_pool2d(ones, window, stride)
    else:
        padded = pad_same(x, window, stride, value=-1e30) if same else x
        y = functional.max_pool2d(padded, window, stride)
    arrays = {}
    backward(arrays, y, {"x": (x, keras)})
    save(name, arrays)


def batch_norm():
    x, gamma, beta = uniform(BATCH, 13, 4, 5), uniform(13), uniform(13)
    mean, variance = torch.rand(13).double(), torch.rand(13).double() + 0.5
    arrays = {"moving_mean": mean.clone(), "moving_variance": variance.clone()}
    arrays["y_inference"] = keras(functional.batch_norm(x, mean, variance, gamma, beta, training=False, eps=1e-3))
    y = functional.batch_norm(x, None, None, gamma, beta, training=True, eps=1e-3)
    backward(arrays, y, {"x": (x, keras), "gamma": (gamma, lambda t: t), "beta": (beta, lambda t: t)})
    save("batch_norm", arrays)


def dense():
    x, w, b = uniform(BATCH, 37), uniform(11, 37), uniform(11)
    y = torch.relu(functional.linear(x, w, b))
    arrays = {}
    backward(arrays, y, {"x": (x, lambda t: t), "kernel": (w, lambda t: t.T), "bias": (b, lambda t: t)})
    save("dense_relu", arrays)


def depthwise(name, size, channels, multiple, kernel, stride):
    x, w, b = uniform(BATCH, channels, *size), uniform(channels * multiple, 1, *kernel), uniform(channels * multiple)
    y = functional.conv2d(pad_same(x, kernel, stride), w, b, stride=stride, groups=channels)
    # Keras: (height, width, channels, multiples), output channel c * multiples + m.
    layout = lambda t: t.reshape(channels, multiple, *kernel).permute(2, 3, 0, 1)
    arrays = {}
    backward(arrays, y, {"x": (x, keras), "kernel": (w, layout), "bias": (b, lambda t: t)})
    save(name, arrays)


def conv_transpose(name, size, channels, filters, kernel, stride, padding):
    x, w, b = uniform(BATCH, channels, *size), uniform(channels, filters, *kernel), uniform(filters)
    y = functional.conv_transpose2d(x, w, b, stride=stride, padding=padding)
    arrays = {}
    backward(arrays, y, {"x": (x, keras), "kernel": (w, hwio), "bias": (b, lambda t: t)})
    save(name, arrays)


def upsample(name, mode):
    x = uniform(BATCH, 5, 3, 4)
    options = {} if mode == "nearest" else {"align_corners": False}
    arrays = {}
    backward(arrays, functional.interpolate(x, scale_factor=2, mode=mode, **options), {"x": (x, keras)})
    save(name, arrays)


def sample_norms():
    x, gamma, beta = uniform(BATCH, 12, 4, 5), uniform(12), uniform(12)
    arrays = {}
    y = functional.group_norm(x, 4, gamma, beta, eps=1e-3)
    backward(arrays, y, {"x": (x, keras), "gamma": (gamma, lambda t: t), "beta": (beta, lambda t: t)})
    save("group_norm", arrays)
    x, gamma, beta = uniform(BATCH, 13), uniform(13), uniform(13)
    arrays = {}
    y = functional.layer_norm(x, (13,), gamma, beta, eps=1e-3)
    backward(arrays, y, {"x": (x, lambda t: t), "gamma": (gamma, lambda t: t), "beta": (beta, lambda t: t)})
    save("layer_norm", arrays)


def activations():
    kinds = {"sigmoid": torch.sigmoid, "tanh": torch.tanh, "elu": functional.elu, "gelu": functional.gelu,
             "silu": functional.silu, "softplus": functional.softplus, "hard_sigmoid": functional.hardsigmoid,
             "relu6": functional.relu6}
    for name, function in kinds.items():
        x = ((torch.rand(BATCH, 40) * 16 - 8).double()).requires_grad_()
        arrays = {}
        backward(arrays, function(x), {"x": (x, lambda t: t)})
        save("activation_" + name, arrays)


def cross_entropy():
    logits = ((torch.rand(6, 10) * 10 - 5).double()).requires_grad_()
    labels = torch.randint(0, 10, (6,))
    arrays = {"labels": labels.to(torch.int32), "losses": functional.cross_entropy(logits, labels, reduction="none").detach()}
    functional.cross_entropy(logits, labels).backward()
    arrays["logits"], arrays["dlogits"] = logits.detach(), logits.grad.clone()
    logits.grad = None
    arrays["losses_smooth"] = functional.cross_entropy(logits, labels, reduction="none", label_smoothing=0.1).detach()
    functional.cross_entropy(logits, labels, label_smoothing=0.1).backward()
    arrays["dlogits_smooth"] = logits.grad
    save("cross_entropy", arrays)


def optimizers():
    start = (torch.rand(57) * 2 - 1).double()
    gradients = (torch.rand(5, 57) * 2 - 1).double()
    arrays = {"start": start, "gradients": gradients}
    kinds = {
        "sgd": lambda w: torch.optim.SGD([w], lr=0.05),
        "sgd_momentum": lambda w: torch.optim.SGD([w], lr=0.05, momentum=0.9),
        "sgd_nesterov": lambda w: torch.optim.SGD([w], lr=0.05, momentum=0.9, nesterov=True),
        "adam": lambda w: torch.optim.Adam([w], lr=0.001),
        "adam_amsgrad": lambda w: torch.optim.Adam([w], lr=0.01, betas=(0.8, 0.9), amsgrad=True),
    }
    for name, make in kinds.items():
        weights = start.clone().requires_grad_()
        optimizer, steps = make(weights), []
        for step, gradient in enumerate(gradients, start=1):
            weights.grad = gradient.clone()
            for group in optimizer.param_groups:
                if "betas" in group:
                    # Torch adds epsilon behind the bias correction, Keras before it; this makes them one rule.
                    group["eps"] = 1e-7 / (1 - group["betas"][1] ** step) ** 0.5
            optimizer.step()
            steps.append(weights.detach().clone())
        arrays[name] = torch.stack(steps)
    save("optimizers", arrays)


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
    save("adafactor", arrays)


def main():
    torch.manual_seed(SEED)
    conv("conv_valid", (8, 7), 3, 13, (3, 3))
    conv("conv_same", (7, 6), 13, 8, (3, 3), same=True)
    conv("conv_stride", (9, 8), 8, 5, (3, 3), stride=(2, 2), same=True)
    conv("conv_dilated", (9, 9), 5, 8, (3, 3), dilation=(2, 2))
    conv("conv_dilated_same", (7, 8), 8, 3, (3, 3), dilation=(2, 2), same=True)
    pool("max_pool_valid", (7, 6), 5, (2, 2), (2, 2), same=False, average=False)
    pool("max_pool_same", (7, 6), 13, (3, 3), (2, 2), same=True, average=False)
    pool("average_pool_valid", (6, 7), 8, (3, 2), (2, 2), same=False, average=True)
    pool("average_pool_same", (7, 6), 3, (3, 3), (2, 2), same=True, average=True)
    batch_norm()
    dense()
    cross_entropy()
    optimizers()
    adafactor()
    depthwise("depthwise", (7, 6), 13, 1, (3, 3), (2, 2))
    depthwise("depthwise_multiplied", (6, 5), 5, 3, (3, 3), (1, 1))
    conv_transpose("conv_transpose", (4, 3), 8, 5, (2, 2), (2, 2), 0)
    conv_transpose("conv_transpose_same", (5, 4), 5, 8, (3, 3), (1, 1), 1)
    upsample("upsample_nearest", "nearest")
    upsample("upsample_bilinear", "bilinear")
    sample_norms()
    activations()


if __name__ == "__main__":
    main()
