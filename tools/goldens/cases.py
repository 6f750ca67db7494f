# SPDX-License-Identifier: Apache-2.0
"""What the goldens cover: (class, config, more). Configs leave out what should be Keras's default."""

# ---- layers: the third entry is the shape of each input, without the batch.

PICTURE = [7, 6, 5]
ROW = [13]
ODD_ACTIVATIONS = ["linear", "relu", "relu6", "leaky_relu", "sigmoid", "hard_sigmoid", "tanh", "elu", "selu", "gelu", "silu",
                   "swish", "hard_silu", "hard_swish", "mish", "softplus", "softsign", "exponential", "softmax"]

CONVOLUTIONS = [
    ("Conv2D", {"filters": 7, "kernel_size": 3}, [[5, 6, 3]]),
    ("Conv2D", {"filters": 8, "kernel_size": [3, 3], "padding": "same"}, [[5, 6, 8]]),
    ("Conv2D", {"filters": 3, "kernel_size": [2, 3], "padding": "same", "activation": "relu"}, [[5, 4, 5]]),
    ("Conv2D", {"filters": 3, "kernel_size": 3, "strides": 2, "padding": "same"}, [[8, 7, 5]]),
    ("Conv2D", {"filters": 5, "kernel_size": 4, "strides": [2, 3], "padding": "same", "activation": "tanh"}, [[7, 8, 3]]),
    ("Conv2D", {"filters": 4, "kernel_size": [1, 2], "strides": 2, "use_bias": False}, [[5, 6, 9]]),
    ("Conv2D", {"filters": 8, "kernel_size": 1, "strides": 2, "padding": "same"}, [[5, 4, 11]]),
    ("Conv2D", {"filters": 5, "kernel_size": 1}, [[3, 2, 13]]),
    ("Conv2D", {"filters": 6, "kernel_size": 3, "dilation_rate": 2}, [[7, 8, 3]]),
    ("Conv2D", {"filters": 3, "kernel_size": [3, 2], "dilation_rate": [2, 3], "padding": "same"}, [[6, 7, 4]]),
    ("Conv2D", {"filters": 6, "kernel_size": 3, "groups": 3, "padding": "same"}, [[4, 5, 6]]),
    ("Conv2D", {"filters": 16, "kernel_size": [2, 1], "groups": 2, "strides": [1, 2], "activation": "softmax"}, [[4, 5, 16]]),
    ("Conv2D", {"filters": 5, "kernel_size": 5, "groups": 5, "padding": "same", "dilation_rate": 2}, [[6, 5, 5]]),
    ("Conv2D", {"filters": 2, "kernel_size": [5, 4]}, [[5, 4, 3]]),
    ("DepthwiseConv2D", {"kernel_size": 3}, [[5, 6, 9]]),
    ("DepthwiseConv2D", {"kernel_size": 3, "strides": 2, "padding": "same"}, [[6, 7, 9]]),
    ("DepthwiseConv2D", {"kernel_size": [2, 4], "padding": "same", "depth_multiplier": 3, "activation": "relu"}, [[5, 4, 3]]),
    ("DepthwiseConv2D", {"kernel_size": 3, "dilation_rate": 2, "padding": "same", "use_bias": False}, [[6, 5, 8]]),
    ("SeparableConv2D", {"filters": 4, "kernel_size": 3}, [[5, 6, 5]]),
    ("SeparableConv2D", {"filters": 5, "kernel_size": 2, "strides": 2, "padding": "same", "depth_multiplier": 2,
                         "activation": "elu"}, [[5, 6, 3]]),
    ("SeparableConv2D", {"filters": 3, "kernel_size": 3, "dilation_rate": 2, "padding": "same", "use_bias": False},
     [[6, 5, 4]]),
    ("Conv2DTranspose", {"filters": 4, "kernel_size": 2, "strides": 2}, [[3, 4, 5]]),
    ("Conv2DTranspose", {"filters": 8, "kernel_size": 3, "padding": "same"}, [[4, 3, 5]]),
    ("Conv2DTranspose", {"filters": 3, "kernel_size": 3, "strides": 2, "padding": "same", "activation": "relu"}, [[3, 4, 8]]),
    ("Conv2DTranspose", {"filters": 3, "kernel_size": 4, "strides": 2, "padding": "same"}, [[3, 4, 5]]),
    ("Conv2DTranspose", {"filters": 5, "kernel_size": [3, 5], "strides": [3, 2], "use_bias": False}, [[3, 2, 4]]),
    ("Conv2DTranspose", {"filters": 3, "kernel_size": [1, 2], "strides": 3}, [[3, 2, 4]]),
    ("Conv2DTranspose", {"filters": 3, "kernel_size": 2, "strides": 3, "padding": "same"}, [[2, 3, 4]]),
    ("Conv2DTranspose", {"filters": 3, "kernel_size": [4, 3], "strides": 3, "padding": "same", "output_padding": [1, 2]},
     [[3, 4, 5]]),
    ("Conv2DTranspose", {"filters": 3, "kernel_size": 3, "strides": 2, "output_padding": 1}, [[3, 4, 5]]),
    ("Conv2DTranspose", {"filters": 4, "kernel_size": 3, "dilation_rate": 2}, [[4, 3, 5]]),
    ("Conv2DTranspose", {"filters": 4, "kernel_size": 3, "dilation_rate": 2, "padding": "same"}, [[5, 6, 3]]),
]

POOLS = [
    (kind, config, [shape])
    for kind in ("MaxPooling2D", "AveragePooling2D")
    for config, shape in (({"pool_size": 2}, [7, 6, 5]),
                          ({"pool_size": 3, "strides": 2, "padding": "same"}, [7, 6, 9]),
                          ({"pool_size": [3, 2], "strides": [2, 1]}, [6, 5, 8]),
                          ({"pool_size": 2, "padding": "same"}, [5, 7, 3]),
                          ({"pool_size": [2, 4], "strides": 3, "padding": "same"}, [5, 8, 4]))
] + [(kind, config, [[5, 4, 9]]) for kind in ("GlobalAveragePooling2D", "GlobalMaxPooling2D") for config in ({}, {"keepdims": True})]

NORMALIZATIONS = [
    ("BatchNormalization", {}, [[4, 5, 9]]),
    ("BatchNormalization", {"momentum": 0.9, "epsilon": 1e-5}, [ROW]),
    ("BatchNormalization", {"momentum": 0.5, "epsilon": 0.1, "center": False, "axis": 3}, [[3, 4, 8]]),
    ("BatchNormalization", {"scale": False}, [[3, 4, 3]]),
    ("LayerNormalization", {}, [ROW]),
    ("LayerNormalization", {"epsilon": 1e-2, "center": False}, [[3, 4, 5]]),
    ("LayerNormalization", {"axis": [1, 2, 3]}, [[3, 4, 5]]),
    ("LayerNormalization", {"axis": [-2, -1], "scale": False}, [[3, 4, 5]]),
    ("GroupNormalization", {"groups": 3}, [[4, 3, 9]]),
    ("GroupNormalization", {"groups": -1, "epsilon": 1e-5}, [[4, 3, 5]]),
    ("GroupNormalization", {"groups": 1, "scale": False}, [[4, 3, 5]]),
    ("GroupNormalization", {"groups": 4, "center": False}, [[12]]),
    ("Rescaling", {"scale": 0.25}, [[3, 4, 5]]),
    ("Rescaling", {"scale": 2.0, "offset": -1.5}, [ROW]),
    ("Rescaling", {"scale": [0.5, 2.0, 4.0], "offset": [-1.5, 0.0, 1.0]}, [[3, 4, 3]]),
    ("Normalization", {}, [[3, 4, 5]]),
    ("Normalization", {"mean": [0.5, -1.0, 2.0], "variance": [0.25, 4.0, 0.0625]}, [[3, 4, 3]]),
    ("Normalization", {"axis": None, "mean": 0.5, "variance": 4.0, "invert": True}, [ROW]),
]

SHAPES = [
    ("Dense", {"units": 7}, [[19]]),
    ("Dense", {"units": 5, "activation": "softmax", "use_bias": False}, [ROW]),
    ("Dense", {"units": 4, "activation": "gelu"}, [[3, 4, 5]]),
    ("Dense", {"units": 9, "use_bias": False}, [[4, 8]]),
    ("Flatten", {}, [[3, 4, 5]]),
    ("Flatten", {}, [ROW]),
    ("Reshape", {"target_shape": [4, 15]}, [[3, 4, 5]]),
    ("Reshape", {"target_shape": [2, -1, 5]}, [[3, 4, 5]]),
    ("Permute", {"dims": [3, 1, 2]}, [[3, 4, 5]]),
    ("Permute", {"dims": [2, 1]}, [[4, 7]]),
    ("UpSampling2D", {}, [[3, 4, 5]]),
    ("UpSampling2D", {"size": [3, 1]}, [[3, 4, 9]]),
    ("UpSampling2D", {"interpolation": "bilinear"}, [[3, 4, 5]]),
    ("UpSampling2D", {"size": [3, 4], "interpolation": "bilinear"}, [[4, 3, 3]]),
    ("ZeroPadding2D", {}, [[3, 4, 5]]),
    ("ZeroPadding2D", {"padding": [2, 1]}, [[3, 4, 5]]),
    ("ZeroPadding2D", {"padding": [[0, 1], [2, 0]]}, [[3, 4, 9]]),
    ("Cropping2D", {}, [[3, 4, 5]]),
    ("Cropping2D", {"cropping": [1, 2]}, [[5, 6, 3]]),
    ("Cropping2D", {"cropping": [[0, 1], [2, 1]]}, [[3, 5, 9]]),
]

MERGES = [(kind, {}, shapes)
          for kind in ("Add", "Multiply", "Average", "Maximum", "Minimum")
          for shapes in ([[3, 4, 5]] * 3, [[3, 4, 9], [1, 1, 9]])
          ] + [
    ("Subtract", {}, [[3, 4, 5]] * 2),
    ("Subtract", {}, [[1, 4, 5], [3, 4, 1]]),
    ("Concatenate", {}, [[3, 4, 5], [3, 4, 2], [3, 4, 8]]),
    ("Concatenate", {"axis": 1}, [[3, 4, 5], [2, 4, 5]]),
    ("Concatenate", {"axis": -2}, [[3, 1, 3], [3, 4, 3]]),
    ("Concatenate", {}, [ROW, [6]]),
]

ACTIVATION_LAYERS = [("Activation", {"activation": name}, [[2, 3, 7]]) for name in ODD_ACTIVATIONS] + [
    ("ReLU", {}, [[3, 2, 5]]),
    ("ReLU", {"max_value": 0.5, "negative_slope": 0.1, "threshold": 0.25}, [[3, 2, 5]]),
    ("ReLU", {"max_value": 6.0}, [ROW]),
    ("ReLU", {"negative_slope": 0.25}, [ROW]),
    ("LeakyReLU", {}, [[3, 2, 5]]),
    ("LeakyReLU", {"negative_slope": 0.01}, [ROW]),
    ("PReLU", {}, [[3, 2, 5]]),
    ("PReLU", {"shared_axes": [1, 2]}, [[3, 4, 9]]),
    ("ELU", {}, [[3, 2, 5]]),
    ("ELU", {"alpha": 0.5}, [ROW]),
    ("Softmax", {}, [ROW]),
    ("Softmax", {"axis": 3}, [[3, 2, 5]]),
]

FIXED = [{"fill_mode": mode, "interpolation": how, "fill_value": 0.5}
         for mode, how in (("reflect", "bilinear"), ("wrap", "bilinear"), ("nearest", "bilinear"), ("constant", "bilinear"),
                           ("constant", "nearest"))]
DRAWN = [
    ("InputLayer", {"shape": [3, 4, 5]}, [[3, 4, 5]]),
    ("Dropout", {"rate": 0.0}, [[3, 4, 5]]),
    ("SpatialDropout2D", {"rate": 0.0}, [[3, 4, 5]]),
    ("GaussianNoise", {"stddev": 0.0}, [[3, 4, 5]]),
    ("RandomCrop", {"height": 5, "width": 4}, [[5, 4, 3]]),
] + [("RandomTranslation", {"height_factor": [0.28, 0.28], "width_factor": [-0.21, -0.21], **more}, [[5, 6, 3]])
     for more in FIXED] + [("RandomRotation", {"factor": [0.07, 0.07], **more}, [[5, 6, 3]]) for more in FIXED]

# Those whose training is drawn: only what they do in evaluation is certain.
EVALUATED = [
    ("Dropout", {"rate": 0.4}, [[3, 4, 5]]),
    ("SpatialDropout2D", {"rate": 0.4}, [[3, 4, 5]]),
    ("GaussianNoise", {"stddev": 0.3}, [[3, 4, 5]]),
    ("RandomFlip", {}, [[3, 4, 5]]),
    ("RandomCrop", {"height": 4, "width": 3}, [[7, 6, 3]]),
    ("RandomTranslation", {"height_factor": [-0.3, 0.3], "width_factor": [0.1, 0.2]}, [[5, 6, 3]]),
    ("RandomRotation", {"factor": [-0.3, 0.3]}, [[5, 6, 3]]),
]

LAYER_FAMILIES = {"convolution": CONVOLUTIONS, "pooling": POOLS, "normalization": NORMALIZATIONS, "shapes": SHAPES,
                  "merging": MERGES, "activations": ACTIVATION_LAYERS, "drawn": DRAWN}

# ---- losses: the third entry is the prediction's shape with the batch and what it holds.

LOSSES = [
    ("SparseCategoricalCrossentropy", {}, [6, 7], "shares"),
    ("SparseCategoricalCrossentropy", {"from_logits": True}, [6, 7], "logits"),
    ("SparseCategoricalCrossentropy", {"from_logits": True}, [3, 4, 5, 3], "logits"),
    ("CategoricalCrossentropy", {}, [6, 7], "shares"),
    ("CategoricalCrossentropy", {}, [6, 7], "probabilities"),
    ("CategoricalCrossentropy", {"from_logits": True, "label_smoothing": 0.1}, [6, 7], "logits"),
    ("CategoricalCrossentropy", {"label_smoothing": 0.2}, [3, 4, 5, 3], "shares"),
    ("BinaryCrossentropy", {}, [6, 1], "probabilities"),
    ("BinaryCrossentropy", {}, [6, 3], "extremes"),
    ("BinaryCrossentropy", {"from_logits": True}, [3, 4, 5, 1], "logits"),
    ("BinaryCrossentropy", {"label_smoothing": 0.2}, [6, 5], "probabilities"),
    ("MeanSquaredError", {}, [6, 5], "values"),
    ("MeanSquaredError", {}, [2, 3, 4, 5], "values"),
    ("MeanAbsoluteError", {}, [6, 5], "values"),
    ("Huber", {}, [6, 5], "values"),
    ("Huber", {"delta": 0.3}, [2, 3, 4, 2], "values"),
    ("KLDivergence", {}, [6, 5], "soft"),
    ("KLDivergence", {}, [2, 3, 4, 3], "soft"),
    ("BinaryFocalCrossentropy", {}, [6, 5], "probabilities"),
    ("BinaryFocalCrossentropy", {"apply_class_balancing": True, "alpha": 0.4, "gamma": 1.5, "label_smoothing": 0.1}, [6, 5],
     "probabilities"),
    ("BinaryFocalCrossentropy", {"from_logits": True, "gamma": 3.0}, [2, 3, 4, 1], "logits"),
    ("CategoricalFocalCrossentropy", {}, [6, 5], "shares"),
    ("CategoricalFocalCrossentropy", {"alpha": 0.5, "gamma": 1.0, "from_logits": True, "label_smoothing": 0.1}, [6, 5],
     "logits"),
    ("Dice", {}, [3, 4, 5, 2], "probabilities"),
    ("Dice", {"axis": [1, 2, 3]}, [3, 4, 5, 2], "probabilities"),
]

# ---- metrics: as above, and the loss whose labels they get.

METRICS = [
    ("Accuracy", {}, [40, 5], "shares", "SparseCategoricalCrossentropy"),
    ("Accuracy", {}, [40, 5], "shares", "CategoricalCrossentropy"),
    ("Accuracy", {}, [40, 1], "probabilities", "BinaryCrossentropy"),
    ("Accuracy", {}, [3, 4, 5, 3], "shares", "SparseCategoricalCrossentropy"),
    ("TopKCategoricalAccuracy", {}, [40, 9], "shares", "CategoricalCrossentropy"),
    ("TopKCategoricalAccuracy", {"k": 2}, [40, 5], "shares", "SparseCategoricalCrossentropy"),
    ("Precision", {}, [40, 1], "probabilities", "BinaryCrossentropy"),
    ("Precision", {"thresholds": 0.7}, [40, 3], "probabilities", "BinaryCrossentropy"),
    ("Recall", {}, [40, 1], "probabilities", "BinaryCrossentropy"),
    ("Recall", {"thresholds": 0.3}, [3, 4, 5, 1], "probabilities", "BinaryCrossentropy"),
    ("AUC", {}, [200, 1], "probabilities", "BinaryCrossentropy"),
    ("AUC", {"num_thresholds": 7}, [40, 1], "probabilities", "BinaryCrossentropy"),
    ("AUC", {}, [40, 1], "extremes", "BinaryCrossentropy"),
    ("F1Score", {"average": "macro"}, [40, 4], "shares", "CategoricalCrossentropy"),
    ("F1Score", {"average": "macro"}, [5, 9], "shares", "CategoricalCrossentropy"),
    ("F1Score", {"average": "micro"}, [40, 4], "shares", "CategoricalCrossentropy"),
    ("F1Score", {"average": "weighted"}, [40, 4], "shares", "CategoricalCrossentropy"),
    ("F1Score", {"average": "macro", "threshold": 0.6}, [40, 3], "probabilities", "BinaryCrossentropy"),
    ("MeanIoU", {"num_classes": 3}, [3, 4, 5, 3], "shares", "SparseCategoricalCrossentropy"),
    ("MeanIoU", {"num_classes": 9}, [2, 3, 3, 9], "shares", "SparseCategoricalCrossentropy"),
    ("MeanIoU", {"num_classes": 2}, [3, 4, 5, 1], "probabilities", "BinaryCrossentropy"),
    ("MeanSquaredErrorMetric", {}, [9, 5], "values", "MeanSquaredError"),
    ("MeanAbsoluteErrorMetric", {}, [2, 3, 4, 5], "values", "MeanSquaredError"),
]

# ---- optimizers

COSINE = {"class_name": "CosineDecay", "config": {"initial_learning_rate": 0.02, "decay_steps": 5, "alpha": 0.1}}
STEPS = {"class_name": "PiecewiseConstantDecay", "config": {"boundaries": [1, 3], "values": [0.05, 0.02, 0.1]}}
OPTIMIZERS = [
    ("SGD", {}),
    ("SGD", {"learning_rate": 0.05, "momentum": 0.9}),
    ("SGD", {"learning_rate": STEPS, "momentum": 0.8, "nesterov": True, "weight_decay": 0.1}),
    ("SGD", {"learning_rate": 0.1, "clipnorm": 1.5}),
    ("SGD", {"learning_rate": 0.1, "clipnorm": 100.0}),
    ("SGD", {"learning_rate": 0.1, "global_clipnorm": 2.0}),
    ("SGD", {"learning_rate": 0.1, "clipvalue": 0.4}),
    ("SGD", {"learning_rate": 0.1, "use_ema": True, "ema_momentum": 0.7, "ema_overwrite_frequency": 2}),
    ("Adam", {}),
    ("Adam", {"learning_rate": COSINE, "beta_1": 0.8, "beta_2": 0.9, "epsilon": 1e-3}),
    ("Adam", {"learning_rate": 0.01, "beta_2": 0.6, "amsgrad": True, "weight_decay": 0.05}),
    ("Adam", {"learning_rate": 0.01, "global_clipnorm": 1.0, "use_ema": True, "ema_overwrite_frequency": 3}),
    ("AdamW", {}),
    ("AdamW", {"learning_rate": 0.01, "weight_decay": 0.2, "clipnorm": 1.0}),
    ("Nadam", {}),
    ("Nadam", {"learning_rate": 0.01, "beta_1": 0.7, "beta_2": 0.9, "epsilon": 1e-4, "weight_decay": 0.1}),
    ("RMSprop", {}),
    ("RMSprop", {"learning_rate": 0.01, "rho": 0.8, "momentum": 0.5}),
    ("RMSprop", {"learning_rate": 0.01, "rho": 0.7, "momentum": 0.3, "epsilon": 1e-4, "centered": True}),
    ("RMSprop", {"learning_rate": 0.01, "centered": True, "clipvalue": 0.3}),
    ("Adagrad", {}),
    ("Adagrad", {"learning_rate": 0.1, "initial_accumulator_value": 0.5, "epsilon": 1e-3, "clipnorm": 2.0}),
    ("Adadelta", {}),
    ("Adadelta", {"learning_rate": 1.0, "rho": 0.8, "epsilon": 1e-3, "weight_decay": 0.01}),
    ("Lion", {}),
    ("Lion", {"learning_rate": 0.01, "beta_1": 0.7, "beta_2": 0.8, "weight_decay": 0.1}),
]

SCHEDULES = [
    ("ExponentialDecay", {"initial_learning_rate": 0.1, "decay_steps": 10, "decay_rate": 0.5}),
    ("ExponentialDecay", {"initial_learning_rate": 0.1, "decay_steps": 7, "decay_rate": 0.9, "staircase": True}),
    ("InverseTimeDecay", {"initial_learning_rate": 0.1, "decay_steps": 10, "decay_rate": 0.5}),
    ("InverseTimeDecay", {"initial_learning_rate": 0.1, "decay_steps": 7, "decay_rate": 2.0, "staircase": True}),
    ("PiecewiseConstantDecay", {"boundaries": [5, 20, 30], "values": [1.0, 0.5, 0.25, 0.125]}),
    ("PolynomialDecay", {"initial_learning_rate": 0.1, "decay_steps": 30}),
    ("PolynomialDecay", {"initial_learning_rate": 0.1, "decay_steps": 12, "end_learning_rate": 0.01, "power": 2.0,
                         "cycle": True}),
    ("CosineDecay", {"initial_learning_rate": 0.1, "decay_steps": 30}),
    ("CosineDecay", {"initial_learning_rate": 0.01, "decay_steps": 20, "alpha": 0.1, "warmup_target": 0.2,
                     "warmup_steps": 8}),
    ("CosineDecayRestarts", {"initial_learning_rate": 0.1, "first_decay_steps": 8}),
    ("CosineDecayRestarts", {"initial_learning_rate": 0.1, "first_decay_steps": 5, "t_mul": 1.5, "m_mul": 0.8, "alpha": 0.2}),
    ("CosineDecayRestarts", {"initial_learning_rate": 0.1, "first_decay_steps": 6, "t_mul": 1.0, "m_mul": 0.5}),
]
