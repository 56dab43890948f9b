"""A host crate whose image is made by hand: nothing of it could run, and all of it can be looked at."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.integration.conftest import ROOT
from tests.integration.cuda.driver import Driver, Machine, Run, fatbin, kernels

_CRATE = Path(__file__).with_name("host")
# Of 32 bytes each, which is how the table finds them.
FATBINS = tuple(map(fatbin, (b"scale f16 64", b"scale f16 128", b"scale bf16 64", b"plain, other")))
KERNELS = kernels((_CRATE / "images" / "host.rs").read_text())

_PRELUDE = """
import sys
# tvm-ffi imports torch where there is one, which takes seconds, and asks the driver things of its own.
sys.modules["torch"] = None
import ctypes, threading, numpy as np, tvm_ffi
from tests.integration.cuda.tensors import cuda_tensor

ops = tvm_ffi.load_module({library!r})
out, x = np.zeros(6, np.float16), np.ones(6, np.float16)
wide = cuda_tensor(np.zeros(6, np.float32))
context = ctypes.c_void_p()

def scale(d=64, factor=2.0, grid=(1, 1, 1), out=cuda_tensor(out), x=cuda_tensor(x)):
    return ops.scale(out, x, d, factor, *grid)

def say(call, *arguments, **named):
    try:
        print(call(*arguments, **named))
    except Exception as error:
        print(f"{{type(error).__name__}}: {{error}}")
"""


@dataclass(frozen=True)
class Host:
    """The library that was built, and a driver to run it with."""

    library: Path
    driver: Driver

    @classmethod
    def build(cls, folder: Path) -> Host:
        """Build it as the builder would: with the folder of its image in KERNELYARD_IMAGES."""
        shutil.copytree(_CRATE, folder / "host")
        manifest = folder / "host" / "Cargo.toml"
        manifest.write_text(manifest.read_text().replace("KERNELS", str(ROOT / "kernels")))
        shutil.copy(ROOT / "Cargo.lock", folder / "host")
        (folder / "host" / "images" / "host.fatbin").write_bytes(b"".join(FATBINS))
        # tvm-ffi's build script asks tvm-ffi-config, which is beside this Python.
        path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
        done = subprocess.run(
            ["cargo", "build", "--release", f"--manifest-path={manifest}", f"--target-dir={folder / 'target'}"],
            env={**os.environ, "KERNELYARD_IMAGES": str(folder / "host" / "images"), "PATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return cls(folder / "target" / "release" / "libhost.so", Driver.build(folder / "driver"))

    def run(
        self,
        code: str,
        machine: Machine | None = None,
        *,
        driver: Driver | None = None,
        recorded: bool = True,
        **extra: str,
    ) -> Run:
        """Run code with the library as `ops`, `scale` with tensors of its own, and `say` for what is raised."""
        prelude = _PRELUDE.format(library=str(self.library))
        machine = machine or Machine(kernels=KERNELS)
        done = (driver or self.driver).run(prelude + code, machine, recorded=recorded, **extra)
        assert done.status == 0, done.err
        return done
