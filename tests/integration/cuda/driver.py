"""The stand-in for the CUDA driver: how it is built, what it is told, and processes that find it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tests.integration.conftest import ROOT
from tests.integration.cuda.record import Record

_SIZES = {"Pointer": 8, "I32": 4, "I64": 8, "F32": 4, "F64": 8, "B32": 4, "B64": 8}


@dataclass(frozen=True)
class Gpu:
    """A device: its capability, and the bytes of shared memory that one block can have."""

    capability: str = "9.0"
    shared: int = 232_448


@dataclass(frozen=True)
class Kernel:
    """What the stand-in must be told of an entry: `sizes` of its parameters, and its own shared memory, in bytes.

    `machine` are the capabilities that it has machine code for, `9.0a` where that runs on no other; `portable` those of
    its PTX or Tile IR.
    """

    symbol: str
    sizes: tuple[int, ...]
    machine: tuple[str, ...]
    portable: tuple[str, ...] = ()
    shared: int = 0


@dataclass(frozen=True)
class Fault:
    """A call that fails so many times."""

    call: str
    status: int
    times: int = 1


@dataclass(frozen=True)
class Machine:
    """What the stand-in is; `version` is the driver's, as cuDriverGetVersion says it."""

    gpus: tuple[Gpu, ...] = (Gpu(),)
    kernels: tuple[Kernel, ...] = ()
    faults: tuple[Fault, ...] = ()
    version: int = 13_000

    def settings(self, record: Path | None) -> str:
        lines = [f"driver {self.version}"]
        if record:
            lines.append(f"record {record}")
        lines += (f"device {_number(gpu.capability)} {gpu.shared}" for gpu in self.gpus)
        lines += (
            f"entry {kernel.symbol} {kernel.shared} {_list(map(_number, kernel.machine))} "
            f"{_list(map(_number, kernel.portable))} {_list(map(str, kernel.sizes))}"
            for kernel in self.kernels
        )
        lines += (f"fail {fault.call} {fault.status} {fault.times}" for fault in self.faults)
        return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class Run:
    """How a process ended, and what it asked of the driver."""

    status: int
    out: str
    err: str
    record: Record = field(repr=False)


@dataclass(frozen=True)
class Driver:
    """A stand-in that was built: `folder` has libcuda.so.1, and is where processes run."""

    folder: Path

    @classmethod
    def build(cls, folder: Path, *defines: str) -> Driver:
        """Compile it; `OLD` leaves out what drivers have since CUDA 12."""
        folder.mkdir(parents=True)
        source = Path(__file__).with_name("libcuda.c")
        flags = ("-std=c11", "-O2", "-shared", "-fPIC", "-pthread", "-Wl,-soname,libcuda.so.1")
        output = ("-o", str(folder / "libcuda.so.1"), str(source))
        subprocess.run(["cc", *flags, *(f"-D{name}" for name in defines), *output], check=True)
        return cls(folder)

    def run(self, code: str, machine: Machine, *, recorded: bool = True, **extra: str) -> Run:
        """Run Python code in a process of its own that finds the stand-in, and the modules of these tests."""
        names = (f"run{number}" for number in range(1 << 16))
        folder = next(self.folder / name for name in names if not (self.folder / name).exists())
        folder.mkdir()
        record = folder / "record"
        (folder / "settings").write_text(machine.settings(record if recorded else None))
        environ = {
            **os.environ,
            "KERNELYARD_DRIVER": str(folder / "settings"),
            "LD_LIBRARY_PATH": str(self.folder),
            "PYTHONPATH": str(ROOT),
            **extra,
        }
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=folder,
            env=environ,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        return Run(done.returncode, done.stdout.strip(), done.stderr, Record.read(record))


def kernels(table: str, *, shared: int = 0) -> tuple[Kernel, ...]:
    """What a table that the builder generates says of its entries, for the stand-in."""
    found = []
    for text in table.split("::kernelyard_cuda::Entry")[1:]:
        (symbol,) = re.findall(r'symbol:\s*"([^"]*)"', text)
        pattern = r"capability:\s*\((\d+), (\d+)\),\s*exact:\s*(true|false),\s*portable:\s*(true|false)"
        variants = re.findall(pattern, text)
        found.append(
            Kernel(
                symbol=symbol,
                sizes=tuple(_SIZES[kind] for kind in re.findall(r"Parameter::(\w+)", text)),
                machine=tuple(f"{major}.{minor}{'a' * (exact == 'true')}" for major, minor, exact, _ in variants),
                portable=tuple(f"{major}.{minor}" for major, minor, _, portable in variants if portable == "true"),
                shared=shared,
            )
        )
    return tuple(found)


def fatbin(content: bytes) -> bytes:
    """What the driver takes for a fatbin: its header, and anything."""
    padded = content + bytes(-len(content) % 16)
    header = (0xBA55ED50).to_bytes(4, "little") + (1).to_bytes(2, "little") + (16).to_bytes(2, "little")
    return header + len(padded).to_bytes(8, "little") + padded


def _number(capability: str) -> str:
    """`9.0a` as `90a`."""
    return capability.replace(".", "")


def _list(items: Iterable[str]) -> str:
    return ",".join(items) or "-"
