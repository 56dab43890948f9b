"""What CMake, the compiler and Python are given to read."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import msgspec
import pytest

from buildlib import render
from buildlib.config.model import Kernel, Torch, TvmFfi
from buildlib.errors import StepError
from buildlib.inputs import Inputs
from buildlib.matrix import Matrix
from buildlib.plan import BuildSpec
from buildlib.toolchain import Host
from buildlib.variant import Backend, Platform, Version

from .factories import HOST, MATRIX, cpu, host, kernel, noarch, row, spec, torch, tvm_ffi

# What no name and no flag may be broken by.
_HARD = (
    "a b",
    "a=b",
    "a#b",
    "$HOME",
    "${CMAKE_SOURCE_DIR}",
    "$ENV{HOME}",
    "@VAR@",
    'quo"te',
    "apo'strophe",
    "comma,",
    "back\\slash",
    "\\$",
    '\\"',
    "(parens)",
    "[brackets]",
    "größe",
    "日本",
    "$",
    "%",
    "&",
    "|",
    "~",
    "*",
)
# What no flag may be broken by; a name cannot have a semicolon.
_HARD_FLAGS = (
    *_HARD,
    "semi;colon",
    ";",
    "a\\;b",
    "$<1:yes>",
    "$<SEMICOLON>",
    "$<$<CONFIG:Debug>:x>;y",
    "<>",
    "$<",
    ">",
)


def _inputs(made: BuildSpec, *spell_name: str) -> Inputs:
    framework = made.kernel.framework
    listed = {path for part in (framework, *made.components) for path in getattr(part, "src", ())}
    return Inputs(sources=tuple(sorted(listed)), package=(), spell_name=frozenset(spell_name))


def _cmake(made: BuildSpec, *spell_name: str) -> str:
    return render.project(made, _inputs(made, *spell_name))["CMakeLists.txt"]


def _of(*components: object, **framework: object) -> BuildSpec:
    return spec(kernel(Torch(**framework), *components))  # type: ignore[arg-type]


def _arguments(text: str, start: str) -> list[str]:
    """The arguments of the first command that starts with `start`, read as CMake reads them; without variables."""
    body = text[text.index(start) + len(start) :]
    found: list[str] = []
    position = 0
    quoted = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
    bare = re.compile(r'[^\s()"#\\]+')
    while True:
        if match := re.compile(r"(?:\s|#[^\n]*)+").match(body, position):
            position = match.end()
        if body[position] == ")":
            return found
        if match := quoted.match(body, position):
            # `\;` is no escape inside of quotes: it stays, for the list that is made of the argument.
            value = re.sub(r"\\([^;])", r"\1", match[1])
            assert not re.search(r"(?<!\\)\$(?:ENV)?\{(?!CMAKE_SOURCE_DIR\})", match[1]), f"a variable in {match[1]}"
        elif match := bare.match(body, position):
            value = match[0]
        else:
            raise AssertionError(f"not understood: {body[position : position + 60]!r}")
        found.append(value)
        position = match.end()


def _as_list(values: list[str]) -> list[str]:
    """The items of a property that was set to `values`: joined and split as CMake does it."""
    items = [""]
    depth = 0
    for part in re.findall(r"\\;|.", ";".join(values), re.DOTALL):
        depth += {"[": 1, "]": -1}.get(part, 0)
        if part == ";" and depth == 0:
            items.append("")
        else:
            items[-1] += ";" if part == "\\;" else part
    return items


def _evaluated(text: str) -> str:
    """A generator expression as CMake evaluates it; just those that stand for a character."""
    evaluated = text.replace("$<SEMICOLON>", ";").replace("$<1:$>", "\0")
    assert "$<" not in evaluated, f"a generator expression in {text}"
    return evaluated.replace("\0", "$")


def _sources(text: str) -> list[str]:
    return _as_list(_arguments(text, "add_library(extension MODULE"))


def _options(text: str, path: str) -> list[str]:
    start = f'set_property(SOURCE "src/{path}" PROPERTY COMPILE_OPTIONS'
    return [_evaluated(option) for option in _as_list(_arguments(text, start))] if start in text else []


def _includes(text: str, path: str) -> list[str]:
    start = f'set_property(SOURCE "src/{path}" PROPERTY INCLUDE_DIRECTORIES'
    return (
        [folder.removeprefix("${CMAKE_SOURCE_DIR}/src/") for folder in _arguments(text, start)] if start in text else []
    )


# --- the project as a whole ---


def test_files_of_a_torch_extension() -> None:
    made = _of(cpu("a.cpp"))
    assert sorted(render.project(made, _inputs(made))) == [
        "CMakeLists.txt",
        "gen/exports.map",
        "gen/extension.cpp",
        "gen/torch-ext/registration.h",
    ]


def test_files_of_a_tvm_ffi_library() -> None:
    made = spec(tvm_ffi())
    assert sorted(render.project(made, _inputs(made))) == ["CMakeLists.txt", "gen/exports.map"]


@pytest.mark.parametrize(
    ("planned", "exported"), [(kernel(), "PyInit_*"), (tvm_ffi(), "__tvm_ffi_*")], ids=["torch", "tvm-ffi"]
)
def test_only_the_entry_points_are_exported(planned: Kernel, exported: str) -> None:
    made = spec(planned)
    assert f"global: {exported}; local: *;" in render.project(made, _inputs(made))["gen/exports.map"]


def test_rendering_again_gives_the_same() -> None:
    made = _of(cpu("a.cpp", "b.cpp", include=("x", "y"), cxx_flags=("-a", "-b")), src=("c.cpp",), include=("z",))
    assert render.project(made, _inputs(made)) == render.project(made, _inputs(made))


def test_order_in_which_inputs_were_found_is_not_rendered() -> None:
    made = _of(cpu("a.cpp", "b.cpp"))
    orders = (("a.cpp", "b.cpp"), ("b.cpp", "a.cpp"))
    one, other = (Inputs(sources=order, package=(), spell_name=frozenset(order)) for order in orders)
    assert render.project(made, one) == render.project(made, other)


@pytest.mark.parametrize("planned", [kernel(), kernel(Torch(stable_abi={Backend.CPU: Version(2, 11)})), tvm_ffi()])
def test_no_path_of_this_machine_is_rendered(planned: Kernel, tmp_path: Path) -> None:
    moved = msgspec.structs.replace(planned, folder=tmp_path / "kernels" / "relu")
    made = spec(moved)
    rendered = {
        **render.project(made, _inputs(made)),
        **render.extension_name(made, "_relu_cpu_0"),
        "_ops.py": render.ops_module(made, "_relu_cpu_0"),
    }
    # A path at the start of a word, but for a comment of C++ or Python.
    absolute = {name: re.findall(r"(?:^|[\s\"'=(;])(/[\w.-]+)", text) for name, text in rendered.items()}
    assert absolute == {name: [] for name in rendered}


def test_every_rendered_file_ends_with_a_line_end() -> None:
    made = _of(cpu("a.cpp"))
    assert {text[-1] for text in render.project(made, _inputs(made)).values()} == {"\n"}


def test_cmake_looks_for_no_package_and_runs_nothing() -> None:
    text = _cmake(_of(cpu("a.cpp")))
    assert not re.search(r"find_package|execute_process|file\(|include\(|try_compile", text)


def test_the_project_is_called_after_the_kernel() -> None:
    text = _cmake(spec(kernel(name="silu-and-mul")))
    assert "project(silu_and_mul LANGUAGES CXX)" in text


# --- sources ---


def test_sources_are_in_declared_order_behind_the_generated_one() -> None:
    text = _cmake(_of(cpu("z.cpp", "a.cpp"), cpu("m.cpp", name="more"), src=("b.cpp",)))
    assert _sources(text) == ["gen/extension.cpp", "src/b.cpp", "src/z.cpp", "src/a.cpp", "src/m.cpp"]


def test_a_tvm_ffi_library_has_no_generated_source() -> None:
    assert _sources(_cmake(spec(tvm_ffi(cpu("a.cpp"))))) == ["src/tvm-ffi-ext/binding.cpp", "src/a.cpp"]


def test_headers_that_are_listed_are_not_compiled() -> None:
    assert "a.h" not in _cmake(_of(cpu("a.h", "b.hpp", "c.cpp", "d.inl", "e.cuh")))


def test_a_source_that_is_listed_twice_is_compiled_once() -> None:
    assert _sources(_cmake(_of(cpu("a.cpp", "a.cpp"))))[1:] == ["src/a.cpp"]


@pytest.mark.parametrize("suffix", ["cc", "cpp", "cxx", "c++", "CPP"])
def test_cpp_sources(suffix: str) -> None:
    text = _cmake(_of(cpu(f"a.{suffix}", cxx_flags=("-O2",))))
    assert ("LANGUAGES CXX)" in text, _options(text, f"a.{suffix}")[-1]) == (True, "-O2")


def test_a_c_source_adds_the_language_and_takes_no_cxx_flags() -> None:
    text = _cmake(_of(cpu("a.c", "b.cpp", cxx_flags=("-fno-rtti",)), cxx_flags=("-O2",)))
    assert "LANGUAGES CXX C)" in text
    assert (_options(text, "a.c")[1:], _options(text, "b.cpp")[1:]) == ([], ["-fno-rtti"])


@pytest.mark.parametrize(
    ("made", "where"),
    [
        (_of(cpu("a.cu", name="fast")), "[kernel.fast] src: 'a.cu'"),
        (_of(cpu("a.cpp"), src=("dir/b.hip",)), "[torch] src: 'dir/b.hip'"),
        (spec(tvm_ffi(cpu("a.metal", name="m"))), "[kernel.m] src: 'a.metal'"),
        (spec(kernel(TvmFfi(src=("a.mm",)))), "[tvm-ffi] src: 'a.mm'"),
    ],
    ids=["CUDA", "HIP", "Metal", "Objective-C++"],
)
def test_a_source_of_another_backend_is_refused(made: BuildSpec, where: str) -> None:
    with pytest.raises(StepError) as caught:
        render.project(made, _inputs(made))
    assert str(caught.value) == (
        f"kernels/relu/build.toml: {where} is not a C or C++ source; list it in a component of its own backend"
    )


# --- flags and include folders ---


def test_each_source_has_the_flags_and_includes_of_its_component() -> None:
    parts = (
        cpu("a.cpp", name="a", include=("one", "two"), cxx_flags=("-a1", "-a2")),
        cpu("b.cpp", name="b", include=(".",), cxx_flags=("-b",)),
        cpu("c.cpp", name="c"),
    )
    text = _cmake(_of(*parts, src=("t.cpp",), include=("three",), cxx_flags=("-t",)))
    assert {
        path: (_includes(text, path), _options(text, path)[1:]) for path in ("a.cpp", "b.cpp", "c.cpp", "t.cpp")
    } == {
        "a.cpp": (["one", "two"], ["-a1", "-a2"]),
        "b.cpp": (["."], ["-b"]),
        "c.cpp": ([], []),
        "t.cpp": (["three"], ["-t"]),
    }


def test_a_source_of_two_components_is_compiled_once_with_what_both_say() -> None:
    parts = (
        cpu("a.cpp", name="one", include=("x", "y"), cxx_flags=("-1", "-same")),
        cpu("a.cpp", name="two", include=("y", "z"), cxx_flags=("-same", "-2")),
    )
    text = _cmake(_of(*parts))
    assert _sources(text)[1:] == ["src/a.cpp"]
    # An include folder is searched once; a flag may be meant twice.
    assert (_includes(text, "a.cpp"), _options(text, "a.cpp")[1:]) == (["x", "y", "z"], ["-1", "-same", "-same", "-2"])


_X86_FLAGS = ("-mavx2", "-mavx512f", "-msse4.2", "-mfma", "-mf16c", "-mbmi2")
_ANY_FLAGS = ("-O2", "-march=armv8.2-a", "-mcpu=generic", "-mno-outline-atomics", "-DX=-mavx2")


@pytest.mark.parametrize(
    ("platform", "flags"),
    [(Platform.X86_64_LINUX, (*_X86_FLAGS, *_ANY_FLAGS)), (Platform.AARCH64_LINUX, _ANY_FLAGS)],
)
def test_flags_of_x86_do_not_reach_another_processors_compiler(platform: Platform, flags: tuple[str, ...]) -> None:
    planned = kernel(Torch(), cpu("a.cpp", cxx_flags=(*_X86_FLAGS, *_ANY_FLAGS)))
    made = spec(planned, matrix=Matrix(torch=(row("2.13", "cpu", platform),)), on=host(platform=platform))
    assert _options(_cmake(made), "a.cpp")[1:] == list(flags)


def test_folders_that_are_always_searched() -> None:
    assert _arguments(_cmake(_of(cpu("a.cpp"))), "target_include_directories(extension PRIVATE") == [
        "gen/torch-ext",
        "src/csrc",
        "src/torch-ext",
    ]


@pytest.mark.parametrize("flag", _HARD_FLAGS)
def test_flags_arrive_as_they_were_written(flag: str) -> None:
    flags = (flag, f"-D{flag}", f"{flag}x", "last")
    assert _options(_cmake(_of(cpu("a.cpp", cxx_flags=flags))), "a.cpp")[1:] == list(flags)


@pytest.mark.parametrize("name", _HARD)
def test_names_of_sources_arrive_as_they_were_written(name: str) -> None:
    assert _sources(_cmake(_of(cpu(f"{name}/{name}.cpp"))))[1:] == [f"src/{name}/{name}.cpp"]


@pytest.mark.parametrize("name", _HARD)
def test_names_of_include_folders_arrive_as_they_were_written(name: str) -> None:
    assert _includes(_cmake(_of(cpu("a.cpp", include=(name,)))), "a.cpp") == [name]


# --- the extension's name ---


def test_a_source_gets_a_placeholder_for_the_name_unless_it_spells_it() -> None:
    text = _cmake(_of(cpu("a.cpp", "b.cpp", cxx_flags=("-O2",))), "b.cpp")
    assert (_options(text, "a.cpp"), _options(text, "b.cpp")) == (
        ["-DTORCH_EXTENSION_NAME=kernelyard_op_namespace", "-O2"],
        ["-include", "../gen/extension_name.h", "-O2"],
    )


def test_a_source_of_a_tvm_ffi_library_gets_the_name_only_if_it_spells_it() -> None:
    text = _cmake(spec(tvm_ffi(cpu("a.cpp", "b.cpp"))), "b.cpp")
    assert (_options(text, "a.cpp"), _options(text, "b.cpp")) == ([], ["-include", "../gen/extension_name.h"])


def test_the_project_does_not_follow_the_content() -> None:
    made = _of(cpu("a.cpp"))
    assert "_relu_cpu_" not in "".join(render.project(made, _inputs(made)).values())


@pytest.mark.parametrize(
    ("planned", "macro"), [(kernel(), "TORCH_EXTENSION_NAME"), (tvm_ffi(), "TVM_FFI_EXTENSION_NAME")]
)
def test_extension_name(planned: Kernel, macro: str) -> None:
    rendered = render.extension_name(spec(planned), "_relu_cpu_01234567")
    assert list(rendered) == ["gen/extension_name.h"]
    assert f"\n#define {macro} _relu_cpu_01234567\n" in rendered["gen/extension_name.h"]


# --- definitions and the standard ---


@pytest.mark.parametrize(
    ("planned", "definitions"),
    [
        (kernel(), ["CPU_KERNEL", "Py_LIMITED_API=0x03090000"]),
        (
            kernel(Torch(stable_abi={Backend.CPU: Version(2, 11)})),
            ["CPU_KERNEL", "Py_LIMITED_API=0x03090000", "TORCH_TARGET_VERSION=0x020b000000000000"],
        ),
        (
            kernel(Torch(stable_abi={Backend.CPU: Version(2, 9)})),
            ["CPU_KERNEL", "Py_LIMITED_API=0x03090000", "TORCH_TARGET_VERSION=0x0209000000000000"],
        ),
        (tvm_ffi(), ["CPU_KERNEL"]),
    ],
    ids=["torch", "stable ABI 2.11", "stable ABI 2.9", "tvm-ffi"],
)
def test_definitions(planned: Kernel, definitions: list[str]) -> None:
    assert _arguments(_cmake(spec(planned)), "target_compile_definitions(extension PRIVATE") == definitions


@pytest.mark.parametrize(
    ("planned", "on", "matrix", "standard"),
    [
        (kernel(), host(torch=torch("2.11.0+cpu")), Matrix(torch=(row("2.11"),)), "17"),
        (kernel(), host(torch=torch("2.12.0")), Matrix(torch=(row("2.12"),)), "20"),
        (kernel(), HOST, MATRIX, "20"),
        (tvm_ffi(), HOST, MATRIX, "20"),
    ],
    ids=["torch 2.11", "torch 2.12", "torch 2.13", "tvm-ffi"],
)
def test_cxx_standard(planned: Kernel, on: Host, matrix: Matrix, standard: str) -> None:
    assert f"CXX_STANDARD {standard}\n" in _cmake(spec(planned, on=on, matrix=matrix))


# --- Python ---


@pytest.mark.parametrize(
    ("planned", "names"),
    [
        (kernel(), {"ops", "add_op_namespace_prefix"}),
        (noarch(), {"ops", "add_op_namespace_prefix"}),
        (
            tvm_ffi(),
            {
                "ops",
                "has_torch",
                "has_jax",
                "torch_add_op_namespace_prefix",
                "jax_add_ffi_target_name_prefix",
                "jax_register_ffi_target",
                "jax_ffi_call",
            },
        ),
    ],
    ids=["torch", "noarch", "tvm-ffi"],
)
def test_ops_module_has_the_names_that_upstreams_has(planned: Kernel, names: set[str]) -> None:
    tree = ast.parse(render.ops_module(spec(planned), "_relu_cpu_01234567"))
    defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    defined |= {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    assert defined == names


@pytest.mark.parametrize(
    ("planned", "line"),
    [
        (kernel(), "ops = torch.ops._relu_cpu_01234567"),
        (noarch(), "ops = torch.ops._relu_cpu_01234567"),
        (tvm_ffi(), 'ops = tvm_ffi.load_module(str(Path(__file__).absolute().with_name("_relu_cpu_01234567.so")))'),
    ],
    ids=["torch", "noarch", "tvm-ffi"],
)
def test_ops_module_reaches_the_operators_by_the_extensions_name(planned: Kernel, line: str) -> None:
    assert line in render.ops_module(spec(planned), "_relu_cpu_01234567").splitlines()


def test_only_an_extension_of_python_is_imported() -> None:
    lines = {
        key: "from . import _x" in render.ops_module(spec(planned), "_x").splitlines()
        for key, planned in (("torch", kernel()), ("noarch", noarch()), ("tvm-ffi", tvm_ffi()))
    }
    assert lines == {"torch": True, "noarch": False, "tvm-ffi": False}


@pytest.mark.parametrize(("platform", "kept"), [(Platform.X86_64_LINUX, True), (Platform.AARCH64_LINUX, False)])
def test_flags_of_x86s_instruction_sets_reach_x86_only(platform: Platform, *, kept: bool) -> None:
    planned = kernel(None, cpu("a.cpp", cxx_flags=("-mavx512f", "-mfma", "-msse4.2", "-O2", "-mtune=generic")))
    made = spec(planned, matrix=Matrix(torch=(row("2.13", "cpu", platform),)), on=host(platform=platform))
    cmake = render.project(made, Inputs(sources=("a.cpp",), package=()))["CMakeLists.txt"]
    assert [flag in cmake for flag in ("-mavx512f", "-mfma", "-msse4.2")] == [kept] * 3
    assert "-O2" in cmake
    assert "-mtune=generic" in cmake
