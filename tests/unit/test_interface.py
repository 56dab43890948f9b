"""What an artifact's users can call, read from text, and what counts as losing some of it."""

from __future__ import annotations

import pytest

from buildlib import interface
from buildlib.interface import Interface


def package(init: str, **modules: str) -> dict[str, bytes]:
    files = {"__init__.py": init, **{f"{name.replace('__', '/')}.py": text for name, text in modules.items()}}
    return {path: text.encode() for path, text in files.items()}


@pytest.mark.parametrize(
    ("files", "found"),
    [
        (package("def f(x: int, *, y: 'str' = 1) -> None: ...\n__all__ = ['f']"), {"f": "(x, *, y=1)"}),
        (package("def f(a, /, b, *c, d, **e): ..."), {"f": "(a, /, b, *c, d, **e)"}),
        (package("async def f(): ...\n__all__ = ('f',)"), {"f": "()"}),
        (package("def f(): ...\ndef _g(): ...\nimport os"), {"f": "()"}),
        (package("def f(): ...\ndef g(): ...\n__all__ = ['f']"), {"f": "()"}),
        (package("def f(): ...\n__all__: list[str] = ['f', 'X']"), {"X": "", "f": "()"}),
        (package("def f(): ...\n__all__ = ['f']\n__all__ += ('X',)"), {"X": "", "f": "()"}),
        (package("def f(): ...\n__all__ = ['f'] + m.__all__ + ['X']"), {"X": "", "f": "()"}),
        (package("def f(): ...\ndef g(): ...\n__all__ = m.__all__\n__all__: list"), {"f": "()", "g": "()"}),
        (package("from ._m import g as f\n__all__ = ['f']", _m="def g(x): ..."), {"f": "(x)"}),
        (package("from ._m import *\n__all__ = ['f']", _m="def f(x): ..."), {"f": "(x)"}),
        (package("from ._a import f\n__all__ = ['f']", _a="from ._b import f", _b="def f(x): ..."), {"f": "(x)"}),
        (package("from ._a.b import f\n__all__ = ['f']", _a__b="from .. import c\ndef f(x): ..."), {"f": "(x)"}),
        (package("if True:\n  def f(x): ...\n__all__ = ['f']"), {"f": "(x)"}),
        (package("from ._a import f\n__all__ = ['f']", _a="from . import f"), {"f": ""}),
        (package("from elsewhere import f\n__all__ = ['f', 'X']\nX = 1"), {"X": "", "f": ""}),
        (
            package("class C:\n  def __init__(self, a): ...\n  def run(self, b=2): ...\n  def _no(self): ..."),
            {"C": "(self, a)", "C.run": "(self, b=2)"},
        ),
        (
            package("from . import layers\n__all__ = ['layers']", layers="class L:\n  def forward(self, x): ..."),
            {"layers": "", "layers.L": "", "layers.L.forward": "(self, x)"},
        ),
        (package("from ._m import C as D\n__all__ = ['D']", _m="class C:\n  def f(s): ..."), {"D": "", "D.f": "(s)"}),
        (package("this is no Python"), {}),
        ({}, {}),
    ],
)  # fmt: skip
def test_python(files: dict[str, bytes], found: dict[str, str]) -> None:
    assert interface.python(files) == found


@pytest.mark.parametrize(
    ("source", "ops"),
    [
        ('ops.def("relu(Tensor x) -> Tensor");', {"relu": "(Tensor x) -> Tensor"}),
        ('m.def("relu", &relu);', {"relu": ""}),
        ('m.def("ns::f.out(Tensor x, *, Tensor(a!) out) -> ()", f);', {"f.out": "(Tensor x, *, Tensor(a!) out) -> ()"}),
        ('ops.def(\n  "f(Tensor x, "  // why\n  "int n) /* no comment */ -> Tensor");', {}),
        ('ops.def("f(Tensor x, " // "g()"\n /* "h" */ "int n=1) -> Tensor");', {"f": "(Tensor x, int n=1) -> Tensor"}),
        ('// ops.def("gone(Tensor x) -> Tensor");\n/* ops.def("gone") */', {}),
        ('undef("f"); def(name); printf("def(x)");', {}),
    ],
)  # fmt: skip
def test_ops_of_cpp(source: str, ops: dict[str, str]) -> None:
    assert interface.of({}, [source.encode()]).ops == ops


def test_ops_of_python() -> None:
    code = (
        '@torch.library.custom_op(add_op_namespace_prefix("scale"), mutates_args=())\ndef scale(x: Tensor, by=2): ...\n'
    )
    assert interface.of(package(code)).ops == {"scale": "(x, by=2)"}


def test_a_file_that_is_no_library_exports_nothing() -> None:
    assert interface.of({}, library=b"text").ops == {}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("(x)", "(x)"),
        ("(x)", "(x, y=1)"),
        ("(x)", "(x, *, y=1)"),
        ("(x)", "(x=0)"),
        ("(x, /)", "(z, /)"),
        ("(x, /)", "(x)"),
        ("(*, k=1)", "(k=1)"),
        ("(*, k)", "(*, k=3)"),
        ("(x)", "(x, *more)"),
        ("(x)", "(x, **more)"),
        ("", "(x)"),
        ("(Tensor x) -> Tensor", "(Tensor x, int n=1) -> Tensor"),
        ("(Tensor x) -> Tensor", "(Tensor x, *, int n=1) -> Tensor"),
        ("(int[2] s=[1, 2]) -> ()", "(int[2] s = [1,2], Dict(str, int)? d=None) -> ( )"),
        ("(int n) -> int", "(int n=1) -> int"),
    ],
)
def test_what_every_old_call_fits_is_no_loss(old: str, new: str) -> None:
    assert interface.losses(Interface(python={"f": old}), Interface(python={"f": new})) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("(x)", "(x, y)"),
        ("(x)", "(y)"),
        ("(x, y)", "(y, x)"),
        ("(x, y)", "(x)"),
        ("(x, y=1)", "(x, y=2)"),
        ("(x, y=1)", "(x, y)"),
        ("(x)", "(x, /)"),
        ("(x)", "(*, x)"),
        ("(x)", "(x, *, n)"),
        ("(*args)", "(x=1, *args)"),
        ("(*args)", "()"),
        ("(**kwargs)", "()"),
        ("(*, k=1)", "()"),
        ("(*, k=1)", "(*, k=2)"),
        ("(x)", ""),
        ("(Tensor x) -> Tensor", "(Tensor x, int n) -> Tensor"),
        ("(Tensor x) -> Tensor", "(Tensor x) -> ()"),
        ("(Tensor x) -> Tensor", "(Tensor y) -> Tensor"),
        ("(Tensor x, int n=1) -> Tensor", "(Tensor x) -> Tensor"),
        ("(Tensor x) -> Tensor", ""),
    ],
)
def test_what_breaks_a_call_is_a_loss(old: str, new: str) -> None:
    assert interface.losses(Interface(python={"f": old}), Interface(python={"f": new})) == [f"f{old} became f{new}"]


def test_what_is_gone_is_a_loss_and_what_is_new_is_not() -> None:
    old = Interface(python={"f": "()"}, ops={"g": "() -> ()"})
    new = Interface(python={"h": "()"}, ops={"i": ""})
    assert interface.losses(old, new) == ["f is gone", "op g is gone"]
