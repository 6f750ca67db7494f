#!/usr/bin/python3
"""The other side of bench/compare: steps of the same network in PyTorch, Adam, f32.

usage: torch_step.py JOB BATCH STEPS THREADS LAYOUT      (LAYOUT: nchw or channels_last)
Needs python3-torch and python3-torchvision. Prints one JSON object: seconds of each step, peak memory of the process.
"""
import json
import resource
import sys
import time

import torch
import torch.nn as nn
import torchvision


def seed_cnn(channels, side):
    return nn.Sequential(nn.Conv2d(channels, 32, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                         nn.Linear(32 * ((side - 2) // 2) ** 2, 10))


def resnet18_small():
    net = torchvision.models.resnet18(num_classes=10)
    net.conv1, net.maxpool = nn.Conv2d(3, 64, 3, padding=1, bias=False), nn.Identity()
    return net


JOBS = {
    "seed_cnn": (lambda: seed_cnn(1, 28), (1, 28, 28), 10),
    "seed_cnn@224": (lambda: seed_cnn(3, 224), (3, 224, 224), 10),
    "resnet18": (resnet18_small, (3, 32, 32), 10),
    "resnet50": (torchvision.models.resnet50, (3, 224, 224), 1000),
    "vgg16": (torchvision.models.vgg16, (3, 224, 224), 1000),
    "mobilenet_v2": (torchvision.models.mobilenet_v2, (3, 224, 224), 1000),
}


def main():
    job, batch, steps, threads, layout = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    make, shape, classes = JOBS[job]
    net = make().train()
    base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    pictures, labels = torch.randn(batch, *shape), torch.randint(0, classes, (batch,))
    if layout == "channels_last":
        net = net.to(memory_format=torch.channels_last)
        pictures = pictures.to(memory_format=torch.channels_last)
    optimizer, loss = torch.optim.Adam(net.parameters(), 1e-3), nn.CrossEntropyLoss()
    seconds = []
    for _ in range(steps + 1):
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        loss(net(pictures), labels).backward()
        optimizer.step()
        seconds.append(time.perf_counter() - start)
    weights = sum(p.numel() * 4 for p in net.parameters())
    print(json.dumps({"seconds": seconds[1:], "weights_bytes": weights, "base_bytes": base * 1024,
                      "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))


if __name__ == "__main__":
    main()
