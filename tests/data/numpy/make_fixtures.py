#!/usr/bin/python3
"""Writes the numpy fixtures beside this file. Needs python3-numpy; the results are committed."""
import os
import zipfile

import numpy as np

here = os.path.dirname(os.path.abspath(__file__))
codes = ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]


def sample(code, shape=(2, 3, 4)):
    # Element i has the value i - 5 (i for unsigned types); every reader can check that without numpy.
    count = int(np.prod(shape))
    values = np.arange(count) - (0 if code.startswith("u") else 5)
    return values.astype(code).reshape(shape)


arrays = {}
for code in codes:
    arrays["little_" + code] = sample(code).astype("<" + code)
    arrays["big_" + code] = sample(code).astype(">" + code)
    arrays["fortran_" + code] = np.asfortranarray(sample(code))
arrays["bool"] = (np.arange(24) % 3 == 0).reshape(2, 3, 4)
arrays["scalar"] = np.float32(-5)
arrays["empty"] = np.zeros((0, 3), np.float32)
np.savez(os.path.join(here, "stored.npz"), **arrays)
np.savez_compressed(os.path.join(here, "deflated.npz"), **arrays)
np.save(os.path.join(here, "plain.npy"), sample("f4"))
with open(os.path.join(here, "version2.npy"), "wb") as f:
    np.lib.format.write_array(f, sample("f4"), version=(2, 0))
np.save(os.path.join(here, "object.npy"), np.array([{"a": 1}], dtype=object), allow_pickle=True)
np.save(os.path.join(here, "structured.npy"), np.zeros(2, dtype=[("a", "<f4"), ("b", "<i4")]))
np.save(os.path.join(here, "complex.npy"), np.zeros(2, dtype="c8"))
np.save(os.path.join(here, "text.npy"), np.array(["ab", "c"]))
# As a program that streams writes them: sizes behind the data and in zip64 fields.
with zipfile.ZipFile(os.path.join(here, "zip64.npz"), "w") as archive:
    with archive.open("x.npy", "w", force_zip64=True) as f:
        np.lib.format.write_array(f, sample("f4"))


def zip64_throughout():
    """An archive of one small array whose every size and offset stands in zip64 fields, as above 4 GiB."""
    import io
    import struct
    import zlib

    data = io.BytesIO()
    np.lib.format.write_array(data, sample("f4"))
    data = data.getvalue()
    wide, crc, name = 0xFFFFFFFF, zlib.crc32(data), b"x.npy"
    local = struct.pack("<IHHHHHIIIHH", 0x04034B50, 45, 0, 0, 0, 0x21, crc, wide, wide, len(name), 20)
    local += name + struct.pack("<HHQQ", 1, 16, len(data), len(data)) + data
    central = struct.pack("<IHHHHHHIIIHHHHHII", 0x02014B50, 45, 45, 0, 0, 0, 0x21, crc, wide, wide, len(name),
                          28, 0, 0, 0, 0, wide)
    central += name + struct.pack("<HHQQQ", 1, 24, len(data), len(data), 0)
    end64 = struct.pack("<IQHHIIQQQQ", 0x06064B50, 44, 45, 45, 0, 0, 1, 1, len(central), len(local))
    locator = struct.pack("<IIQI", 0x07064B50, 0, len(local) + len(central), 1)
    end = struct.pack("<IHHHHIIH", 0x06054B50, 0xFFFF, 0xFFFF, 0xFFFF, 0xFFFF, wide, wide, 0)
    return local + central + end64 + locator + end


with open(os.path.join(here, "zip64_throughout.npz"), "wb") as f:
    f.write(zip64_throughout())
assert np.array_equal(np.load(os.path.join(here, "zip64_throughout.npz"))["x"], sample("f4"))

# Written by write_npz (npz_test.cpp, NumpyLoadsOurs) and only checked here.
ours = np.load(os.path.join(here, "ours.npz"))
assert zipfile.ZipFile(os.path.join(here, "ours.npz")).testzip() is None
assert ours.files == ["x", "y", "half", "flag", "scalar"]
assert ours["x"].dtype == "f4" and np.array_equal(ours["x"], np.arange(6).reshape(2, 3))
assert ours["y"].dtype == "i8" and ours["y"].shape == (2,)
assert ours["half"].dtype == "f2" and ours["half"].shape == (4,)
assert ours["flag"].dtype == "?" and ours["flag"].shape == (1, 2)
assert ours["scalar"].dtype == "u1" and ours["scalar"].shape == ()
