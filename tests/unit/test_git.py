"""The files of a commit, from the objects that git has for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from buildlib import git
from buildlib.files import inspect
from buildlib.git import Tree

_ROOT = Path("/checkout")
_OBJECTS = {
    "a1": b'#include "b.h"\n',
    "b1": b"int b;\n",
    "p1": b"x = 1\n",
}


class _Objects:
    """Answers as `git cat-file` does, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, name: str) -> bytes:
        self.asked.append(name)
        return _OBJECTS[name]


def _tree(**paths: str) -> tuple[Tree, _Objects]:
    read = _Objects()
    return Tree(_ROOT, "c0ffee", {path.replace("__", "/"): name for path, name in paths.items()}, read), read


def test_information_is_that_of_a_file_in_a_checkout() -> None:
    tree, _ = _tree(**{"kernels/relu/a.cpp": "a1"})
    assert tree.get("/checkout/kernels/relu/a.cpp") == inspect(_OBJECTS["a1"], ".cpp")


def test_no_file_no_information() -> None:
    tree, read = _tree(**{"kernels/relu/a.cpp": "a1"})
    assert tree.get("/checkout/kernels/relu/gone.cpp") is None
    assert tree.content(_ROOT / "kernels/relu/gone.cpp") is None
    assert read.asked == []


def test_a_path_may_lead_out_of_a_folder_and_in_again() -> None:
    tree, _ = _tree(**{"kernels/_rust/lib.rs": "b1"})
    assert tree.get("/checkout/kernels/relu/../_rust/lib.rs") == inspect(_OBJECTS["b1"], ".rs")


def test_what_is_in_an_object_depends_on_the_suffix_too() -> None:
    tree, _ = _tree(**{"a.cpp": "a1", "a.txt": "a1"})
    (cpp, txt) = (tree.get("/checkout/a.cpp"), tree.get("/checkout/a.txt"))
    assert cpp is not None
    assert txt is not None
    assert (cpp.includes, txt.includes) == (('"b.h',), ())


def test_an_object_is_read_once() -> None:
    tree, read = _tree(**{"a.cpp": "a1", "copy/a.cpp": "a1"})
    for path in ("a.cpp", "copy/a.cpp", "a.cpp"):
        tree.get(f"/checkout/{path}")
    assert read.asked == ["a1"]


def test_an_object_is_not_read_again_by_a_later_run(tmp_path: Path) -> None:
    first, _ = _tree(**{"a.cpp": "a1"})
    first.get("/checkout/a.cpp")
    first.save(tmp_path / "objects")
    second, read = _tree(**{"moved/a.cpp": "a1", "b.h": "b1"})
    second.remember(tmp_path / "objects")
    assert second.get("/checkout/moved/a.cpp") == inspect(_OBJECTS["a1"], ".cpp")
    assert second.get("/checkout/b.h") == inspect(_OBJECTS["b1"], ".h")
    assert read.asked == ["b1"]


@pytest.mark.parametrize("content", [b"", b"not msgpack", b"\x93\x01\x02\x03"])
def test_a_damaged_record_costs_time_only(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "objects").write_bytes(content)
    tree, _ = _tree(**{"a.cpp": "a1"})
    tree.remember(tmp_path / "objects")
    assert tree.get("/checkout/a.cpp") == inspect(_OBJECTS["a1"], ".cpp")


def test_a_listing_has_what_a_listing_of_a_checkout_has() -> None:
    tree, _ = _tree(
        **{
            "kernels/relu/build.toml": "p1",
            "kernels/relu/csrc/a.cpp": "a1",
            "kernels/relu/.hidden": "p1",
            "kernels/relu/.config/x": "p1",
            "kernels/relu/__pycache__/x.pyc": "p1",
            "kernels/relu/x.pyc": "p1",
            "kernels/relu-2/build.toml": "p1",
        }
    )
    assert tree.listing(_ROOT / "kernels/relu") == ("build.toml", "csrc/a.cpp")
    assert tree.listing(_ROOT / "kernels/none") == ()
    assert set(tree.below("kernels/relu")) > {".hidden", ".config/x"}


def _line(mode: str, name: str, path: str) -> str:
    return f"{mode} blob {name}\t{path}\0"


def test_links_stand_for_what_they_name() -> None:
    contents = {"l1": b"../real/a.h", "l2": b"real", "l3": b"nowhere", "l4": b"itself", "l5": b"one.h"}
    listed = "".join(
        (
            _line("100644", "b1", "real/a.h"),
            _line("120000", "l1", "kernel/one.h"),
            _line("120000", "l2", "folder"),
            _line("120000", "l3", "dangling"),
            _line("120000", "l4", "itself"),
            _line("120000", "l5", "kernel/two.h"),
            "160000 commit s1\tsubmodule\0",
        )
    )
    assert git._objects(listed, contents.__getitem__) == {
        "real/a.h": "b1",
        "kernel/one.h": "b1",
        "kernel/two.h": "b1",
        "folder/a.h": "b1",
    }


@pytest.mark.parametrize("path", ["with space/ä.h", "tab\tname.h", "line\nbreak.h"])
def test_any_path_can_be_listed(path: str) -> None:
    assert git._objects(_line("100644", "b1", path), lambda _: b"") == {path: "b1"}
