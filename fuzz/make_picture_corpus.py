# SPDX-License-Identifier: Apache-2.0
"""Writes the corpora of the pipeline's readers. Needs PIL; the files are kept in the repository."""
import json
import pathlib
import struct
import zlib

from PIL import Image

ROOT = pathlib.Path(__file__).parent / "corpus"


def picture(mode, size=(9, 7)):
    image = Image.new("RGB", size)
    image.putdata([((x * 25) % 256, (y * 30) % 256, (x * y * 5) % 256) for y in range(size[1]) for x in range(size[0])])
    return image.convert(mode)


def chunk(kind, body):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def interlaced_png(size=8):
    """Adam7, which PIL does not write: grey, every pass a block of zero-filtered rows."""
    body = b""
    for x0, y0, dx, dy in ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)):
        for y in range(y0, size, dy):
            row = bytes(x * 9 + y for x in range(x0, size, dx))
            if row:
                body += b"\0" + row
    header = struct.pack(">IIBBBBB", size, size, 8, 0, 0, 0, 1)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(body)) + chunk(b"IEND", b"")


def main():
    out = ROOT / "picture"
    out.mkdir(parents=True, exist_ok=True)
    picture("RGB").save(out / "good_colour.jpg", quality=80)
    picture("L").save(out / "good_grey.jpg", quality=80)
    picture("RGB", (20, 20)).save(out / "good_progressive.jpg", quality=80, progressive=True)
    picture("CMYK").save(out / "bad_cmyk.jpg", quality=80)
    picture("RGB").save(out / "good_colour.png")
    picture("RGBA").save(out / "good_alpha.png")
    picture("L").save(out / "good_grey.png")
    picture("P").save(out / "good_palette.png")
    picture("1").save(out / "good_bits.png")
    picture("I").save(out / "good_sixteen.png")
    (out / "good_interlaced.png").write_bytes(interlaced_png())
    picture("RGB").save(out / "bad_other.gif")
    colour = (out / "good_colour.jpg").read_bytes()
    (out / "bad_cut.jpg").write_bytes(colour[: len(colour) * 4 // 5])
    colour = (out / "good_colour.png").read_bytes()
    (out / "bad_cut.png").write_bytes(colour[: len(colour) * 4 // 5])
    (out / "bad_empty").write_bytes(b"")

    out = ROOT / "csv"
    out.mkdir(parents=True, exist_ok=True)
    (out / "good_numbers").write_text("path,label\na/1.jpg,3\nb/2.jpg,5\n")
    (out / "good_quotes").write_bytes(b'\xef\xbb\xbfpath,label\r\n"a, b.jpg","an ""ape"""\r\n\r\n/abs.jpg,x\r\n')
    (out / "good_paths").write_text("path\na.jpg\nb.jpg")
    (out / "bad_open").write_text('path,label\n"a.jpg,1\n')
    (out / "bad_short").write_text("path,label\na.jpg\n")
    (out / "bad_empty").write_text("")

    out = ROOT / "data_state"
    out.mkdir(parents=True, exist_ok=True)
    good = {"format": 1, "epoch": 2, "position": 7, "seed": 2**64 - 1, "pipeline": "range(9) > batch(2)",
            "pipeline_hash": 12, "sources": [["range(9)", 9]]}
    (out / "good_state").write_text(json.dumps(good))
    (out / "bad_format").write_text(json.dumps(good | {"format": 9}))
    (out / "bad_position").write_text(json.dumps(good | {"position": -1}))
    (out / "bad_sources").write_text(json.dumps(good | {"sources": [[1]]}))


main()
