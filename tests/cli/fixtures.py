"""Small data files, good and bad, written without numpy."""
import gzip
import json
import pathlib
import struct
import zipfile
import zlib


def npy(descr, shape, data):
    header = repr({"descr": descr, "fortran_order": False, "shape": tuple(shape)})
    header += " " * (-(10 + len(header) + 1) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data


def npz(path, **arrays):
    with zipfile.ZipFile(path, "w") as archive:
        for name, (descr, shape, data) in arrays.items():
            archive.writestr(name + ".npy", npy(descr, shape, data))


def floats(values):
    return struct.pack(f"<{len(values)}f", *values)


def pictures(count, height=8, width=8, channels=1, change=None):
    values = [((i * 2654435761) % 1000) / 1000 for i in range(count * height * width * channels)]
    if change:
        values[change[0]] = change[1]
    return "<f4", (count, height, width, channels), floats(values)


def labels(values):
    return "<i4", (len(values),), struct.pack(f"<{len(values)}i", *values)


def idx(code, shape, data):
    return struct.pack(">BBBB", 0, 0, code, len(shape)) + struct.pack(f">{len(shape)}I", *shape) + data


def idx_directory(path, change=lambda images: images):
    path.mkdir()
    images = idx(8, (12, 8, 8), bytes(i % 251 for i in range(12 * 64)))
    targets = idx(8, (12,), bytes(i % 3 for i in range(12)))
    for split in ("train", "t10k"):
        (path / f"{split}-images-idx3-ubyte").write_bytes(change(images))
        (path / f"{split}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(targets))


def safetensors(path, tensors, cut=0):
    header, data = {}, b""
    for name, (shape, values) in tensors.items():
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + 4 * len(values)]}
        data += floats(values)
    text = json.dumps(header).encode()
    whole = struct.pack("<Q", len(text)) + text + data
    path.write_bytes(whole[: len(whole) - cut])


def png(height, width, pixel):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = b"".join(b"\0" + bytes(pixel(y, x, c) % 256 for x in range(width) for c in range(3)) for y in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def picture_folder(path, count, bad=()):
    """Two classes of pictures of several sizes; those numbered in `bad` are cut."""
    for i in range(count):
        name = path / ("cats" if i % 2 == 0 else "dogs") / f"{i:04}.png"
        name.parent.mkdir(parents=True, exist_ok=True)
        data = png(10 + i % 5, 12 + i % 3, lambda y, x, c: (i % 2) * 120 + y * x + 40 * c)
        name.write_bytes(data[:60] if i in bad else data)


def cifar(path):
    path.mkdir()
    for name in [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]:
        records = (bytes([n % 10]) + bytes((n * 7 + i) % 256 for i in range(3072)) for n in range(4))
        (path / name).write_bytes(b"".join(records))


def make(directory):
    """Everything the cases mention, in `directory`."""
    at = pathlib.Path(directory)
    good = [n % 3 for n in range(12)]
    npz(at / "good.npz", x=pictures(12), y=labels(good))
    npz(at / "flat.npz", x=("<f4", (12, 8, 8), pictures(12)[2]), y=labels(good))
    npz(at / "bytes.npz", x=("|u1", (12, 8, 8, 1), bytes(i % 256 for i in range(12 * 64))), y=("<i8", (12,), struct.pack("<12q", *good)))
    npz(at / "label_high.npz", x=pictures(12), y=labels(good[:7] + [3] + good[8:]))
    npz(at / "label_negative.npz", x=pictures(12), y=labels([-1] + good[1:]))
    npz(at / "label_fraction.npz", x=pictures(12), y=("<f4", (12,), floats([0.5] * 12)))
    npz(at / "nan.npz", x=pictures(12, change=(5 * 64 + 9, float("nan"))), y=labels(good))
    npz(at / "inf.npz", x=pictures(12, change=(11 * 64, float("inf"))), y=labels(good))
    npz(at / "empty.npz", x=("<f4", (0, 8, 8, 1), b""), y=labels([]))
    npz(at / "tiny.npz", x=pictures(12, 2, 2), y=labels(good))
    npz(at / "rgb.npz", x=pictures(12, 8, 8, 3), y=labels(good))
    npz(at / "lengths.npz", x=pictures(12), y=labels(good[:10]))
    npz(at / "no_y.npz", x=pictures(12))
    whole = (at / "good.npz").read_bytes()
    (at / "cut.npz").write_bytes(whole[:-30])
    (at / "cut_early.npz").write_bytes(whole[:500])
    (at / "not_a_zip.npz").write_bytes(b"hello, world\n" * 20)
    npz(at / "lies.npz", x=("<f4", (1 << 40, 8, 8, 1), floats([0] * 64)), y=labels(good))

    picture_folder(at / "pictures", 40)
    picture_folder(at / "one_bad", 100, bad=[37])
    picture_folder(at / "many_bad", 40, bad=range(0, 40, 4))
    rows = [f"pictures/{'cats' if i % 2 == 0 else 'dogs'}/{i:04}.png,{i % 2}" for i in range(40)]
    (at / "list.csv").write_text("path,label\n" + "\n".join(rows) + "\n")
    (at / "list_short.csv").write_text("path,label\n" + "\n".join(rows[:20] + ["pictures/cats/0001.png,1"]) + "\n")
    (at / "no_pictures").mkdir()
    cifar(at / "cifar")
    idx_directory(at / "idx")
    idx_directory(at / "idx_cut", lambda images: images[:-5])
    idx_directory(at / "idx_magic", lambda images: b"\x01" + images[1:])
    idx_directory(at / "idx_bomb", lambda images: images[:4] + struct.pack(">III", 1 << 31, 1 << 15, 1 << 15))

    safetensors(at / "other.safetensors", {"dense/kernel": ([2, 2], [0.0] * 4)})
    safetensors(at / "cut.safetensors", {"dense/kernel": ([2, 2], [0.0] * 4)}, cut=3)
    (at / "hostile.safetensors").write_bytes(struct.pack("<Q", 1 << 62) + b"{}")
    (at / "empty.safetensors").write_bytes(b"")

    (at / "cut.json").write_text('{"class_name": "Sequential", "config": {"layers": [{"cl')
    (at / "deep.json").write_text("[" * 100000)
    (at / "array.json").write_text("[1, 2, 3]")
    (at / "no_layers.json").write_text('{"class_name": "Sequential", "config": {"name": "m", "layers": []}}')
