"""Which files of a kernel's folder a build reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from buildlib import inputs
from buildlib.config.model import Kernel, Torch, TorchNoarch
from buildlib.files import FileCache
from buildlib.inputs import Inputs
from buildlib.plan import BuildSpec
from buildlib.variant import Backend

from .factories import cpu, cuda, kernel, noarch, spec, tvm_ffi, write_files


def _find(made: BuildSpec, files: dict[str, str] | dict[str, bytes]) -> Inputs:
    folder = write_files(made.kernel.folder, files)
    return inputs.find(made, FileCache(folder / ".cache"))


def _one(tmp_path: Path, *src: str, include: tuple[str, ...] = ()) -> BuildSpec:
    """A spec with one component, which lists `src`."""
    return spec(kernel(Torch(), cpu(*src, include=include), folder=tmp_path / "relu"))


# Files by path, what the component lists, its include folders, and the files that are read.
_CLOSURES: dict[str, tuple[dict[str, str], tuple[str, ...], tuple[str, ...], tuple[str, ...]]] = {
    "beside the source": (
        {"a/x.cpp": '#include "y.h"', "a/y.h": "", "y.h": ""},
        ("a/x.cpp",),
        (),
        ("a/x.cpp", "a/y.h"),
    ),
    "relative to the source": (
        {"a/x.cpp": '#include "../b/y.h"', "b/y.h": ""},
        ("a/x.cpp",),
        (),
        ("a/x.cpp", "b/y.h"),
    ),
    "angle brackets do not look beside the source": (
        {"a/x.cpp": "#include <y.h>", "a/y.h": ""},
        ("a/x.cpp",),
        (),
        ("a/x.cpp",),
    ),
    "angle brackets look in the include folders": (
        {"a/x.cpp": "#include <y.h>", "inc/y.h": ""},
        ("a/x.cpp",),
        ("inc",),
        ("a/x.cpp", "inc/y.h"),
    ),
    "quotes look in the include folders": (
        {"a/x.cpp": '#include "y.h"', "inc/y.h": ""},
        ("a/x.cpp",),
        ("inc",),
        ("a/x.cpp", "inc/y.h"),
    ),
    "the first include folder wins": (
        {"x.cpp": "#include <y.h>", "one/y.h": "", "two/y.h": ""},
        ("x.cpp",),
        ("two", "one"),
        ("two/y.h", "x.cpp"),
    ),
    "csrc is always searched": (
        {"a/x.cpp": "#include <y.h>", "csrc/y.h": ""},
        ("a/x.cpp",),
        (),
        ("a/x.cpp", "csrc/y.h"),
    ),
    "include folders come before csrc": (
        {"x.cpp": "#include <y.h>", "csrc/y.h": "", "inc/y.h": ""},
        ("x.cpp",),
        ("inc",),
        ("inc/y.h", "x.cpp"),
    ),
    "the kernel's folder as an include folder": (
        {"a/x.cpp": '#include "b/y.h"', "b/y.h": ""},
        ("a/x.cpp",),
        (".",),
        ("a/x.cpp", "b/y.h"),
    ),
    "without it, paths from the kernel's folder are not found": (
        {"a/x.cpp": '#include "b/y.h"', "b/y.h": ""},
        ("a/x.cpp",),
        (),
        ("a/x.cpp",),
    ),
    "through headers": (
        {"x.cpp": '#include "a/1.h"', "a/1.h": '#include "2.h"', "a/2.h": '#include "../3.h"', "3.h": ""},
        ("x.cpp",),
        (),
        ("3.h", "a/1.h", "a/2.h", "x.cpp"),
    ),
    "in a circle": (
        {"x.cpp": '#include "1.h"', "1.h": '#include "2.h"', "2.h": '#include "1.h"\n#include "2.h"'},
        ("x.cpp",),
        (),
        ("1.h", "2.h", "x.cpp"),
    ),
    "a header that nothing reaches is not read": ({"x.cpp": "", "y.h": ""}, ("x.cpp",), (), ("x.cpp",)),
    "a header that is listed is read": ({"x.cpp": "", "y.h": ""}, ("x.cpp", "y.h"), (), ("x.cpp", "y.h")),
    "a source that nothing lists is not read": ({"x.cpp": "", "y.cpp": ""}, ("x.cpp",), (), ("x.cpp",)),
    "an included source": (
        {"x.cpp": '#include "y.cpp"', "y.cpp": '#include "z.h"', "z.h": ""},
        ("x.cpp",),
        (),
        ("x.cpp", "y.cpp", "z.h"),
    ),
    "what CUDA sources include": (
        {"x.cpp": '#include "y.cu"', "y.cu": '#include "z.cuh"\n#include "w.cu"', "z.cuh": "", "w.cu": ""},
        ("x.cpp",),
        (),
        ("w.cu", "x.cpp", "y.cu", "z.cuh"),
    ),
    "a file of another kind": (
        {"x.cpp": '#include "table.def"', "table.def": ""},
        ("x.cpp",),
        (),
        ("table.def", "x.cpp"),
    ),
    "a header of the system": ({"x.cpp": "#include <vector>"}, ("x.cpp",), (), ("x.cpp",)),
    "a header outside of the folder": ({"x.cpp": '#include "../outside.h"'}, ("x.cpp",), (), ("x.cpp",)),
    "an absolute header": ({"x.cpp": '#include "/usr/include/stdio.h"'}, ("x.cpp",), (), ("x.cpp",)),
    "a header in a hidden folder": ({"x.cpp": '#include ".h/y.h"', ".h/y.h": ""}, ("x.cpp",), (), ("x.cpp",)),
    "a suffix of C++ that is rare": ({"x.c++": '#include "y.h"', "y.h": ""}, ("x.c++",), (), ("x.c++", "y.h")),
}  # fmt: skip


@pytest.mark.parametrize("closure", _CLOSURES)
def test_sources_and_what_they_include(tmp_path: Path, closure: str) -> None:
    files, listed, include, expected = _CLOSURES[closure]
    write_files(tmp_path, {"outside.h": ""})
    assert _find(_one(tmp_path, *listed, include=include), files).sources == expected


@pytest.mark.parametrize(
    "line",
    [
        '#include "y.h"',
        '  #  include\t"y.h"',
        '#include"y.h"',
        '#import "y.h"',
        '#include "y.h" // why',
        '#include "y.h"\r',
        'int a;\n#include "y.h"\nint b;',
        '#if 0\n#include "y.h"\n#endif',
        '#include "./y.h"',
        '#include "sub/../y.h"',
        # A byte order mark, as editors on Windows leave it.
        '\ufeff#include "y.h"',
    ],
)
def test_ways_to_write_an_include(tmp_path: Path, line: str) -> None:
    assert _find(_one(tmp_path, "x.cpp"), {"x.cpp": line, "y.h": ""}).sources == ("x.cpp", "y.h")


@pytest.mark.parametrize(
    "line", ['// #include "y.h"', 'auto s = "#include \\"y.h\\"";', '#include_next "y.h"', "#include NAME"]
)
def test_what_is_no_include(tmp_path: Path, line: str) -> None:
    assert _find(_one(tmp_path, "x.cpp"), {"x.cpp": line, "y.h": ""}).sources == ("x.cpp",)


@pytest.mark.parametrize("name", ["a b.h", "a=b.h", "a#b.h", "a'b.h", "$a.h", "größe.h", "日本.h", "a,b.h", "a(b).h"])
def test_names_of_headers(tmp_path: Path, name: str) -> None:
    found = _find(_one(tmp_path, "x y/x.cpp"), {"x y/x.cpp": f'#include "{name}"', f"x y/{name}": ""})
    assert found.sources == tuple(sorted(("x y/x.cpp", f"x y/{name}")))


def test_a_source_that_is_not_utf_8_is_read(tmp_path: Path) -> None:
    found = _find(_one(tmp_path, "x.cpp"), {"x.cpp": b'// caf\xe9\n#include "y.h"', "y.h": b"\xff\x00"})
    assert found.sources == ("x.cpp", "y.h")


def test_a_listed_source_that_is_gone_stays_an_input(tmp_path: Path) -> None:
    # It is missed when the build reads it, with a message of its own; the digest must not do as if it were not listed.
    assert _find(_one(tmp_path, "gone.cpp", "x.cpp"), {"x.cpp": ""}).sources == ("gone.cpp", "x.cpp")


def test_include_folders_hold_for_their_own_component_alone(tmp_path: Path) -> None:
    parts = (cpu("a.cpp", name="a", include=("one",)), cpu("b.cpp", name="b", include=("two",)))
    made = spec(kernel(Torch(), *parts, folder=tmp_path / "relu"))
    files = {"a.cpp": "#include <y.h>", "b.cpp": "#include <z.h>", "one/y.h": "", "one/z.h": "", "two/y.h": ""}
    assert _find(made, files).sources == ("a.cpp", "b.cpp", "one/y.h")


def test_the_frameworks_own_sources_and_include_folders_count(tmp_path: Path) -> None:
    made = spec(kernel(Torch(src=("b.cpp",), include=("inc",)), cpu("a.cpp"), folder=tmp_path / "relu"))
    files = {"a.cpp": "#include <y.h>", "b.cpp": "#include <y.h>", "inc/y.h": ""}
    assert _find(made, files).sources == ("a.cpp", "b.cpp", "inc/y.h")


def test_another_backends_component_is_not_read(tmp_path: Path) -> None:
    parts = (cpu("a.cpp"), cuda("a.cu"))
    assert _find(spec(kernel(Torch(), *parts, folder=tmp_path / "relu")), {"a.cpp": "", "a.cu": ""}).sources == (
        "a.cpp",
    )


def test_nothing_is_compiled_for_a_backend_without_a_component(tmp_path: Path) -> None:
    made = spec(kernel(Torch(src=("b.cpp",)), folder=tmp_path / "relu", backends=(Backend.TPU,)))
    found = _find(made, {"b.cpp": "", "torch-ext/relu/__init__.py": ""})
    assert (found.sources, found.package) == ((), ("torch-ext/relu/__init__.py",))


# --- the Python package ---


@pytest.mark.parametrize(
    ("pyext", "shipped"),
    [
        ((), ["__init__.py", "layers/__init__.py", "stubs.pyi"]),
        (("json",), ["__init__.py", "data.json", "layers/__init__.py", "stubs.pyi"]),
        (("py",), ["__init__.py", "layers/__init__.py", "stubs.pyi"]),
        (("txt", "json"), ["__init__.py", "data.json", "layers/__init__.py", "layers/note.txt", "stubs.pyi"]),
    ],
)
def test_files_that_ship(tmp_path: Path, pyext: tuple[str, ...], shipped: list[str]) -> None:
    names = ("__init__.py", "layers/__init__.py", "layers/note.txt", "stubs.pyi", "data.json", "x.cpp", "json", ".py")
    files = dict.fromkeys((f"torch-ext/relu/{name}" for name in names), "")
    files |= dict.fromkeys(("torch-ext/relu/__pycache__/a.pyc", "torch-ext/other/__init__.py", "setup.py"), "")
    found = _find(spec(noarch(folder=tmp_path / "relu", pyext=pyext)), files)
    assert found.package == tuple(f"torch-ext/relu/{name}" for name in shipped)


@pytest.mark.parametrize(
    ("planned", "folder"),
    [
        (kernel(name="silu-and-mul"), "torch-ext/silu_and_mul"),
        (noarch(), "torch-ext/relu"),
        (tvm_ffi(), "tvm-ffi-ext/relu"),
    ],
)
def test_package_folder(planned: Kernel, folder: str) -> None:
    assert inputs.package_folder(planned) == folder


def test_all_has_each_input_once_and_sorted() -> None:
    found = Inputs(sources=("torch-ext/relu/x.py", "b.cpp", "a.cpp"), package=("torch-ext/relu/x.py",))
    assert found.all == ("a.cpp", "b.cpp", "torch-ext/relu/x.py")


@pytest.mark.parametrize(
    ("path", "compiled"),
    [
        *((f"a.{suffix}", True) for suffix in ("c", "cc", "cpp", "cxx", "c++", "cu", "hip", "m", "mm", "metal", "CPP")),
        *((f"a.{suffix}", False) for suffix in ("h", "hpp", "cuh", "inl", "inc", "txt", "py", "cpp.txt")),
        ("cpp", False),
        ("a.b/c", False),
    ],
)
def test_is_compiled(path: str, *, compiled: bool) -> None:
    assert inputs.is_compiled(path) is compiled


# --- sources that spell the extension's name ---

_THROUGH_MACROS = """
    #include "registration.h"
    TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {}
    TORCH_LIBRARY_FRAGMENT_EXPAND(TORCH_EXTENSION_NAME, ops) {}
    TORCH_LIBRARY_IMPL_EXPAND( TORCH_EXTENSION_NAME, CPU, ops) {}
    STABLE_TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {}
    STABLE_TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, CPU, ops) {}
    REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
"""


@pytest.mark.parametrize(
    ("content", "spells"),
    [
        (_THROUGH_MACROS, False),
        ("int main() {}", False),
        ("int MY_TORCH_EXTENSION_NAMES;", False),
        ("REGISTER_EXTENSION(other)", False),
        ("PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {}", True),
        ("TORCH_LIBRARY(TORCH_EXTENSION_NAME, m) {}", True),
        ("auto name = STRING(TVM_FFI_EXTENSION_NAME);", True),
        (f"{_THROUGH_MACROS} PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {{}}", True),
        # Macros of the kernel's own under the names of ours expand to whatever they like.
        ("#define REGISTER_EXTENSION(NAME) int NAME;", True),
        ("#  define TORCH_LIBRARY_EXPAND(NAME, M) TORCH_LIBRARY(NAME, M)", True),
    ],
)
def test_which_sources_spell_the_name(tmp_path: Path, content: str, *, spells: bool) -> None:
    found = _find(_one(tmp_path, "x.cpp"), {"x.cpp": content})
    assert ("x.cpp" in found.spell_name) is spells


def test_a_header_that_spells_the_name_counts_for_what_includes_it(tmp_path: Path) -> None:
    files = {
        "x.cpp": '#include "a.h"',
        "y.cpp": "",
        "a.h": '#include "b.h"',
        "b.h": "TORCH_LIBRARY(TORCH_EXTENSION_NAME, m) {}",
    }
    assert _find(_one(tmp_path, "x.cpp", "y.cpp", "b.h"), files).spell_name == {"x.cpp"}


def test_a_registration_h_of_the_kernels_own_is_taken_as_it_is(tmp_path: Path) -> None:
    files = {
        "torch-ext/binding.cpp": f'#include "registration.h"\n{_THROUGH_MACROS}',
        "torch-ext/registration.h": "#define TORCH_LIBRARY_EXPAND(NAME, MODULE) TORCH_LIBRARY(NAME, MODULE)",
    }
    found = _find(_one(tmp_path, "torch-ext/binding.cpp"), files)
    assert found.sources == ("torch-ext/binding.cpp", "torch-ext/registration.h")
    assert found.spell_name == {"torch-ext/binding.cpp"}


def test_noarch_has_no_sources(tmp_path: Path) -> None:
    made = spec(noarch(folder=tmp_path / "relu"))
    assert isinstance(made.kernel.framework, TorchNoarch)
    assert _find(made, {"csrc/a.cpp": "", "torch-ext/relu/__init__.py": ""}).sources == ()
