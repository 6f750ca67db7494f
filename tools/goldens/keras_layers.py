# SPDX-License-Identifier: Apache-2.0
"""Keras 3's layers for pictures, channels last, written from its documentation with torch as autograd.

LAYERS maps a class name to its function (inputs, parameters, mode, **config); a config may leave out what has a default.
weights_of() says which parameters a layer has. A layer draws nothing: where Keras would, only what is certain is here.
"""
import math

import torch
from torch.nn import functional

LAYERS, WEIGHTS = {}, {}


class Mode:
    """Training or inference; `updates` collects what training writes into weights that are not trained."""

    def __init__(self, training):
        self.training, self.updates = training, {}


def layer(function, weights=None):
    LAYERS[function.__name__] = function
    if weights:
        WEIGHTS[function.__name__] = weights
    return function


def with_weights(weights):
    return lambda function: layer(function, weights)


def pair(value):
    return (value, value) if isinstance(value, int) else tuple(value)


def first(x):  # (n, h, w, c) -> (n, c, h, w)
    return x.permute(0, 3, 1, 2)


def last(x):
    return x.permute(0, 2, 3, 1)


def same_pads(size, kernel, stride, dilation):
    reach = (kernel - 1) * dilation + 1
    total = max(0, (-(-size // stride) - 1) * stride + reach - size)
    return total // 2, total - total // 2


def padded(x, padding, kernel, strides, dilation=(1, 1), value=0.0):
    """x, channels first, with the pixels that "same" adds: the odd one goes to the bottom and to the right."""
    if padding == "valid":
        return x
    top, bottom = same_pads(x.shape[2], kernel[0], strides[0], dilation[0])
    left, right = same_pads(x.shape[3], kernel[1], strides[1], dilation[1])
    return functional.pad(x, (left, right, top, bottom), value=value)


# ---- activations

ACTIVATIONS = {
    "linear": lambda x: x,
    "relu": torch.relu,
    "relu6": functional.relu6,
    "leaky_relu": lambda x: functional.leaky_relu(x, 0.2),
    "sigmoid": torch.sigmoid,
    "hard_sigmoid": lambda x: torch.clamp(x + 3, 0, 6) / 6,
    "tanh": torch.tanh,
    "elu": functional.elu,
    "selu": functional.selu,
    "gelu": functional.gelu,
    "silu": functional.silu,
    "swish": functional.silu,
    "hard_silu": functional.hardswish,
    "hard_swish": functional.hardswish,
    "mish": functional.mish,
    "softplus": functional.softplus,
    "softsign": functional.softsign,
    "exponential": torch.exp,
    "softmax": lambda x: torch.softmax(x, -1),
}


@layer
def Activation(xs, p, mode, activation):
    return ACTIVATIONS[activation](xs[0])


@layer
def ReLU(xs, p, mode, max_value=None, negative_slope=0.0, threshold=0.0):
    x = xs[0]
    top = x if max_value is None else torch.clamp(x, max=max_value)
    return torch.where(x >= threshold, top, negative_slope * (x - threshold))


@layer
def LeakyReLU(xs, p, mode, negative_slope=0.3):
    return functional.leaky_relu(xs[0], negative_slope)


def prelu_weights(shapes, shared_axes=None, **_):
    axes = [shared_axes] if isinstance(shared_axes, int) else shared_axes or []
    return {"alpha": [1 if i + 1 in axes else size for i, size in enumerate(shapes[0])]}


@with_weights(prelu_weights)
def PReLU(xs, p, mode, shared_axes=None):
    return torch.relu(xs[0]) - p["alpha"] * torch.relu(-xs[0])


@layer
def ELU(xs, p, mode, alpha=1.0):
    return functional.elu(xs[0], alpha)


@layer
def Softmax(xs, p, mode, axis=-1):
    return torch.softmax(xs[0], axis)


# ---- convolutions

def conv_weights(shapes, filters, kernel_size, groups=1, use_bias=True, **_):
    weights = {"kernel": [*pair(kernel_size), shapes[0][-1] // groups, filters]}
    return {**weights, "bias": [filters]} if use_bias else weights


def convolve(x, kernel, bias, strides, padding, dilation_rate, groups):
    """Kernel (height, width, in, out), torch's order of groups."""
    strides, dilation = pair(strides), pair(dilation_rate)
    x = padded(first(x), padding, kernel.shape[:2], strides, dilation)
    return last(functional.conv2d(x, kernel.permute(3, 2, 0, 1), bias, strides, 0, dilation, groups))


@with_weights(conv_weights)
def Conv2D(xs, p, mode, filters, kernel_size, strides=1, padding="valid", dilation_rate=1, groups=1, activation="linear",
           use_bias=True):
    y = convolve(xs[0], p["kernel"], p.get("bias"), strides, padding, dilation_rate, groups)
    return ACTIVATIONS[activation](y)


def depthwise_weights(shapes, kernel_size, depth_multiplier=1, use_bias=True, **_):
    channels = shapes[0][-1]
    weights = {"kernel": [*pair(kernel_size), channels, depth_multiplier]}
    return {**weights, "bias": [channels * depth_multiplier]} if use_bias else weights


def convolve_depthwise(x, kernel, bias, strides, padding, dilation_rate):
    # Output channel c * multiplier + m: torch's groups count the same way.
    height, width, channels, multiplier = kernel.shape
    kernel = kernel.reshape(height, width, 1, channels * multiplier)
    return convolve(x, kernel, bias, strides, padding, dilation_rate, channels)


@with_weights(depthwise_weights)
def DepthwiseConv2D(xs, p, mode, kernel_size, strides=1, padding="valid", depth_multiplier=1, dilation_rate=1,
                    activation="linear", use_bias=True):
    return ACTIVATIONS[activation](convolve_depthwise(xs[0], p["kernel"], p.get("bias"), strides, padding, dilation_rate))


def separable_weights(shapes, filters, kernel_size, depth_multiplier=1, use_bias=True, **_):
    channels = shapes[0][-1]
    weights = {"depthwise_kernel": [*pair(kernel_size), channels, depth_multiplier],
               "pointwise_kernel": [1, 1, channels * depth_multiplier, filters]}
    return {**weights, "bias": [filters]} if use_bias else weights


@with_weights(separable_weights)
def SeparableConv2D(xs, p, mode, filters, kernel_size, strides=1, padding="valid", dilation_rate=1, depth_multiplier=1,
                    activation="linear", use_bias=True):
    y = convolve_depthwise(xs[0], p["depthwise_kernel"], None, strides, padding, dilation_rate)
    return ACTIVATIONS[activation](convolve(y, p["pointwise_kernel"], p.get("bias"), 1, "valid", 1, 1))


def transpose_weights(shapes, filters, kernel_size, use_bias=True, **_):
    weights = {"kernel": [*pair(kernel_size), filters, shapes[0][-1]]}
    return {**weights, "bias": [filters]} if use_bias else weights


def transpose_window(size, kernel, stride, dilation, padding, output_padding):
    """First pixel and extent of the output within all that the kernels reach: TensorFlow's, the gradient of a convolution."""
    reach = (kernel - 1) * dilation + 1
    if padding == "valid":
        extra = max(stride - reach, 0) if output_padding is None else output_padding
        return 0, (size - 1) * stride + reach + extra
    out = size * stride if output_padding is None else (size - 1) * stride + reach % 2 + output_padding
    return same_pads(out, kernel, stride, dilation)[0], out


@with_weights(transpose_weights)
def Conv2DTranspose(xs, p, mode, filters, kernel_size, strides=1, padding="valid", output_padding=None, dilation_rate=1,
                    activation="linear", use_bias=True):
    strides, dilation = pair(strides), pair(dilation_rate)
    extra = (None, None) if output_padding is None else pair(output_padding)
    y = functional.conv_transpose2d(first(xs[0]), p["kernel"].permute(3, 2, 0, 1), None, strides, 0, 0, 1, dilation)
    for axis in (0, 1):
        begin, out = transpose_window(xs[0].shape[1 + axis], p["kernel"].shape[axis], strides[axis], dilation[axis], padding,
                                      extra[axis])
        zeros = [0, 0, 0, 0]
        zeros[3 - 2 * axis] = max(begin + out - y.shape[2 + axis], 0)
        y = functional.pad(y, zeros).narrow(2 + axis, begin, out)
    y = last(y) + p.get("bias", 0)
    return ACTIVATIONS[activation](y)


# ---- pooling

def windows(pool_size, strides):
    return pair(pool_size), pair(pool_size if strides is None else strides)


@layer
def MaxPooling2D(xs, p, mode, pool_size=2, strides=None, padding="valid"):
    window, strides = windows(pool_size, strides)
    return last(functional.max_pool2d(padded(first(xs[0]), padding, window, strides, value=-math.inf), window, strides))


@layer
def AveragePooling2D(xs, p, mode, pool_size=2, strides=None, padding="valid"):
    # Padded positions do not count: sums are divided by the number of real pixels under each window.
    window, strides = windows(pool_size, strides)
    mean = lambda x: functional.avg_pool2d(padded(x, padding, window, strides), window, strides)
    x = first(xs[0])
    return last(mean(x) / mean(torch.ones_like(x)))


@layer
def GlobalAveragePooling2D(xs, p, mode, keepdims=False):
    return xs[0].mean((1, 2), keepdim=keepdims)


@layer
def GlobalMaxPooling2D(xs, p, mode, keepdims=False):
    return xs[0].amax((1, 2), keepdim=keepdims)


# ---- normalization

def scaled(x, p, shape):
    if "gamma" in p:
        x = x * p["gamma"].reshape(shape)
    if "beta" in p:
        x = x + p["beta"].reshape(shape)
    return x


def scale_weights(shape, center, scale):
    return {**({"gamma": shape} if scale else {}), **({"beta": shape} if center else {})}


def batch_norm_weights(shapes, center=True, scale=True, axis=-1, **_):
    channels = [shapes[0][axis if axis < 0 else axis - 1]]
    return {**scale_weights(channels, center, scale), "moving_mean": channels, "moving_variance": channels}


@with_weights(batch_norm_weights)
def BatchNormalization(xs, p, mode, axis=-1, momentum=0.99, epsilon=1e-3, center=True, scale=True):
    x = xs[0]
    axis %= x.dim()
    shape = [size if i == axis else 1 for i, size in enumerate(x.shape)]
    mean, variance = p["moving_mean"], p["moving_variance"]
    if mode.training:
        axes = [i for i in range(x.dim()) if i != axis]
        moving = (mean, variance)
        mean, variance = x.mean(axes), x.var(axes, unbiased=False)
        for name, old, new in (("moving_mean", moving[0], mean), ("moving_variance", moving[1], variance)):
            mode.updates[name] = (old * momentum + new * (1 - momentum)).detach()
    return scaled((x - mean.reshape(shape)) / torch.sqrt(variance.reshape(shape) + epsilon), p, shape)


def layer_norm_axes(axis, rank):
    return sorted(a % rank for a in ([axis] if isinstance(axis, int) else axis))


def layer_norm_weights(shapes, axis=-1, center=True, scale=True, **_):
    shape = [0, *shapes[0]]
    return scale_weights([shape[a] for a in layer_norm_axes(axis, len(shape))], center, scale)


@with_weights(layer_norm_weights)
def LayerNormalization(xs, p, mode, axis=-1, epsilon=1e-3, center=True, scale=True):
    x = xs[0]
    axes = layer_norm_axes(axis, x.dim())
    shape = [size if i in axes else 1 for i, size in enumerate(x.shape)]
    mean, variance = x.mean(axes, keepdim=True), x.var(axes, unbiased=False, keepdim=True)
    return scaled((x - mean) / torch.sqrt(variance + epsilon), p, shape)


def group_norm_weights(shapes, center=True, scale=True, **_):
    return scale_weights([shapes[0][-1]], center, scale)


@with_weights(group_norm_weights)
def GroupNormalization(xs, p, mode, groups=32, axis=-1, epsilon=1e-3, center=True, scale=True):
    x = xs[0]
    channels = x.shape[-1]
    groups = channels if groups == -1 else groups
    parts = x.reshape(x.shape[0], -1, groups, channels // groups)
    mean, variance = parts.mean((1, 3), keepdim=True), parts.var((1, 3), unbiased=False, keepdim=True)
    return scaled(((parts - mean) / torch.sqrt(variance + epsilon)).reshape(x.shape), p, [channels])


@layer
def Rescaling(xs, p, mode, scale=1.0, offset=0.0):
    return xs[0] * torch.tensor(scale, dtype=xs[0].dtype) + torch.tensor(offset, dtype=xs[0].dtype)


def normalization_weights(shapes, axis=-1, mean=None, **_):
    shape = [] if axis is None else [shapes[0][-1]]
    return {} if mean is not None else {"mean": shape, "variance": shape}


@with_weights(normalization_weights)
def Normalization(xs, p, mode, axis=-1, mean=None, variance=None, invert=False):
    mean = p["mean"] if mean is None else torch.tensor(mean, dtype=xs[0].dtype)
    variance = p["variance"] if variance is None else torch.tensor(variance, dtype=xs[0].dtype)
    deviation = torch.clamp(torch.sqrt(variance), min=1e-7)
    return xs[0] * deviation + mean if invert else (xs[0] - mean) / deviation


# ---- shapes

@layer
def InputLayer(xs, p, mode, **_):
    return xs[0]


def dense_weights(shapes, units, use_bias=True, **_):
    return {"kernel": [shapes[0][-1], units], **({"bias": [units]} if use_bias else {})}


@with_weights(dense_weights)
def Dense(xs, p, mode, units, activation="linear", use_bias=True):
    return ACTIVATIONS[activation](xs[0] @ p["kernel"] + p.get("bias", 0))


@layer
def Flatten(xs, p, mode):
    return xs[0].reshape(xs[0].shape[0], -1)


@layer
def Reshape(xs, p, mode, target_shape):
    return xs[0].reshape(xs[0].shape[0], *target_shape)


@layer
def Permute(xs, p, mode, dims):
    return xs[0].permute(0, *dims)


@layer
def UpSampling2D(xs, p, mode, size=2, interpolation="nearest"):
    size = pair(size)
    if interpolation == "nearest":
        return xs[0].repeat_interleave(size[0], 1).repeat_interleave(size[1], 2)
    extents = (xs[0].shape[1] * size[0], xs[0].shape[2] * size[1])
    return last(functional.interpolate(first(xs[0]), extents, mode="bilinear", align_corners=False))


def sides(value):
    value = [value, value] if isinstance(value, int) else value
    return [[v, v] if isinstance(v, int) else v for v in value]


@layer
def ZeroPadding2D(xs, p, mode, padding=1):
    (top, bottom), (left, right) = sides(padding)
    return functional.pad(xs[0], (0, 0, left, right, top, bottom))


@layer
def Cropping2D(xs, p, mode, cropping=0):
    (top, bottom), (left, right) = sides(cropping)
    return xs[0][:, top:xs[0].shape[1] - bottom, left:xs[0].shape[2] - right]


# ---- merging

def fold(xs, function):
    y = xs[0]
    for x in xs[1:]:
        y = function(y, x)
    return y


@layer
def Add(xs, p, mode):
    return fold(xs, torch.add)


@layer
def Subtract(xs, p, mode):
    return xs[0] - xs[1]


@layer
def Multiply(xs, p, mode):
    return fold(xs, torch.mul)


@layer
def Average(xs, p, mode):
    return fold(xs, torch.add) / len(xs)


@layer
def Maximum(xs, p, mode):
    return fold(xs, torch.maximum)


@layer
def Minimum(xs, p, mode):
    return fold(xs, torch.minimum)


@layer
def Concatenate(xs, p, mode, axis=-1):
    return torch.cat(xs, axis)


# ---- what is drawn in Keras: here with a rate of 0, or with a factor whose ends are the same

def certain(what, holds):
    if not holds:
        raise ValueError(f"{what} would draw random numbers")


@layer
def Dropout(xs, p, mode, rate):
    certain("Dropout", rate == 0 or not mode.training)
    return xs[0]


@layer
def SpatialDropout2D(xs, p, mode, rate):
    certain("SpatialDropout2D", rate == 0 or not mode.training)
    return xs[0]


@layer
def GaussianNoise(xs, p, mode, stddev):
    certain("GaussianNoise", stddev == 0 or not mode.training)
    return xs[0]


@layer
def RandomFlip(xs, p, mode, **_):
    certain("RandomFlip", not mode.training)
    return xs[0]


@layer
def RandomCrop(xs, p, mode, height, width):
    x = xs[0]
    certain("RandomCrop", not mode.training or (height, width) == tuple(x.shape[1:3]))
    top, left = (x.shape[1] - height) // 2, (x.shape[2] - width) // 2
    return x[:, top:top + height, left:left + width]


def outside(index, size, fill_mode):
    """Which pixel stands for the one at this index, and whether it counts."""
    valid = (index >= 0) & (index < size)
    if fill_mode == "reflect":  # d c b a | a b c d | d c b a
        phase = index % (2 * size)
        return torch.where(phase < size, phase, 2 * size - 1 - phase), torch.ones_like(valid)
    if fill_mode == "wrap":
        return index % size, torch.ones_like(valid)
    return index.clamp(0, size - 1), torch.ones_like(valid) if fill_mode == "nearest" else valid


def sampled(x, rows, columns, interpolation, fill_mode, fill_value):
    """x at (rows, columns), both (h, w) of real numbers."""
    def at(row, column):
        row, row_valid = outside(row, x.shape[1], fill_mode)
        column, column_valid = outside(column, x.shape[2], fill_mode)
        return torch.where((row_valid & column_valid)[..., None], x[:, row, column], fill_value)
    if interpolation == "nearest":
        return at((rows + 0.5).floor().long(), (columns + 0.5).floor().long())
    top, left = rows.floor(), columns.floor()
    down, right = (rows - top)[..., None], (columns - left)[..., None]
    top, left = top.long(), left.long()
    return ((1 - down) * (1 - right) * at(top, left) + (1 - down) * right * at(top, left + 1)
            + down * (1 - right) * at(top + 1, left) + down * right * at(top + 1, left + 1))


def pixels(x):
    grid = torch.meshgrid(torch.arange(x.shape[1]), torch.arange(x.shape[2]), indexing="ij")
    return [axis.to(x.dtype) for axis in grid]


@layer
def RandomTranslation(xs, p, mode, height_factor, width_factor, fill_mode="reflect", interpolation="bilinear",
                      fill_value=0.0):
    if not mode.training:
        return xs[0]
    certain("RandomTranslation", height_factor[0] == height_factor[1] and width_factor[0] == width_factor[1])
    rows, columns = pixels(xs[0])
    return sampled(xs[0], rows - height_factor[0] * xs[0].shape[1], columns - width_factor[0] * xs[0].shape[2], interpolation,
                   fill_mode, fill_value)


@layer
def RandomRotation(xs, p, mode, factor, fill_mode="reflect", interpolation="bilinear", fill_value=0.0):
    if not mode.training:
        return xs[0]
    certain("RandomRotation", factor[0] == factor[1])
    cos, sin = math.cos(2 * math.pi * factor[0]), math.sin(2 * math.pi * factor[0])
    rows, columns = pixels(xs[0])
    middle_row, middle_column = (xs[0].shape[1] - 1) / 2, (xs[0].shape[2] - 1) / 2
    down, right = rows - middle_row, columns - middle_column
    return sampled(xs[0], middle_row + cos * down + sin * right, middle_column - sin * down + cos * right, interpolation,
                   fill_mode, fill_value)


# ---- looking layers up

IGNORED = {"name", "trainable", "dtype", "data_format", "seed", "synchronized", "noise_shape", "rms_scaling"}


def arguments(config):
    """What the functions above take from a Keras config: no names, no initializers, regularizers or constraints."""
    endings = ("_initializer", "_regularizer", "_constraint")
    return {key: value for key, value in config.items() if key not in IGNORED and not key.endswith(endings)}


def weights_of(class_name, config, shapes):
    """Name -> shape; `shapes` are the inputs', without the batch."""
    return WEIGHTS[class_name](shapes, **arguments(config)) if class_name in WEIGHTS else {}


def trained(name):
    return name not in ("moving_mean", "moving_variance", "mean", "variance")


def call(class_name, config, inputs, parameters, mode):
    return LAYERS[class_name](inputs, parameters, mode, **arguments(config))
