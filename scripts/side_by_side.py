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
import typing

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


class Run(typing.NamedTuple):
    seconds: float
    cpu_seconds: float  # of the command and all it waited for
    events: list  # the JSON lines it printed


def side_by_side(commands, here, watch=None):
    """A Run for each. `watch(index, pid)` is called now and then while a command runs."""
    cores = sorted(os.sched_getaffinity(0))[:len(commands)]
    files = [tempfile.TemporaryFile("w+") for _ in commands]
    children = [subprocess.Popen(command, cwd=here, stdout=file) for command, file in zip(commands, files)]
    began, turn = time.monotonic(), 0
    running, ended = dict(enumerate(children)), {}

    def reap():
        for index, child in list(running.items()):
            pid, status, usage = os.wait4(child.pid, os.WNOHANG)
            if pid == 0:
                continue
            child.returncode = os.waitstatus_to_exitcode(status)
            if child.returncode != 0:
                raise SystemExit(f"{' '.join(commands[index])} ended with {child.returncode}")
            ended[index] = time.monotonic() - began, usage.ru_utime + usage.ru_stime
            del running[index]
            return True
        return False

    # While all run they change cores; whoever is left goes on changing too, so that the end is like the rest.
    while running:
        for index, child in running.items():
            pin(child.pid, cores[(index + turn) % len(cores)])
            if watch:
                watch(index, child.pid)
        until, turn = time.monotonic() + CORES_CHANGE_S, turn + 1
        while time.monotonic() < until and not reap():
            time.sleep(0.005)
    runs = []
    for index, file in enumerate(files):
        file.seek(0)
        runs.append(Run(*ended[index], read_events(file.read())))
    return runs


def compare(with_, without, pair, here, watch=None):
    """One pair, taking turns in who is first: the Run of `with_`, then that of `without`."""
    if pair % 2 == 0:
        return side_by_side([with_, without], here, watch)
    return side_by_side([without, with_], here, watch and (lambda index, pid: watch(1 - index, pid)))[::-1]
