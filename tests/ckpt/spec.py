#!/usr/bin/env python3
"""Reads what Surefit writes by the public safetensors specification alone, with nothing but Python's library.

    spec.py BUILD_DIRECTORY

A header of at most 100 MB whose JSON starts with '{'; no name twice; each range as long as dtype and shape say; ranges that
begin at 0, leave no hole and do not overlap; and the last one ends the file.
"""
import json
import pathlib
import struct
import subprocess
import sys
import tempfile

SIZES = {"BOOL": 1, "U8": 1, "I8": 1, "I16": 2, "U16": 2, "F16": 2, "I32": 4, "U32": 4, "F32": 4, "F64": 8, "I64": 8,
         "U64": 8}


def unique(pairs):
    names = [name for name, _ in pairs]
    assert len(names) == len(set(names)), "a name twice"
    return dict(pairs)


def check(data):
    (length,) = struct.unpack_from("<Q", data)
    assert 2 <= length <= min(100_000_000, len(data) - 8), "header length"
    text = data[8:8 + length]
    assert text[:1] == b"{", "header does not start with {"
    header = json.loads(text.decode("utf-8"), object_pairs_hook=unique)
    header.pop("__metadata__", None)
    end = 0
    for name, tensor in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        assert set(tensor) == {"dtype", "shape", "data_offsets"}, name
        count = 1
        for extent in tensor["shape"]:
            assert isinstance(extent, int) and extent >= 0, name
            count *= extent
        begin, stop = tensor["data_offsets"]
        assert begin == end, f"hole or overlap before {name}"
        assert stop - begin == count * SIZES[tensor["dtype"]], f"size of {name}"
        end = stop
    assert 8 + length + end == len(data), f"the last offset is {8 + length + end}, the file has {len(data)} bytes"
    return header


def refused(data):
    try:
        check(data)
    except AssertionError:
        return True
    return False


def main():
    worker = pathlib.Path(sys.argv[1]).resolve() / "libexec/surefit/surefit-train"
    with tempfile.TemporaryDirectory() as directory:
        here = pathlib.Path(directory)
        subprocess.run([worker, "train", "--model", "lenet5", "--input", "28x28x1", "--classes", "3", "--data",
                        "synthetic:28x28x1,3,60", "--validation", "synthetic:28x28x1,3,20", "--epochs", "2", "--run", "run",
                        "--checkpoint-every", "2steps", "--keep", "5", "--save", "w.safetensors", "--quiet", "--callback",
                        "early_stopping:restore_best_weights=true"],
                       cwd=here, check=True, stdout=subprocess.DEVNULL)
        checkpoints = sorted((here / "run/checkpoints").iterdir())
        assert len(checkpoints) >= 2, checkpoints
        for path in checkpoints:
            data = path.read_bytes()
            header = check(data)
            record = header["__surefit__"]
            assert record["dtype"] == "U8" and record["data_offsets"][1] == max(t["data_offsets"][1] for t in header.values())
            assert data[-record["shape"][0]:].startswith(b"SUREFIT\n")
            assert header["conv2d/kernel"]["dtype"] == "F32" and "optimizer/velocity/conv2d/kernel" in header
            assert refused(data + b"x") and refused(data[:-1]), "the check itself sees nothing"
        for path in (here / "w.safetensors", here / "run/best.safetensors"):
            assert "__surefit__" not in check(path.read_bytes())
    print(f"{len(checkpoints)} checkpoints and 2 weights files are safetensors")


if __name__ == "__main__":
    main()
