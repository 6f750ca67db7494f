#!/usr/bin/env python3
"""Runs command-line cases from a .test file.

    run_cases.py BIN_DIRECTORY FILE.test

A case is a block of lines; cases of a file share one directory, filled by fixtures.py, and run in order.
    # comment
    $ command                 run by bash; $CASES is tests/data/keras_cases
    exit N                    expected exit code (0)
    out TEXT / err TEXT       stdout / stderr contains TEXT
    out~ REGEX / err~ REGEX   or matches REGEX
    present FILE / absent FILE
    same FILE FILE...         all byte-identical
    differ FILE FILE
Beyond that, no case may end by a signal, exit 70 (our bug), leave a *.tmp* file, or print to stdout when it fails.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import fixtures


def read_cases(path):
    block, start = [], 0
    for number, line in enumerate(path.read_text().splitlines() + [""], 1):
        if line.startswith("#"):
            continue
        if line.strip():
            block.append(line)
            start = start or number
        elif block:
            yield start, block
            block, start = [], 0


def check(line, out, err, here):
    kind, _, text = line.partition(" ")
    if kind in ("out", "err"):
        stream = out if kind == "out" else err
        return text in stream or f"std{kind} lacks '{text}'"
    if kind in ("out~", "err~"):
        stream = out if kind == "out~" else err
        return re.search(text, stream, re.M) is not None or f"std{kind[:3]} does not match '{text}'"
    if kind in ("present", "absent"):
        return (here / text).exists() == (kind == "present") or f"{text} is not {kind}"
    if kind in ("same", "differ"):
        missing = [name for name in text.split() if not (here / name).exists()]
        if missing:
            return f"no {missing}"
        contents = {(here / name).read_bytes() for name in text.split()}
        return (len(contents) == 1) == (kind == "same") or f"not {kind}: {text}"
    raise SystemExit(f"unknown line in a case: {line}")


def run_case(block, here, environment):
    command = block[0].removeprefix("$ ")
    expected = 0
    checks = []
    for line in block[1:]:
        if line.startswith("exit "):
            expected = int(line.split()[1])
        else:
            checks.append(line)
    done = subprocess.run(["bash", "-c", command], cwd=here, env=environment, capture_output=True, timeout=600)
    out, err = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
    problems = []
    if done.returncode != expected:
        problems.append(f"exit code {done.returncode}, expected {expected}")
    if done.returncode in (1, 70) or done.returncode < 0 or done.returncode >= 126:
        problems.append("a crash or a bug of ours")
    if expected != 0 and out:
        problems.append("failed, but wrote to stdout")
    if expected != 0 and sum(line.startswith("error:") for line in err.splitlines()) > 1:
        problems.append("more than one error")
    leftovers = [str(p) for p in here.rglob("*tmp*")]
    if leftovers:
        problems.append(f"left {leftovers}")
    problems += [found for line in checks if (found := check(line, out, err, here)) is not True]
    if problems:
        print(f"$ {command}\n  " + "\n  ".join(problems))
        print("  --- stdout\n" + out[-1500:] + "  --- stderr\n" + err[-1500:])
    return not problems


def main():
    binaries, path = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
    failed = count = 0
    with tempfile.TemporaryDirectory() as directory:
        here = pathlib.Path(directory)
        fixtures.make(here)
        environment = dict(os.environ, PATH=f"{binaries}/bin:{binaries}/libexec/surefit:/usr/bin:/bin")
        environment["CASES"] = str(pathlib.Path(__file__).resolve().parent.parent / "data/keras_cases")
        environment.pop("SUREFIT_WORKER", None)
        for line, block in read_cases(path):
            count += 1
            if not run_case(block, here, environment):
                print(f"  at {path}:{line}\n")
                failed += 1
    print(f"{path.name}: {count - failed} of {count} cases passed")
    return 1 if failed or not count else 0


if __name__ == "__main__":
    sys.exit(main())
