#!/usr/bin/python3
"""Writes fuzz/corpus/<target>/: small seeds for every parser. good_* must be accepted, bad_* refused.

Standard library only; the result is committed and the same on every machine.
"""
import gzip
import json
import os
import shutil
import struct
import zlib

here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus")


def put(target, name, data):
    directory = os.path.join(here, target)
    os.makedirs(directory, exist_ok=True)
    with open(os.path.join(directory, name), "wb") as f:
        f.write(data)


# ---- safetensors
def safetensors(header, data=b"", length=None):
    text = header if isinstance(header, bytes) else json.dumps(header, separators=(",", ":")).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def entry(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def make_safetensors():
    two = {"a": entry("F32", [2], 0, 8), "b": entry("U8", [3, 1], 8, 11)}
    good = safetensors(two, bytes(11))
    put("safetensors", "good_two", good)
    put("safetensors", "good_empty", safetensors({}))
    put("safetensors", "good_padded", safetensors(json.dumps(two).encode() + b"   ", bytes(11)))
    put("safetensors", "good_scalar", safetensors({"s": entry("F64", [], 0, 8)}, bytes(8)))
    put("safetensors", "good_none", safetensors({"z": entry("I64", [0, 5], 0, 0), "y": entry("BOOL", [1], 0, 1)}, b"\1"))
    put("safetensors", "good_metadata", safetensors({"__metadata__": {"format": "pt"}, **two}, bytes(11)))
    bad = {
        "trailing": good + b"x",
        "cut": good[:-1],
        "short": good[:7],
        "length_max": safetensors(two, bytes(11), 2**64 - 1),
        "length_beyond": safetensors(two, bytes(11), 10**6),
        "length_zero": safetensors(b"", b"", 0),
        "array": safetensors(b"[]"),
        "text": safetensors(b"{hello}"),
        "duplicate": safetensors(b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},'
                                 b'"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}', b"\0"),
        "overlap": safetensors({"a": entry("U8", [4], 0, 4), "b": entry("U8", [4], 2, 6)}, bytes(6)),
        "overlap_fits": safetensors({"a": entry("U8", [4], 0, 4), "b": entry("U8", [4], 2, 6)}, bytes(8)),
        "same_range": safetensors({"a": entry("U8", [4], 0, 4), "b": entry("U8", [4], 0, 4)}, bytes(4)),
        "hole": safetensors({"a": entry("U8", [4], 0, 4), "b": entry("U8", [4], 5, 9)}, bytes(9)),
        "late_start": safetensors({"a": entry("U8", [4], 1, 5)}, bytes(5)),
        "reversed": safetensors({"a": entry("U8", [4], 4, 0)}, bytes(4)),
        "dtype": safetensors({"a": entry("Q4", [4], 0, 4)}, bytes(4)),
        "negative": safetensors({"a": entry("U8", [-4], 0, 4)}, bytes(4)),
        "fraction": safetensors({"a": entry("U8", [4.5], 0, 4)}, bytes(4)),
        "overflow": safetensors({"a": entry("F32", [2**32, 2**32], 0, 0)}),
        "overflow_to_zero": safetensors({"a": entry("F32", [2**62, 4], 0, 0)}),
        "huge_extent": safetensors({"a": entry("U8", [2**63], 0, 4)}, bytes(4)),
        "huge_offset": safetensors({"a": entry("U8", [4], 2**63 - 5, 2**63 - 1)}, bytes(4)),
        "beyond_int": safetensors({"a": entry("U8", [4], 2**64, 2**64 + 4)}, bytes(4)),
        "rank": safetensors({"a": entry("U8", [1] * 100, 0, 1)}, bytes(1)),
        "bool": safetensors({"a": entry("BOOL", [2], 0, 2)}, b"\1\2"),
        "metadata": safetensors({"__metadata__": {"k": 1}}),
        "deep": safetensors(b'{"a":' + b"[" * 300 + b"]" * 300 + b"}"),
        "not_utf8": safetensors(b'{"\xff\xfe":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}', b"\0"),
        "missing_field": safetensors({"a": {"dtype": "U8", "shape": [1]}}, b"\0"),
    }
    for name, data in bad.items():
        put("safetensors", "bad_" + name, data)


# ---- npy and npz
def npy(descr="<f4", shape="(2, 3)", fortran="False", data=bytes(24), version=1, text=None):
    text = text if text is not None else "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }" % (descr, fortran, shape)
    text = text.encode("latin1")
    length = struct.pack("<H" if version == 1 else "<I", len(text))
    return b"\x93NUMPY" + bytes([version, 0]) + length + text + data


def make_npy():
    put("npy", "good_plain", npy())
    put("npy", "good_version2", npy(version=2))
    put("npy", "good_fortran", npy(fortran="True"))
    put("npy", "good_big_endian", npy(descr=">f4"))
    put("npy", "good_scalar", npy(shape="()", data=bytes(4)))
    put("npy", "good_empty", npy(shape="(0, 7)", data=b""))
    put("npy", "good_bool", npy(descr="|b1", shape="(2,)", data=b"\0\1"))
    put("npy", "good_half", npy(descr="<f2", shape="(3L,)", data=bytes(6)))
    bad = {
        "magic": b"\x92NUMPY" + npy()[6:],
        "version": npy()[:6] + b"\7\0" + npy()[8:],
        "pickle": b"\x80\x04\x95\x00\x00\x00\x00\x00\x00\x00\x00.",
        "object": npy(descr="|O", shape="(1,)", data=b"\x80\x04."),
        "structured": npy(text="{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", data=bytes(4)),
        "complex": npy(descr="<c8", shape="(1,)", data=bytes(8)),
        "text": npy(descr="<U2", shape="(1,)", data=bytes(8)),
        "descr_empty": npy(descr=""),
        "negative": npy(shape="(-1,)"),
        "huge": npy(shape="(99999999999999999999999,)"),
        "overflow": npy(shape="(4294967296, 4294967296)"),
        "overflow_to_zero": npy(shape="(4611686018427387904, 4)", data=b""),
        "lies": npy(shape="(1000000000, 1000)"),
        "cut": npy()[:-1],
        "trailing": npy() + b"x",
        "unclosed": npy(text="{'descr"),
        "unclosed_tuple": npy(text="{'descr': '<f4', 'fortran_order': False, 'shape': (2, "),
        "no_shape": npy(text="{'descr': '<f4', 'fortran_order': False}"),
        "twice": npy(text="{'descr': '<f4', 'descr': '<f4', 'shape': (0,)}", data=b""),
        "code": npy(text="__import__('os').system('true')"),
        "bool": npy(descr="|b1", shape="(2,)", data=b"\0\2"),
        "header_length": b"\x93NUMPY\2\0" + struct.pack("<I", 2**32 - 1) + b"{}",
        "rank": npy(shape="(" + "1," * 200 + ")", data=bytes(4)),
    }
    for name, data in bad.items():
        put("npy", "bad_" + name, data)


def deflate(data):
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(data) + packer.flush()


def npz(members, deflated=False, zip64=False, comment=b"", method=None, flags=0, crc=None, size=None, offset=None,
        count=None):
    """`members`: [(name, bytes)]. The rest breaks one field each."""
    wide, body, directory = 0xFFFFFFFF, b"", b""
    for name, data in members:
        packed = deflate(data) if deflated else data
        check = zlib.crc32(data) if crc is None else crc
        full = len(data) if size is None else size
        start = len(body) if offset is None else offset
        kind = (8 if deflated else 0) if method is None else method
        extra = struct.pack("<HHQQ", 1, 16, full, len(packed)) if zip64 else b""
        sizes = (wide, wide) if zip64 else (len(packed), full)
        body += struct.pack("<IHHHHHIIIHH", 0x04034B50, 45, flags, kind, 0, 0x21, check, *sizes, len(name), len(extra))
        body += name + extra + packed
        extra = struct.pack("<HHQQQ", 1, 24, full, len(packed), start) if zip64 else b""
        directory += struct.pack("<IHHHHHHIIIHHHHHII", 0x02014B50, 45, 45, flags, kind, 0, 0x21, check, *sizes,
                                 len(name), len(extra), 0, 0, 0, 0, wide if zip64 else start)
        directory += name + extra
    total = len(members) if count is None else count
    end = b""
    if zip64:
        end += struct.pack("<IQHHIIQQQQ", 0x06064B50, 44, 45, 45, 0, 0, total, total, len(directory), len(body))
        end += struct.pack("<IIQI", 0x07064B50, 0, len(body) + len(directory), 1)
        end += struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, 0xFFFF, 0xFFFF, wide, wide, len(comment))
    else:
        end += struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, total, total, len(directory), len(body), len(comment))
    return body + directory + end + comment


def make_npz():
    x, y = (b"x.npy", npy()), (b"y.npy", npy(descr="<i8", shape="(1,)", data=bytes(8)))
    put("npz", "good_two", npz([x, y]))
    put("npz", "good_deflated", npz([x, y], deflated=True))
    put("npz", "good_zip64", npz([x, y], zip64=True))
    put("npz", "good_comment", npz([x], comment=b"hello"))
    put("npz", "good_none", npz([]))
    deflated = npz([x], deflated=True)
    bad = {
        "duplicate": npz([x, x]),
        "cut": npz([x])[:-1],
        "not_zip": npy(),
        "empty": b"",
        "encrypted": npz([x], flags=1),
        "method": npz([x], method=12),
        "deflated_lie": npz([x], method=8),
        "crc": npz([x], crc=7),
        "size": npz([x], deflated=True, size=10**9),
        "offset": npz([x], offset=10**9),
        "overlap": npz([x, (b"z.npy", x[1])], offset=0),
        "overlap_differs": npz([x, y], offset=0),
        "count_high": npz([x], count=60000),
        "zip64_count": npz([x], zip64=True, count=2**63),
        "zip64_size": npz([x], zip64=True, size=2**64 - 1),
        "zip64_offset": npz([x], zip64=True, offset=2**64 - 1),
        "zip64_extra_missing": npz([x], size=0xFFFFFFFF),
        "not_array": npz([(b"evil.pkl", b"\x80\x04.")]),
        "pickle": npz([(b"x.npy", npy(descr="|O", shape="(1,)", data=b"\x80\x04."))]),
        "lies": npz([(b"x.npy", npy(shape="(1000000000, 1000)"))]),
        "stream_cut": deflated[:60] + deflated[70:],
        "second_end": npz([x])[:-2] + b"\xff\xff",
    }
    for name, data in bad.items():
        put("npz", "bad_" + name, data)


# ---- IDX
def idx(kind, dims, data):
    return bytes([0, 0, kind, len(dims)]) + b"".join(struct.pack(">I", d) for d in dims) + data


def make_idx():
    good = idx(8, [2, 2, 3], bytes(range(12)))
    zipped = gzip.compress(good, mtime=0)
    put("idx", "good_plain", good)
    put("idx", "good_zipped", zipped)
    put("idx", "good_members", gzip.compress(good[:9], mtime=0) + gzip.compress(good[9:], mtime=0))
    put("idx", "good_float", idx(0x0D, [2], bytes(8)))
    put("idx", "good_double", idx(0x0E, [1], bytes(8)))
    put("idx", "good_short", idx(0x0B, [1], bytes(2)))
    put("idx", "good_none", idx(8, [0, 28, 28], b""))
    bad = {
        "empty": b"",
        "type": idx(7, [1], b"a"),
        "magic": b"\1" + good[1:],
        "cut": good[:-1],
        "trailing": good + b"x",
        "zip_cut": zipped[:-1],
        "zip_trailing": zipped + b"x",
        "zip_inner_trailing": gzip.compress(good + b"x", mtime=0),
        "zip_crc": zipped[:-8] + b"\0\0\0\0" + zipped[-4:],
        "rank": idx(8, [1] * 255, b"a"),
        "overflow": idx(8, [2**32 - 1] * 3, b""),
        "lies": idx(8, [2**32 - 1], b""),
        "zip_lies": gzip.compress(idx(8, [2**32 - 1], b""), mtime=0),
        "bomb": gzip.compress(idx(8, [16], bytes(200000)), mtime=0),
    }
    for name, data in bad.items():
        put("idx", "bad_" + name, data)


# ---- CIFAR
def make_cifar():
    pixels = bytes(i % 251 for i in range(3072))
    put("cifar", "good_ten", b"\x09" + pixels)
    put("cifar", "good_hundred", b"\x13\x63" + pixels)
    bad = {"label": b"\x0a" + pixels, "coarse": b"\x14\x00" + pixels, "fine": b"\x00\x64" + pixels, "empty": b"",
           "cut": b"\1" + pixels[:-1], "small": b"\1"}
    for name, data in bad.items():
        put("cifar", "bad_" + name, data)


# ---- JSON (the target asks for an integer "filters" of 1 to 2^20)
def make_json():
    put("json", "good_small", b'{"filters": 32, "name": "conv", "rate": 0.5, "kernel": [3, 3], "bias": true, "x": null}')
    put("json", "good_nested", b'{"filters": 1, "a": ' + b"[" * 63 + b"]" * 63 + b"}")
    put("json", "good_text", '{"filters": 1.0, "t": "\\u00e4\\ud83d\\ude00 \u00e4 \\n"}'.encode())
    bad = {
        "empty": b"", "deep": b"[" * 900, "deep_objects": b'{"a":' * 180, "duplicate": b'{"filters": 1, "filters": 2}',
        "array": b"[1]", "missing": b"{}", "string": b'{"filters": "1"}', "range": b'{"filters": 0}',
        "fraction": b'{"filters": 1.5}', "huge": b'{"filters": 1e30}', "beyond": b'{"filters": 1e999}',
        "u64": b'{"filters": 18446744073709551615}', "utf8": b'{"filters": 1, "t": "\xff\xfe"}',
        "surrogate": b'{"filters": 1, "t": "\\ud800"}', "nul": b'{"filters": 1}\0', "trailing": b'{"filters": 1} {}',
        "comment": b'{"filters": 1 /* no */}', "nan": b'{"filters": NaN}', "long_number": b'{"filters": ' + b"9" * 400 + b"}",
    }
    for name, data in bad.items():
        put("json", "bad_" + name, data)


shutil.rmtree(here, ignore_errors=True)
for make in (make_safetensors, make_npy, make_npz, make_idx, make_cifar, make_json):
    make()
