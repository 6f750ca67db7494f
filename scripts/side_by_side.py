"""Runs commands at the same time on changing cores, to compare how long they take.

Shared machines change their speed by half from one minute to the next, so runs one after the other compare the neighbours.
Here all run at once with one thread each and change cores four times a second: whatever slows a core down slows all of them
down. Everything a command starts stays on its core.
"""
import json
import os
import subprocess
import sys
import tempfile
import time

CORES_CHANGE_S = 0.25


def read_events(text):
    return [json.loads(line) for line in text.splitlines()]


def tree_of(pid):
    """The process and its descendants, by thread."""
    threads = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            threads.append(int(thread))
            with open(f"/proc/{pid}/task/{thread}/children") as file:
                for child in file.read().split():
                    threads += tree_of(int(child))
    except (FileNotFoundError, ProcessLookupError):
        pass  # ended just now
    return threads


def pin(pid, core):
    for thread in tree_of(pid):
        try:
            os.sched_setaffinity(thread, {core})
        except ProcessLookupError:
            pass


def need_cores(count):
    if len(os.sched_getaffinity(0)) < count:
        raise SystemExit(f"{os.path.basename(sys.argv[0])}: needs {count} cores, one for each side")


def side_by_side(commands, here, watch=None):
    """Their times and the JSON lines they printed. `watch(index, pid)` is called now and then while a command runs."""
    cores = sorted(os.sched_getaffinity(0))[:len(commands)]
    files = [tempfile.TemporaryFile("w+") for _ in commands]
    children = [subprocess.Popen(command, cwd=here, stdout=file) for command, file in zip(commands, files)]
    began, ended, turn = time.monotonic(), {}, 0
    while len(ended) < len(children):
        for index, child in enumerate(children):
            if index in ended:
                continue
            if child.poll() is not None:
                if child.returncode != 0:
                    raise SystemExit(f"{' '.join(commands[index])} ended with {child.returncode}")
                ended[index] = time.monotonic() - began
                continue
            pin(child.pid, cores[(index + turn) % len(cores)])
            if watch:
                watch(index, child.pid)
        # While all run they change cores; whoever is left goes on changing too, so that the end is like the rest.
        until, turn = time.monotonic() + CORES_CHANGE_S, turn + 1
        while time.monotonic() < until and all(c.poll() is None for i, c in enumerate(children) if i not in ended):
            time.sleep(0.005)
    texts = []
    for file in files:
        file.seek(0)
        texts.append(file.read())
    return [ended[index] for index in range(len(children))], [read_events(text) for text in texts]


def compare(with_, without, pair, here, watch=None):
    """One pair, taking turns in who is first. Times and events, those of `with_` first."""
    order = [with_, without] if pair % 2 == 0 else [without, with_]
    if watch and pair % 2 == 1:
        swapped = watch
        watch = lambda index, pid: swapped(1 - index, pid)
    times, texts = side_by_side(order, here, watch)
    return (times, texts) if pair % 2 == 0 else (times[::-1], texts[::-1])
