"""Names and flags with every character that a shell, CMake, ninja, make or a compiler gives a meaning to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.conftest import Yard

_ODD = [
    "a b",
    "k=v",
    "mün ze",
    "do$lar",
    "ha#sh",
    'quo"te',
    "apos'trophe",
    "com,ma",
    "per%cent",
    "amp&er",
    "(paren)",
    "at@x@",
]
# What the compiler must be given, as one argument each, and the C string that it must then see.
_FLAGS = {
    "SPACE": '"a b"',
    "SEMICOLON": '"a;b"',
    "DOLLAR": '"$HOME $$ $(x)"',
    "HASH": '"#x"',
    "COMMA": '"a,b"',
    "GENEX": '"$<CONFIG> $<1:x>"',
    "APOSTROPHE": '"it\'s"',
    "BACKSLASH": r'"a\\b"',
    "EQUALS": '"a=b"',
    "NON_ASCII": '"é"',
}


def _quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _write_kernel(folder: Path) -> None:
    """A kernel whose sources and include folders have odd names; its one function returns the sum of all parts."""
    binding = ["struct Any { int type_index; unsigned padding; long long value; };"]
    binding += [f"int part{index}();" for index in range(len(_ODD))]
    total = " + ".join(f"part{index}()" for index in range(len(_ODD)))
    binding += [
        f'extern "C" int __tvm_ffi_answer(void*, const Any*, int, Any* r) {{ *r = {{1, 0, {total}}}; return 0; }}'
    ]
    checks = "".join(f"static_assert(same({name}, {text}), {_quote(name)});\n" for name, text in _FLAGS.items())
    parts = {}
    for index, odd in enumerate(_ODD):
        parts[f"src {odd}/{odd}.cpp"] = (
            "constexpr bool same(const char* a, const char* b) { return *a == *b && (!*a || same(a + 1, b + 1)); }\n"
            f"{checks}#include <{odd.replace(chr(34), '')}.h>\nint part{index}() {{ return VALUE; }}\n"
        )
        parts[f"include {odd}/{odd.replace(chr(34), '')}.h"] = f"#define VALUE {1 << index}\n"
    files = {
        "tvm-ffi-ext/binding.cpp": "\n".join(binding) + "\n",
        "tvm-ffi-ext/odd/__init__.py": "from ._ops import ops\n\n\ndef answer():\n    return ops.answer()\n",
        "tvm-ffi-ext/odd/N=1-K=2 ü.json": "{}",
        **parts,
    }
    components = "".join(
        f"""
[kernel.part{index}]
backend = "cpu"
depends = []
include = [{_quote("include " + odd)}]
cxx-flags = [{", ".join(_quote(f"-D{name}={text}") for name, text in _FLAGS.items())}]
src = [{_quote(f"src {odd}/{odd}.cpp")}]
"""
        for index, odd in enumerate(_ODD)
    )
    files["build.toml"] = f"""
[general]
name = "odd"
version = 1
edition = 5
license = "MIT"
backends = ["cpu"]

[tvm-ffi]
src = ["tvm-ffi-ext/binding.cpp"]
pyext = ["json"]
{components}"""
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)


@pytest.mark.parametrize("root", ["plain", "a b#$c'd\"é,=x", "$HOME"])
def test_odd_names_and_flags_survive(make_yard: Callable[[str], Yard], root: str) -> None:
    yard = make_yard(root)
    _write_kernel(yard.root / "kernels" / "odd kernel é")
    result = yard.doit("build")
    assert result.status == 0, result.out
    assert yard.answer("odd kernel é") == (1 << len(_ODD)) - 1
    assert (yard.artifact("odd kernel é") / "N=1-K=2 ü.json").read_text() == "{}"
    assert yard.doit("build").ran() == []
