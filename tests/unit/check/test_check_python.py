"""The checks of an artifact's Python modules."""

from __future__ import annotations

import textwrap

import pytest

from buildlib.check import client, imports, load, ops, syntax
from buildlib.check.finding import NotChecked
from buildlib.variant import Backend
from buildlib.workspace import Workspace
from tests.unit.check.subjects import messages, metadata, reasons, subject
from tests.unit.factories import kernel, noarch, spec, tvm_ffi

# --- operators ---

OURS = "from ._ops import add_op_namespace_prefix, ops\n"


def registrations(code: str) -> list[str]:
    """What is registered without the prefix: `line: function(argument`."""
    found = messages(ops.check(subject(modules={"layers.py": textwrap.dedent(code)})))
    return [message.removeprefix("layers.py: line ").partition(", …)")[0] for message in found]


@pytest.mark.parametrize(
    "code",
    [
        '@torch.library.custom_op(add_op_namespace_prefix("relu"), mutates_args=())\ndef relu(x): ...',
        'torch.library.register_fake(add_op_namespace_prefix("relu"))',
        'from ._ops import add_op_namespace_prefix as own\ntorch.library.register_fake(own("relu"))',
        'from . import _ops\ntorch.library.register_fake(_ops.add_op_namespace_prefix("relu"))',
        'NAME = add_op_namespace_prefix("relu")\ntorch.library.register_fake(NAME)',
        'torch.library.register_fake(add_op_namespace_prefix("relu") + ".out")',
        "torch.library.define(f\"{add_op_namespace_prefix('relu')}(Tensor x) -> Tensor\")",
        "torch.library.register_fake(ops.relu.default)",
        # A library under the kernel's namespace gives it to the names that have none.
        (
            'lib = torch.library.Library(add_op_namespace_prefix("").removesuffix("::"), "FRAGMENT")\n'
            'lib.define("relu(Tensor x) -> Tensor")\nlib.impl("relu", f, "CPU")'
        ),
        # Known to a caller, or to another module, alone.
        "def register(name):\n    torch.library.register_fake(name)",
        "from .names import NAME\ntorch.library.register_fake(NAME)",
        (
            '@torch.library.custom_op(add_op_namespace_prefix("f"), mutates_args=())\ndef f(x): ...\n'
            "torch.library.register_autograd(f, backward)"
        ),
        # Others have functions of these names too.
        'mock.impl("relu::relu")',
        'from elsewhere import custom_op\ncustom_op("relu::relu")',
        "x = x + 1\ntorch.library.custom_op(add_op_namespace_prefix(x))",
    ],
)
def test_a_registration_under_the_kernel_s_namespace(code: str) -> None:
    assert registrations(f"import torch\n{OURS}{code}") == []


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ('torch.library.register_fake("relu::relu")', "3: register_fake('relu::relu'"),
        ('torch.library.register_autograd("relu::relu", f)', "3: register_autograd('relu::relu'"),
        ('torch.library.impl("relu::relu", "CPU", f)', "3: impl('relu::relu'"),
        ('torch.library.define("relu::relu", "(Tensor x) -> Tensor")', "3: define('relu::relu'"),
        ('torch.library.register_kernel(op="relu::relu")', "3: register_kernel('relu::relu'"),
        ('@torch.library.custom_op("relu::relu", mutates_args=())\ndef f(x): ...', "3: custom_op('relu::relu'"),
        ('from torch.library import triton_op as op\n@op("relu::f")\ndef f(x): ...', "4: triton_op('relu::f'"),
        ('from torch import library\nlibrary.register_vmap("a::b", f)', "4: register_vmap('a::b'"),
        ('import torch.library as tl\ntl.custom_op("a::b")', "4: custom_op('a::b'"),
        ('fake = torch.library.register_fake\nfake("a::b")', "4: register_fake('a::b'"),
        ('NAME = "relu::relu"\ntorch.library.custom_op(NAME)', "4: custom_op(NAME"),
        ('torch.library.custom_op(f"{namespace}::relu")', "3: custom_op(f'{namespace}::relu'"),
        ("torch.library.register_fake(torch.ops.relu.relu.default)", "3: register_fake(torch.ops.relu.relu.default"),
        ('lib = torch.library.Library("relu", "DEF")\nlib.define("relu(Tensor x)")', "3: Library('relu'"),
        (
            'lib = torch.library.Library(add_op_namespace_prefix("")[:-2], "IMPL")\nlib.impl("aten::add", f)',
            "4: impl('aten::add'",
        ),
        ("class A:\n  def f(self):\n    def g():\n      torch.library.custom_op('a::b')", "6: custom_op('a::b'"),
        ("name = name + '::f'\ntorch.library.custom_op(name)", "4: custom_op(name"),
    ],
)
def test_a_registration_under_another_namespace(code: str, found: str) -> None:
    assert registrations(f"import torch\n{OURS}{code}") == [found]


def test_findings_are_in_the_order_of_the_file() -> None:
    code = "from torch.library import define\ndef f():\n  define('a::b', '')\ndefine('a::c', '')\n"
    assert [message.split(":")[1] for message in messages(ops.check(subject(modules={"a.py": code})))] == [
        " line 3",
        " line 4",
    ]


def test_what_to_write_is_what_the_framework_s_own_module_has() -> None:
    code = "import torch\ntorch.library.define('a::b', '')\n"
    (said,) = messages(ops.check(subject(spec(tvm_ffi()), modules={"a.py": code})))
    assert said.endswith("write torch_add_op_namespace_prefix('…'), from ._ops")


def test_the_message_says_what_to_write() -> None:
    code = "import torch\ntorch.library.register_fake('relu::relu', f)"
    assert messages(ops.check(subject(modules={"ops/fake.py": code}))) == [
        (
            "ops/fake.py: line 2: register_fake('relu::relu', …) does not register under the kernel's own namespace; "
            "write add_op_namespace_prefix('…'), from ._ops"
        )
    ]


# --- imports ---


def imported(code: str, **more: object) -> list[str]:
    described = metadata(**more)
    return messages(imports.check(subject(modules={"__init__.py": textwrap.dedent(code)}, described=described)))


@pytest.mark.parametrize(
    "code",
    [
        "from . import layers\nfrom ._ops import ops\nfrom .a.b import c",
        "import os.path, json\nfrom collections.abc import Iterator",
        "import torch.nn.functional as F\nimport triton\nfrom triton import language",
        "from __future__ import annotations",
        "from kernels import get_kernel_dep\nimport packaging.version",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import numpy",
        "try:\n    import numpy\nexcept ImportError:\n    numpy = None",
        "try:\n    import numpy\nexcept (OSError, ModuleNotFoundError):\n    numpy = None",
        "from contextlib import suppress\nwith suppress(ImportError):\n    import numpy",
        "import sys\nif sys.version_info >= (3, 15):\n    import newer",
    ],
)
def test_an_import_that_every_user_has(code: str) -> None:
    assert imported(code) == []


@pytest.mark.parametrize(
    ("code", "line", "name"),
    [
        ("import numpy as np", 1, "numpy"),
        ("from einops.layers import torch", 1, "einops"),
        ("class A:\n    import numpy", 2, "numpy"),
        ("try:\n    import a\nexcept ImportError:\n    import numpy", 4, "numpy"),
        ("try:\n    import numpy\nexcept ValueError:\n    pass", 2, "numpy"),
    ],
)
def test_an_import_that_a_user_may_not_have(code: str, line: int, name: str) -> None:
    todo = "declare einops in python-depends" if name == "einops" else "do without it"
    said = f"imports {name}, which users need not have; {todo}, or import it only where it is used"
    assert imported(code) == [f"__init__.py: line {line}: {said}"]


def test_what_comes_with_the_torch_of_a_backend_is_no_fault_and_has_to_be_there_for_a_load(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = {"__init__.py": "from .a import f", "a.py": "import jax\nimport torch_tpu.b"}
    on_tpu = subject(spec(noarch(backends=(Backend.TPU,))), modules=code)
    assert messages(imports.check(on_tpu)) == []
    monkeypatch.setattr(client, "is_here", lambda name: name != "jax")
    (left_out,) = load.check(on_tpu, workspace)
    reason = "the torch of this environment brings no jax, which the kernel imports"
    assert left_out == NotChecked(check="load", reason=reason, lacking=("jax",))


@pytest.mark.parametrize(
    "code",
    [
        {"__init__.py": "def f():\n    import jax"},
        {"__init__.py": "from ._ops import has_jax\nif has_jax:\n    import jax"},
        # Nothing imports it but a user who has jax.
        {"__init__.py": "from .layers import f", "layers/__init__.py": "", "layers/flax.py": "import jax"},
        {"__init__.py": "if has_jax:\n    from . import flax", "flax.py": "import jax"},
    ],
)
def test_an_import_that_is_not_made_at_once_is_named(code: dict[str, str]) -> None:
    (path,) = (path for path, text in code.items() if "import jax" in text)
    reason = f"{path} imports jax, but not whenever it is loaded"
    assert reasons(imports.check(subject(modules=code))) == [reason]


@pytest.mark.parametrize(
    "code",
    [
        {"__init__.py": "from . import layers", "layers.py": "import jax"},
        {"__init__.py": "from .layers.deep import f", "layers/__init__.py": "import jax", "layers/deep.py": ""},
        {
            "__init__.py": "from .a.b import f",
            "a/b.py": "from ..c import g",
            "c.py": "from .d import h",
            "d.py": "import jax",
        },
        {"__init__.py": "from .a import f", "a/__init__.py": "from .b import f", "a/b.py": "import jax"},
        {"__init__.py": "from .a import f", "a.py": "from . import g, b", "b.py": "import jax"},
    ],
)
def test_what_the_kernel_imports_of_itself_is_loaded_with_it(code: dict[str, str]) -> None:
    (said,) = messages(imports.check(subject(modules=code)))
    assert "imports jax, which users need not have" in said


def test_an_import_of_itself_is_wrong_anywhere() -> None:
    (said,) = imported("def f():\n    from relu import layers")
    assert said == "__init__.py: line 2: imports the kernel by its own name, relu; use a relative import"


def test_what_is_declared_may_be_imported() -> None:
    assert imported("import einops, tvm_ffi", python_depends=["einops", "tvm-ffi"]) == []


def test_a_kernel_that_imports_itself() -> None:
    said = "__init__.py: line 1: imports the kernel by its own name, relu; use a relative import"
    assert imported("from relu.layers import f") == [said]


def test_each_framework_brings_its_own() -> None:
    code = {"__init__.py": "import tvm_ffi"}
    assert messages(imports.check(subject(spec(tvm_ffi()), modules=code))) == []
    assert len(messages(imports.check(subject(spec(kernel()), modules=code)))) == 1


def test_the_generated_module_is_the_builder_s() -> None:
    code = {"_ops.py": "import jax\nimport torch\ntorch.library.Library('relu', 'DEF')"}
    assert messages(imports.check(subject(modules=code))) == []
    assert messages(ops.check(subject(modules=code))) == []


# --- Python 3.9 ---


def needs_newer(code: str) -> list[str]:
    read = subject(modules={"layers.py": textwrap.dedent(code)})
    said = [finding.message for finding in read.problems]
    if read.modules:
        said += [message.removeprefix("layers.py: ") for message in messages(syntax.check(read))]
    return said


@pytest.mark.parametrize(
    "code",
    [
        "from __future__ import annotations\ndef f(x: int | None) -> str | None: ...",
        "def f(x: 'int | None') -> dict[str, list[int]]: ...",
        "def f():\n    x: int | None = None",
        "flags = A | B\ndef f(x=A | B): ...",
        "from typing import Optional, Protocol",
        "import sys\nif sys.version_info >= (3, 10):\n    from typing import ParamSpec",
        "try:\n    import tomllib\nexcept ImportError:\n    tomllib = None",
        "zip(a, b)\ndataclass(frozen=True)",
        "x = '\\d'",
    ],
)
def test_what_python_3_9_understands(code: str) -> None:
    assert needs_newer(code) == []


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("match x:\n    case 1: ...", "line 1: Pattern matching is only supported in Python 3.10"),
        ("try: ...\nexcept* ValueError: ...", "line 1: Exception groups are only supported in Python 3.11"),
        (
            "def f(x: int | None): ...",
            "line 1: int | None joins types when it is run, which Python can from 3.10 on; put",
        ),
        ("def f() -> 'a' | None: ...", "line 1: 'a' | None joins types"),
        ("class A:\n    x: int | None = None", "line 2: int | None joins types"),
        ("def f():\n    class A:\n        x: int | None", "line 3: int | None joins types"),
        ("def f(x: int | None, y: str | None): ...", "line 1: int | None (and 1 more) joins types"),
        ("x: list[int | None] = []", "line 1: list[int | None] joins types"),
        ("from typing import ParamSpec", "line 1: typing.ParamSpec is there from Python 3.10 on; do without it"),
        ("from enum import StrEnum", "line 1: enum.StrEnum is there from Python 3.11 on; do without it"),
        ("import tomllib", "line 1: tomllib is there from Python 3.11 on"),
        ("zip(a, b, strict=True)", "line 1: zip(…, strict=…) is there from Python 3.10 on"),
        ("@dataclasses.dataclass(slots=True)\nclass A: ...", "line 1: dataclass(…, slots=…) is there from"),
        ("x = (", "line 1: '(' was never closed; write it so that Python 3.9 understands it"),
    ],
)
def test_what_python_3_9_does_not_understand(code: str, said: str) -> None:
    (found,) = needs_newer(code)
    assert found.startswith(said)


def test_a_module_that_is_no_text() -> None:
    (said,) = needs_newer("\0")
    assert "null bytes" in said


# --- a kernel without Python that can be read ---


def test_without_a_module_that_can_be_read_there_is_nothing_to_check() -> None:
    for check in (ops.check, imports.check, syntax.check):
        assert reasons(check(subject(spec(noarch())))) == ["no Python module that can be read"]
