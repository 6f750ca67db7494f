# SPDX-License-Identifier: Apache-2.0
"""Keras 3's losses (torch, per sample) and metrics (numpy), written from its documentation."""
import numpy
import torch
from torch.nn import functional

EPSILON = 1e-7  # keras.config.epsilon()


def per_sample(values):
    """The mean over all axes but the batch's."""
    return values.reshape(values.shape[0], -1).mean(1)


def probabilities(p):
    # Keras clips in float32, where 1 - 1e-7 is 1 - 2^-23.
    return torch.clamp(p, EPSILON, 1 - 2.0 ** -23)


def shares(p, from_logits):
    """Softmax of logits; probabilities are divided by their sum."""
    return torch.softmax(p, -1) if from_logits else p / p.sum(-1, keepdim=True)


# ---- losses: (target, prediction) -> a number per sample

def sparse_categorical_crossentropy(t, p, from_logits=False):
    return categorical_crossentropy(functional.one_hot(t.long(), p.shape[-1]).to(p.dtype), p, from_logits)


def categorical_crossentropy(t, p, from_logits=False, label_smoothing=0.0):
    t = t * (1 - label_smoothing) + label_smoothing / p.shape[-1]
    logs = torch.log_softmax(p, -1) if from_logits else torch.log(probabilities(shares(p, False)))
    return per_sample(-(t * logs).sum(-1))


def binary_terms(t, p, from_logits):
    if from_logits:
        return functional.softplus(-p) * t + functional.softplus(p) * (1 - t)
    p = probabilities(p)
    return -(t * torch.log(p) + (1 - t) * torch.log(1 - p))


def binary_crossentropy(t, p, from_logits=False, label_smoothing=0.0):
    t = t * (1 - label_smoothing) + 0.5 * label_smoothing
    return per_sample(binary_terms(t, p, from_logits))


def binary_focal_crossentropy(t, p, apply_class_balancing=False, alpha=0.25, gamma=2.0, from_logits=False,
                              label_smoothing=0.0):
    t = t * (1 - label_smoothing) + 0.5 * label_smoothing
    p = torch.sigmoid(p) if from_logits else p
    truth = t * p + (1 - t) * (1 - p)
    terms = torch.pow(1 - truth, gamma) * binary_terms(t, p, False)
    return per_sample(terms * (t * alpha + (1 - t) * (1 - alpha)) if apply_class_balancing else terms)


def categorical_focal_crossentropy(t, p, alpha=0.25, gamma=2.0, from_logits=False, label_smoothing=0.0):
    t = t * (1 - label_smoothing) + label_smoothing / p.shape[-1]
    q = probabilities(shares(p, from_logits))
    return per_sample((-t * alpha * torch.pow(1 - q, gamma) * torch.log(q)).sum(-1))


def mean_squared_error(t, p):
    return per_sample((t - p) ** 2)


def mean_absolute_error(t, p):
    return per_sample((t - p).abs())


def huber(t, p, delta=1.0):
    error = (t - p).abs()
    return per_sample(torch.where(error <= delta, 0.5 * error ** 2, delta * error - 0.5 * delta ** 2))


def kl_divergence(t, p):
    t, p = torch.clamp(t, EPSILON, 1), torch.clamp(p, EPSILON, 1)
    return per_sample((t * torch.log(t / p)).sum(-1))


def dice(t, p, axis=None):
    axes = list(range(t.dim())) if axis is None else axis
    both, all_ = (t * p).sum(axes), t.sum(axes) + p.sum(axes)
    loss = 1 - (2 * both + EPSILON) / (all_ + EPSILON)
    return loss.expand(t.shape[0]) if axis is None else loss


LOSSES = {"SparseCategoricalCrossentropy": sparse_categorical_crossentropy,
          "CategoricalCrossentropy": categorical_crossentropy,
          "BinaryCrossentropy": binary_crossentropy,
          "BinaryFocalCrossentropy": binary_focal_crossentropy,
          "CategoricalFocalCrossentropy": categorical_focal_crossentropy,
          "MeanSquaredError": mean_squared_error,
          "MeanAbsoluteError": mean_absolute_error,
          "Huber": huber,
          "KLDivergence": kl_divergence,
          "Dice": dice}


# ---- metrics: (target, prediction) -> one number over everything given

def accuracy(t, p):
    if p.shape[-1] == 1:
        return numpy.mean((p > 0.5) == (t > 0.5))
    labels = t if t.ndim < p.ndim else t.argmax(-1)
    return numpy.mean(p.argmax(-1) == labels)


def top_k_categorical_accuracy(t, p, k=5):
    labels = t if t.ndim < p.ndim else t.argmax(-1)
    own = numpy.take_along_axis(p, labels[..., None].astype(int), -1)
    return numpy.mean((p > own).sum(-1) < k)


def safe_ratio(part, whole):
    return part / whole if whole > 0 else 0.0


def precision(t, p, thresholds=0.5):
    predicted = p > thresholds
    return safe_ratio((predicted & (t > 0.5)).sum(), predicted.sum())


def recall(t, p, thresholds=0.5):
    return safe_ratio(((p > thresholds) & (t > 0.5)).sum(), (t > 0.5).sum())


def auc(t, p, num_thresholds=200):
    """Thresholds evenly between two just outside [0, 1]; trapezoids between the points of the curve."""
    inner = [(i + 1) / (num_thresholds - 1) for i in range(num_thresholds - 2)]
    truth, p, true_rates, false_rates = t.reshape(-1) > 0.5, p.reshape(-1), [], []
    for threshold in [-EPSILON, *inner, 1 + EPSILON]:
        true_rates.append(safe_ratio(((p > threshold) & truth).sum(), truth.sum()))
        false_rates.append(safe_ratio(((p > threshold) & ~truth).sum(), (~truth).sum()))
    return sum((false_rates[i] - false_rates[i + 1]) * (true_rates[i] + true_rates[i + 1]) / 2
               for i in range(num_thresholds - 1))


def f1_score(t, p, average="macro", threshold=None):
    """Of every class; a class that is neither there nor predicted has a score of 0."""
    p, t = p.reshape(-1, p.shape[-1]), t.reshape(-1, t.shape[-1]) > 0.5
    # Every score that equals the row's largest counts, as long as it is not 0.
    predicted = p > threshold if threshold is not None else (p == p.max(-1, keepdims=True)) & (numpy.abs(p) > 1e-9)
    counts = [(predicted & t).sum(0), (predicted & ~t).sum(0), (~predicted & t).sum(0)]
    if average == "micro":
        counts = [numpy.array([count.sum()]) for count in counts]
    precisions = counts[0] / (counts[0] + counts[1] + EPSILON)
    recalls = counts[0] / (counts[0] + counts[2] + EPSILON)
    scores = 2 * precisions * recalls / (precisions + recalls + EPSILON)
    if average == "weighted":
        weights = counts[0] + counts[2]
        return (scores * weights).sum() / (weights.sum() + EPSILON)
    return scores.mean()


def mean_io_u(t, p, num_classes):
    labels = (t > 0.5).astype(int) if p.shape[-1] == 1 else t.astype(int) if t.ndim < p.ndim else t.argmax(-1)
    predicted = (p > 0.5).astype(int) if p.shape[-1] == 1 else p.argmax(-1)
    matrix = numpy.zeros((num_classes, num_classes))
    numpy.add.at(matrix, (labels.reshape(-1), predicted.reshape(-1)), 1)
    either = matrix.sum(0) + matrix.sum(1) - matrix.diagonal()
    return (matrix.diagonal()[either > 0] / either[either > 0]).mean()


METRICS = {"Accuracy": accuracy,
           "TopKCategoricalAccuracy": top_k_categorical_accuracy,
           "Precision": precision,
           "Recall": recall,
           "AUC": auc,
           "F1Score": f1_score,
           "MeanIoU": mean_io_u,
           "MeanSquaredErrorMetric": lambda t, p: numpy.mean((t - p) ** 2),
           "MeanAbsoluteErrorMetric": lambda t, p: numpy.mean(numpy.abs(t - p))}
