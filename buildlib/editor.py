"""`build/compile_commands.json`: how each of the author's files is compiled, for clangd and other editors' servers."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator
from pathlib import Path

import msgspec

from buildlib.files import write_if_changed

# Options for each .cu file of a project, in its work folder.
OF_CUDA = "cuda-for-editors.json"


class _FromCMake(msgspec.Struct, frozen=True):
    directory: str
    command: str
    file: str


class _Configured(msgspec.Struct, frozen=True):
    argv: tuple[str, ...]


class _Command(msgspec.Struct, frozen=True):
    directory: str
    arguments: list[str]
    file: str


def write_compile_commands(root: Path) -> None:
    """Join the commands of all projects under `build/work`, with the laid-out sources named as the author's own.

    A file that several variants compile appears once, with the first variant's command.
    """
    joined: dict[str, _Command] = {}
    for work in sorted((root / "build" / "work").glob("*/*")):
        own = f"{root}/kernels/{work.parent.name}/"
        with contextlib.suppress(OSError, msgspec.DecodeError):
            for command in (*_of_cmake(work, own), *_of_nvcc(work, own)):
                joined.setdefault(command.file, command)
    content = msgspec.json.format(msgspec.json.encode([joined[file] for file in sorted(joined)]))
    write_if_changed(root / "build" / "compile_commands.json", content + b"\n")


def _of_cmake(work: Path, own: str) -> Iterator[_Command]:
    laid_out = f"{work}/src/"
    content = (work / "cmake" / "compile_commands.json").read_bytes()
    for command in msgspec.json.decode(content, type=list[_FromCMake]):
        arguments = [argument.replace(laid_out, own) for argument in shlex.split(command.command)]
        yield _Command(command.directory, arguments, command.file.replace(laid_out, own))


def _of_nvcc(work: Path, own: str) -> Iterator[_Command]:
    """The .cu files, of which CMake says nothing; as clang is to read them, for servers do not know nvcc's options.

    clang's own headers for CUDA know each release of it late, and are left out: the toolkit's are read as by the host's
    compiler, which nvcc calls. What clang then finds wrong is in those and not shown, but it must not give up over it.
    """
    if not (work / OF_CUDA).exists():
        return
    argv = msgspec.json.decode((work / "cmake" / "configured.json").read_bytes(), type=_Configured).argv
    given = dict(word.removeprefix("-D").partition("=")[::2] for word in argv if word.startswith("-DKERNELYARD_"))
    toolkit = Path(given["KERNELYARD_NVCC"]).parent.parent
    libraries = [word for folder in given["KERNELYARD_INCLUDES"].split(";") for word in ("-isystem", folder)]
    clang = ("clang++", "-xcuda", "--cuda-host-only", f"--cuda-path={toolkit}", "-nocudainc", "-nocudalib",
             "-ferror-limit=0", "-Wno-unknown-cuda-version", "-include", "cuda_runtime.h")  # fmt: skip
    commands = msgspec.json.decode((work / OF_CUDA).read_bytes(), type=dict[str, list[str]])
    for path, options in commands.items():
        named = [option.replace("../src/", own).replace("../gen/", f"{work}/gen/") for option in options]
        file = f"{own}{path}"
        yield _Command(f"{work}/cmake", [*clang, *named, *libraries, "-c", file], file)
