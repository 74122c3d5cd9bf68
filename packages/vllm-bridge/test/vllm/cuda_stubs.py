"""Makes stand-ins for the CUDA libraries that the package index's torch links to and a CPU never calls.

The wheel of vLLM for CPU wants torch's CPU build, which is not on the package index; the CUDA build of the
same version works, without gigabytes of CUDA libraries, when these exist. Every undefined symbol of torch's
own libraries that belongs to one of them is defined as a function that aborts (extensions are opened with
all symbols bound, so empty libraries are not enough). libcudart and libcupti are real: torch calls them at
start. Run once, by the environment's own Python. Needs gcc and nm.
"""

from __future__ import annotations

import os
import re
import subprocess
import sysconfig
import tempfile
from pathlib import Path

LIBRARIES = Path(sysconfig.get_paths()["purelib"]) / "torch" / "lib"
STUBS = (
    "libcusparse.so.12", "libcufft.so.12", "libcufile.so.0", "libcusparseLt.so.0", "libnccl.so.2",
    "libcurand.so.10", "libcublas.so.13", "libcublasLt.so.13", "libcudnn.so.9", "libnvrtc.so.13",
    "libnvshmem_host.so.3", "libcusolver.so.12",
)  # fmt: skip
STUBBED = re.compile(
    r"^(cublas|cusparse|cufft|cuFile|curand|cudnn|nvrtc|nvshmem|cusolver|nccl|pnccl|_Z\w*nccl)"
)


def undefined_symbols() -> list[str]:
    symbols = set()
    for library in LIBRARIES.iterdir():
        if not library.name.startswith(("libtorch", "libc10", "libcaffe2")) or ".so" not in library.name:
            continue
        listed = subprocess.run(
            ["nm", "-D", "--undefined-only", library], capture_output=True, text=True, check=True
        )
        names = (line.split()[-1].split("@")[0] for line in listed.stdout.splitlines())
        symbols.update(name for name in names if STUBBED.match(name))
    return sorted(symbols)


def build(source: str, library: str) -> None:
    flags = ["-shared", "-fPIC", "-w", "-fno-builtin", "-x", "c", source]
    subprocess.check_call(["gcc", *flags, f"-Wl,-soname,{library}", "-o", LIBRARIES / library])


def main() -> None:
    symbols = undefined_symbols()
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "stubs.c"
        functions = "".join(f"void {symbol}(void){{abort();}}\n" for symbol in symbols)
        source.write_text(f"extern void abort(void);\n{functions}")
        # One library holds all symbols; the others only have to be there.
        for index, library in enumerate(STUBS):
            build(str(source) if index == 0 else os.devnull, library)
    print(f"{len(symbols)} symbols in {LIBRARIES}")


if __name__ == "__main__":
    main()
