"""compile_commands.json, in the author's own paths."""

from __future__ import annotations

import json
from pathlib import Path

from buildlib.editor import OF_CUDA, write_compile_commands

from .factories import write_files


def _commands(root: Path, kernel: str, variant: str, file: str, flag: str) -> None:
    work = root / "build" / "work" / kernel / variant
    command = {
        "directory": f"{work}/cmake",
        "command": f'/usr/bin/g++ {flag} "-I{work}/src/a b" -c {work}/src/{file}',
        "file": f"{work}/src/{file}",
    }
    write_files(work / "cmake", {"compile_commands.json": json.dumps([command])})


def _written(root: Path) -> dict[str, list[str]]:
    document = json.loads((root / "build" / "compile_commands.json").read_text())
    return {entry["file"]: entry["arguments"] for entry in document}


def test_laid_out_sources_are_named_as_the_authors_own(tmp_path: Path) -> None:
    _commands(tmp_path, "relu", "torch-cpu", "csrc/relu.cpp", "-O2")
    write_compile_commands(tmp_path)
    own = f"{tmp_path}/kernels/relu"
    assert _written(tmp_path) == {
        f"{own}/csrc/relu.cpp": ["/usr/bin/g++", "-O2", f"-I{own}/a b", "-c", f"{own}/csrc/relu.cpp"]
    }


def test_a_file_of_several_variants_appears_once(tmp_path: Path) -> None:
    for variant, flag in (("b", "-second"), ("a", "-first")):
        _commands(tmp_path, "relu", variant, "relu.cpp", flag)
    _commands(tmp_path, "gelu", "a", "relu.cpp", "-other")
    write_compile_commands(tmp_path)
    assert {Path(file).parent.name: arguments[1] for file, arguments in _written(tmp_path).items()} == {
        "gelu": "-other",
        "relu": "-first",
    }


def test_sources_that_nvcc_compiles_are_read_as_its_host_compiler_reads_them(tmp_path: Path) -> None:
    _commands(tmp_path, "relu", "a", "relu.cpp", "-O2")
    work = tmp_path / "build/work/relu/a"
    argv = ["cmake", "-DKERNELYARD_NVCC=/cuda/bin/nvcc", "-DKERNELYARD_INCLUDES=/torch/include;/cuda/include"]
    options = ["-std=c++20", "-I../src/a b", "-I../gen/torch-ext", "-include", "../gen/extension_name.h"]
    write_files(
        work,
        {
            "cmake/configured.json": json.dumps({"argv": argv, "toolchain": []}),
            OF_CUDA: json.dumps({"csrc/relu.cu": options}),
        },
    )
    write_compile_commands(tmp_path)
    own = f"{tmp_path}/kernels/relu"
    arguments = _written(tmp_path)[f"{own}/csrc/relu.cu"]
    assert arguments[:4] == ["clang++", "-xcuda", "--cuda-host-only", "--cuda-path=/cuda"]
    assert arguments[arguments.index("-std=c++20") :] == [
        "-std=c++20",
        f"-I{own}/a b",
        f"-I{work}/gen/torch-ext",
        "-include",
        f"{work}/gen/extension_name.h",
        "-isystem",
        "/torch/include",
        "-isystem",
        "/cuda/include",
        "-c",
        f"{own}/csrc/relu.cu",
    ]
    assert f"{own}/relu.cpp" in _written(tmp_path)


def test_a_project_that_was_not_configured_to_its_end_is_left_out(tmp_path: Path) -> None:
    _commands(tmp_path, "relu", "a", "relu.cpp", "-O2")
    write_files(tmp_path, {"build/work/gelu/a/cmake/compile_commands.json": '[{"dir'})
    write_compile_commands(tmp_path)
    assert list(_written(tmp_path)) == [f"{tmp_path}/kernels/relu/relu.cpp"]
