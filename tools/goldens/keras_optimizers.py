# SPDX-License-Identifier: Apache-2.0
"""Keras 3's optimizers and learning rate schedules in float64, written from its documentation.

An update rule is (gradient, slots, learning rate, step from 1, **config) -> what to subtract; slots is a dict that starts
empty. Optimizer adds what all have in common: schedules, weight decay, clipping, moving means.
"""
import math

import torch

COMMON = {"weight_decay": None, "clipnorm": None, "clipvalue": None, "global_clipnorm": None, "use_ema": False,
          "ema_momentum": 0.99, "ema_overwrite_frequency": None}


# ---- schedules: step from 0 -> learning rate

def exponential_decay(step, initial_learning_rate, decay_steps, decay_rate, staircase=False):
    share = step / decay_steps
    return initial_learning_rate * decay_rate ** (math.floor(share) if staircase else share)


def inverse_time_decay(step, initial_learning_rate, decay_steps, decay_rate, staircase=False):
    share = step / decay_steps
    return initial_learning_rate / (1 + decay_rate * (math.floor(share) if staircase else share))


def piecewise_constant_decay(step, boundaries, values):
    return values[sum(step > boundary for boundary in boundaries)]


def polynomial_decay(step, initial_learning_rate, decay_steps, end_learning_rate=0.0001, power=1.0, cycle=False):
    if cycle:
        decay_steps *= max(1, math.ceil(step / decay_steps))
    share = min(step, decay_steps) / decay_steps
    return (initial_learning_rate - end_learning_rate) * (1 - share) ** power + end_learning_rate


def half_cosine(share, alpha):
    return (1 - alpha) * 0.5 * (1 + math.cos(math.pi * share)) + alpha


def cosine_decay(step, initial_learning_rate, decay_steps, alpha=0.0, warmup_target=None, warmup_steps=0):
    if warmup_target is None:
        return initial_learning_rate * half_cosine(min(step, decay_steps) / decay_steps, alpha)
    if step < warmup_steps:
        return initial_learning_rate + (warmup_target - initial_learning_rate) * step / warmup_steps
    return warmup_target * half_cosine(min(step - warmup_steps, decay_steps) / decay_steps, alpha)


def cosine_decay_restarts(step, initial_learning_rate, first_decay_steps, t_mul=2.0, m_mul=1.0, alpha=0.0):
    begin, length, height = 0, first_decay_steps, 1.0
    while step >= begin + length:
        begin, length, height = begin + length, length * t_mul, height * m_mul
    return initial_learning_rate * ((1 - alpha) * 0.5 * height * (1 + math.cos(math.pi * (step - begin) / length)) + alpha)


SCHEDULES = {"ExponentialDecay": exponential_decay, "InverseTimeDecay": inverse_time_decay,
             "PiecewiseConstantDecay": piecewise_constant_decay, "PolynomialDecay": polynomial_decay,
             "CosineDecay": cosine_decay, "CosineDecayRestarts": cosine_decay_restarts}


def rate_at(rate, step):
    """A number, or {"class_name": ..., "config": ...}."""
    return SCHEDULES[rate["class_name"]](step, **rate["config"]) if isinstance(rate, dict) else rate


# ---- update rules

def slot(slots, name, like, value=0.0):
    return slots.setdefault(name, torch.full_like(like, value))


def sgd(g, slots, lr, step, momentum=0.0, nesterov=False):
    if momentum == 0:
        return lr * g
    slots["v"] = momentum * slot(slots, "v", g) - lr * g
    return -(momentum * slots["v"] - lr * g) if nesterov else -slots["v"]


def moments(g, slots, beta_1, beta_2):
    slots["m"] = slot(slots, "m", g) + (g - slots["m"]) * (1 - beta_1)
    slots["v"] = slot(slots, "v", g) + (g * g - slots["v"]) * (1 - beta_2)
    return slots["m"], slots["v"]


def adam(g, slots, lr, step, beta_1=0.9, beta_2=0.999, epsilon=1e-7, amsgrad=False):
    m, v = moments(g, slots, beta_1, beta_2)
    if amsgrad:
        v = slots["most"] = torch.maximum(slot(slots, "most", g), v)
    return lr * math.sqrt(1 - beta_2 ** step) / (1 - beta_1 ** step) * m / (torch.sqrt(v) + epsilon)


def nadam(g, slots, lr, step, beta_1=0.9, beta_2=0.999, epsilon=1e-7):
    now, following = (beta_1 * (1 - 0.5 * 0.96 ** t) for t in (step, step + 1))
    product = slots["product"] = slots.get("product", 1.0) * now
    m, v = moments(g, slots, beta_1, beta_2)
    m = following * m / (1 - product * following) + (1 - now) * g / (1 - product)
    return lr * m / (torch.sqrt(v / (1 - beta_2 ** step)) + epsilon)


def rmsprop(g, slots, lr, step, rho=0.9, momentum=0.0, epsilon=1e-7, centered=False):
    slots["square"] = rho * slot(slots, "square", g) + (1 - rho) * g * g
    denominator = slots["square"] + epsilon
    if centered:
        slots["mean"] = rho * slot(slots, "mean", g) + (1 - rho) * g
        denominator = slots["square"] - slots["mean"] ** 2 + epsilon
    change = lr * g / torch.sqrt(denominator)
    if momentum == 0:
        return change
    slots["momentum"] = momentum * slot(slots, "momentum", g) + change
    return slots["momentum"]


def adagrad(g, slots, lr, step, initial_accumulator_value=0.1, epsilon=1e-7):
    slots["sum"] = slot(slots, "sum", g, initial_accumulator_value) + g * g
    return lr * g / torch.sqrt(slots["sum"] + epsilon)


def adadelta(g, slots, lr, step, rho=0.95, epsilon=1e-7):
    slots["square"] = rho * slot(slots, "square", g) + (1 - rho) * g * g
    change = torch.sqrt(slot(slots, "change", g) + epsilon) * g / torch.sqrt(slots["square"] + epsilon)
    slots["change"] = rho * slots["change"] + (1 - rho) * change * change
    return lr * change


def lion(g, slots, lr, step, beta_1=0.9, beta_2=0.99):
    change = lr * torch.sign(slot(slots, "m", g) * beta_1 + g * (1 - beta_1))
    slots["m"] = slots["m"] * beta_2 + g * (1 - beta_2)
    return change


RULES = {"SGD": (sgd, 0.01), "Adam": (adam, 0.001), "AdamW": (adam, 0.001), "Nadam": (nadam, 0.001),
         "RMSprop": (rmsprop, 0.001), "Adagrad": (adagrad, 0.001), "Adadelta": (adadelta, 0.001), "Lion": (lion, 0.001)}


class Optimizer:
    def __init__(self, class_name, **config):
        self.rule, default_rate = RULES[class_name]
        if class_name == "AdamW":
            config.setdefault("weight_decay", 0.004)
        self.rate = config.pop("learning_rate", default_rate)
        self.common = {key: config.pop(key, value) for key, value in COMMON.items()}
        self.config, self.step, self.slots, self.means = config, 0, {}, {}

    def clipped(self, gradients):
        c = self.common
        norm = lambda tensors: math.sqrt(sum(float((t * t).sum()) for t in tensors))
        shrunk = lambda g, length, most: g * most / length if length > most else g
        if c["clipnorm"] is not None:
            return {name: shrunk(g, norm([g]), c["clipnorm"]) for name, g in gradients.items()}
        if c["global_clipnorm"] is not None:
            length = norm(gradients.values())
            return {name: shrunk(g, length, c["global_clipnorm"]) for name, g in gradients.items()}
        if c["clipvalue"] is not None:
            return {name: g.clamp(-c["clipvalue"], c["clipvalue"]) for name, g in gradients.items()}
        return gradients

    def apply(self, weights, gradients):
        """The weights after one step; both are dicts of tensors by name."""
        rate, c = rate_at(self.rate, self.step), self.common
        self.step += 1
        result = {}
        for name, g in self.clipped(gradients).items():
            w = weights[name]
            if c["weight_decay"] is not None:
                w = w - w * c["weight_decay"] * rate
            w = w - self.rule(g, self.slots.setdefault(name, {}), rate, self.step, **self.config)
            if c["use_ema"]:
                # Before the first step the mean counts nothing; it starts from the first weights it sees.
                share = c["ema_momentum"] if name in self.means else 0.0
                self.means[name] = share * self.means.get(name, 0.0) + (1 - share) * w
                frequency = c["ema_overwrite_frequency"]
                if frequency and self.step % frequency == 0:
                    w = self.means[name]
            result[name] = w
        return result
