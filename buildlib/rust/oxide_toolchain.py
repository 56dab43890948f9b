"""The compiler of the device language cuda-oxide: a pinned nightly, `cargo oxide`, and the backend that it plugs in.

None of them is in a package index, and the nightly is another whenever NVlabs moves it: so the pin is data, nothing is
fetched here, and what is missing is named.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from pathlib import Path

import msgspec

from buildlib import environment, process
from buildlib.config.model import Dsl
from buildlib.environment import Settings
from buildlib.files import write
from buildlib.rust.assembled import WithToolkit

_BACKEND = "librustc_codegen_cuda.so"


class CudaOxide(WithToolkit, frozen=True, kw_only=True, tag="cuda-oxide"):
    """What compiles device code of cuda-oxide: the toolchain `nightly` in a folder, cargo-oxide, and its backend.

    `build` stands for the content of the backend, which has no version.
    """

    dsl = Dsl.CUDA_OXIDE

    nightly: str
    folder: Path
    cargo_oxide: Path
    backend: Path
    rustc: str
    commit: str
    build: str

    @property
    def identity(self) -> str:
        return f"cuda-oxide {self.build} with rustc {self.rustc} {self.commit}{self.assembler}"


class Requirements(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[cuda-oxide]` in toolchains/dsl.toml: the oldest capability, the pin, and what installs each part."""

    minimum: str
    nightly: str
    toolchain: str
    command: str
    backend: str


class _Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What rustc says of itself, and what the backend is."""

    rustc: str
    commit: str
    build: str


def find(settings: Settings, required: Requirements) -> CudaOxide | str:
    """cuda-oxide of this machine, or which part of it is missing, with the command that installs it."""
    toolchains = sorted(environment.home_of(settings, "rustup").glob(f"toolchains/{required.nightly}*"))
    folder = next((each for each in toolchains if (each / "bin/rustc").is_file()), None)
    if folder is None:
        return f"cuda-oxide: rustup has no {required.nightly}; run '{required.toolchain}'"
    home = environment.home_of(settings, "cargo")
    searched = os.pathsep.join((settings.passed.get("PATH", os.defpath), str(home / "bin")))
    command = shutil.which("cargo-oxide", path=searched)
    if command is None:
        return f"cuda-oxide: cargo-oxide is not on this machine; run '{required.command}'"
    backend = settings.oxide_backend or home / "cuda-oxide" / _BACKEND
    if not backend.is_file():
        return f"cuda-oxide: there is no {backend}; run '{required.backend}', or set CUDA_OXIDE_BACKEND to one"
    asked = _ask(settings, folder / "bin/rustc", backend)
    if asked is None:
        return f"cuda-oxide: {folder}/bin/rustc does not answer as rustc does; run '{required.toolchain}' again"
    return CudaOxide(
        nightly=required.nightly,
        folder=folder,
        cargo_oxide=Path(command),
        backend=backend,
        rustc=asked.rustc,
        commit=asked.commit,
        build=asked.build,
        minimum=required.minimum,
    )


def _ask(settings: Settings, rustc: Path, backend: Path) -> _Asked | None:
    """What rustc and the backend are, found out once for each content of their files."""
    stats = [
        (str(path), stat.st_size, stat.st_mtime_ns, stat.st_ino) for path in (rustc, backend) for stat in [path.stat()]
    ]
    key = hashlib.sha256(repr(stats).encode()).hexdigest()
    record = settings.cache / "probes" / f"cuda-oxide-{key[:16]}.json"
    try:
        return msgspec.json.decode(record.read_bytes(), type=_Asked)
    except (OSError, msgspec.DecodeError):
        pass  # Not asked yet, or the record is from another version: ask.
    said = process.output([str(rustc), "-vV"], env=environment.child(settings)) or ""
    found = dict(re.findall(r"^(release|commit-hash): (\S+)$", said, re.MULTILINE))
    if "release" not in found:
        return None
    with backend.open("rb") as file:
        build = hashlib.file_digest(file, "sha256").hexdigest()[:12]
    asked = _Asked(rustc=found["release"], commit=found.get("commit-hash", "unknown")[:9], build=build)
    write(record, msgspec.json.encode(asked))
    return asked
