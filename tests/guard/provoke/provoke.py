# SPDX-License-Identifier: Apache-2.0
"""Dies in the way its first argument names."""
import os
import resource
import signal
import sys
import time


def memory_error():
    resource.setrlimit(resource.RLIMIT_AS, (400 << 20, 400 << 20))
    keep = []
    while True:
        keep.append(bytearray(16 << 20))


def fd_limit():
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    keep = [open("/dev/null") for _ in range(1000)]
    return keep


def disk_full():
    with open(os.path.join(sys.argv[2], "checkpoint.bin"), "wb") as file:
        while True:
            file.write(b"x" * (1 << 20))
            file.flush()


def nan_exception():
    raise ValueError("loss is NaN at step 12")


def nan_printed():
    for step in range(5):
        print(f"step {step} loss: {0.5 if step < 3 else float('nan')}", flush=True)
        time.sleep(0.05)
    sys.exit(1)


def leak():
    """5 MB per step, by the clock: a machine that gets busy must not change the rate that the guard foretells from."""
    keep, began = [], time.monotonic()
    while True:
        keep.append(bytearray(b"x") * (5 * 1000 * 1000))
        time.sleep(max(0, began + len(keep) * float(sys.argv[2]) - time.monotonic()))


def worker_killed():
    from concurrent.futures import ProcessPoolExecutor
    with ProcessPoolExecutor(1) as pool:
        pool.submit(os.kill, os.getpid(), 0).result()
        pool.submit(die).result()


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def worker_message():
    print("RuntimeError: DataLoader worker (pid 12) is killed by signal: Killed.", file=sys.stderr)
    sys.exit(1)


def caught_then_fails():
    for text in ("MemoryError", "OSError: [Errno 28] No space left on device", "loss: nan"):
        print("retrying after", text, file=sys.stderr)
    for index in range(40):
        print("step", index, file=sys.stderr)
    print("error: the score is below the threshold", file=sys.stderr)
    sys.exit(1)


def caught_then_well():
    import traceback
    try:
        raise MemoryError("handled")
    except MemoryError:
        traceback.print_exc()


def array():
    raise MemoryError("Unable to allocate 37.3 GiB for an array with shape (50000, 100000) and data type float64")


WAYS = {
    "memory_error": memory_error, "fd_limit": fd_limit, "disk_full": disk_full, "nan_exception": nan_exception,
    "nan_printed": nan_printed, "leak": leak, "worker_killed": worker_killed, "worker_message": worker_message,
    "import": lambda: __import__("module_that_is_not_there"), "exception": lambda: {}["missing"],
    "recursion": lambda: (lambda f: f(f))(lambda f: f(f)), "caught_then_fails": caught_then_fails,
    "caught_then_well": caught_then_well, "array": array, "missing": lambda: open("/no/such/file"),
    "permission": lambda: open("/proc/1/mem_not", "w"), "interrupt": lambda: os.kill(os.getpid(), signal.SIGINT) or time.sleep(5),
    "segv": lambda: __import__("ctypes").string_at(0), "exit": lambda: sys.exit(int(sys.argv[2])),
}

if __name__ == "__main__":
    WAYS[sys.argv[1]]()
