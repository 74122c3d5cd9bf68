"""Make stand-ins for the CUDA libraries that the PyPI build of torch links to but a CPU-only run never calls.

Every undefined symbol of torch's own libraries that belongs to one of STUBS is defined as a function that aborts.
libcudart and libcupti are NOT stubbed (torch calls them at start; they come from two small wheels).
"""
import collections, os, re, subprocess, sys, sysconfig, tempfile
L = os.path.join(sysconfig.get_paths()["purelib"], "torch", "lib")
STUBS = """libcusparse.so.12 libcufft.so.12 libcufile.so.0 libcusparseLt.so.0 libnccl.so.2 libcurand.so.10 libcublas.so.13
libcublasLt.so.13 libcudnn.so.9 libnvrtc.so.13 libnvshmem_host.so.3 libcusolver.so.12""".split()
PFX = re.compile(r"^(cublas|cusparse|cufft|cuFile|curand|cudnn|nvrtc|nvshmem|cusolver|nccl|pnccl|_Z\w*nccl)")
syms = set()
for f in os.listdir(L):
    if f.startswith(("libtorch", "libc10", "libcaffe2")) and ".so" in f:
        for line in subprocess.run(["nm", "-D", "--undefined-only", os.path.join(L, f)], capture_output=True, text=True).stdout.splitlines():
            n = line.split()[-1].split("@")[0]
            if PFX.match(n):
                syms.add(n)
with tempfile.TemporaryDirectory() as d:
    c = os.path.join(d, "s.c")
    with open(c, "w") as fh:
        fh.write("extern void abort(void);\n" + "".join(f"void {s}(void){{abort();}}\n" for s in sorted(syms)))
    for i, so in enumerate(STUBS):
        src = c if i == 0 else os.devnull          # one library holds all symbols, the others are empty
        subprocess.check_call(["gcc", "-shared", "-fPIC", "-w", "-fno-builtin", "-x", "c", src, f"-Wl,-soname,{so}", "-o", os.path.join(L, so)])
print(len(syms), "symbols in", L)
