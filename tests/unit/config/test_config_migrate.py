"""Migration changes what an edition is about, and no other byte."""

from __future__ import annotations

import difflib
import re
from pathlib import Path

import pytest

from buildlib import config
from buildlib.config.migrate import Edition, migrate
from buildlib.config.model import Kernel
from buildlib.errors import ConfigError

FILE = Path("kernels/relu/build.toml")

EDITION_4 = """\
# A comment.

[kernel.b]  # first
  backend = "cpu" # the slow one
src = [ "b.cpp" , ]
depends=[]

[general]
name   = "relu"
version = 1   # bump me
license = 'MIT'
backends = [
    "cpu", "cuda",  # both
]

# About CUDA.
[general.cuda]
minver = "12.8"

[torch]

[kernel.a]
"backend"   =  "cuda"
depends = []
src = []"""
EDITION_5 = EDITION_4.replace("# bump me\n", "# bump me\nedition = 5\n")
EDITION_6 = (
    EDITION_5.replace("edition = 5", "edition = 6")
    .replace('backend = "cpu"', 'language = "cpp-cpu"')
    .replace('"backend"   =  "cuda"', 'language   =  "cpp-cuda"')
)


def test_up_from_edition_4() -> None:
    assert migrate(EDITION_4, FILE, 5) == EDITION_5
    assert migrate(EDITION_4, FILE) == EDITION_6


def test_up_and_down_between_5_and_6() -> None:
    assert migrate(EDITION_5, FILE) == EDITION_6
    assert migrate(EDITION_6, FILE, 5) == EDITION_5.replace('"backend"', "backend")


@pytest.mark.parametrize(("text", "to"), [(EDITION_5, 5), (EDITION_6, 6)])
def test_second_run_changes_nothing(text: str, to: Edition) -> None:
    assert migrate(text, FILE, to) == text


def test_line_ends_and_byte_order_mark_stay() -> None:
    text = "\ufeff" + EDITION_4.replace("\n", "\r\n")
    assert migrate(text, FILE) == "\ufeff" + EDITION_6.replace("\n", "\r\n")


GENERAL = 'name = "relu"\nversion = 1\nlicense = "MIT"\nbackends = []\n'

STYLES = {
    "inline tables": (
        (
            'general = { name = "relu", version = 1, license = "MIT", backends = [] } # a\n'
            'kernel.a = {src=[],backend="cpu",depends=[]} # b\n[torch]\n'
        ),
        (
            'general = { name = "relu", version = 1, edition = 6, license = "MIT", backends = [] } # a\n'
            'kernel.a = {src=[],language="cpp-cpu",depends=[]} # b\n[torch]\n'
        ),
    ),
    "dotted keys": (
        (
            'general.name = "relu"\ngeneral.version = 1\ngeneral.license = "MIT"\ngeneral.backends = []\n'
            'kernel.a.backend = "cpu" # b\nkernel.a.src = []\nkernel.a.depends = []\n[torch]\n'
        ),
        (
            'general.name = "relu"\ngeneral.version = 1\ngeneral.edition = 6\ngeneral.license = "MIT"\n'
            "general.backends = []\n"
            'kernel.a.language = "cpp-cpu" # b\nkernel.a.src = []\nkernel.a.depends = []\n[torch]\n'
        ),
    ),
    "version at the end of the file": (
        '[torch]\n[general]\nname = "relu"\nlicense = "MIT"\nbackends = []\nversion = 1',
        '[torch]\n[general]\nname = "relu"\nlicense = "MIT"\nbackends = []\nversion = 1\nedition = 6',
    ),
    "a component called backend": (
        f'[general]\n{GENERAL}[torch]\n[kernel.backend]\nbackend = "cpu"\nsrc = []\ndepends = []\n',
        f'[general]\n{GENERAL}[torch]\n[kernel.backend]\nlanguage = "cpp-cpu"\nsrc = []\ndepends = []\n'.replace(
            "version = 1\n", "version = 1\nedition = 6\n"
        ),
    ),
    "names with underscores": (
        f"[general]\nedition = 5\n{GENERAL}[torch-noarch]\ncuda_capabilities = []\nrocm-archs = []\n",
        f"[general]\nedition = 6\n{GENERAL}[torch-noarch]\ncuda-capabilities = []\nrocm-archs = []\n",
    ),
}


@pytest.mark.parametrize(("old", "new"), [*STYLES.values()], ids=[*STYLES])
def test_styles_of_toml(old: str, new: str) -> None:
    assert migrate(old, FILE) == new


def test_down_spells_names_as_edition_5_does() -> None:
    text = f"[general]\nedition = 6\n{GENERAL}[torch-noarch]\ncuda-capabilities = []\n"
    assert migrate(text, FILE, 5) == text.replace("6", "5").replace("cuda-cap", "cuda_cap")


def test_down_adds_the_sources_that_edition_5_requires() -> None:
    text = f"[general]\nedition = 6\n{GENERAL}[tvm-ffi]\n# No sources.\ninclude = []\n"
    assert migrate(text, FILE, 5) == text.replace("6", "5").replace("[tvm-ffi]\n", "[tvm-ffi]\nsrc = []\n")
    text = f"tvm-ffi = {{}}\n[general]\nedition = 6\n{GENERAL}"
    assert migrate(text, FILE, 5) == text.replace("6", "5").replace("{}", "{src = []}")


def test_up_from_edition_3() -> None:
    text = '[general]\nname = "relu"  # a\nlicense = "MIT"\nbackends = []\n'
    added = "version = 1\nedition = {}\n"
    for to in (5, 6):
        new = text.replace("# a\n", "# a\n" + added.format(to)) + "\n[torch-noarch]\n"
        assert migrate(text, FILE, to) == new
    assert migrate(text + "[torch]\nsrc = []\n", FILE) == (
        text.replace("# a\n", "# a\n" + added.format(6)) + "[torch]\nsrc = []\n"
    )


REFUSED = {
    "no license in edition 3": (
        '[general]\nname = "relu"\nbackends = []\n',
        6,
        (
            "1: [general]: the key 'license' is missing, which editions after 3 require; "
            'add license = "Apache-2.0", or another SPDX expression'
        ),
    ),
    "Rust in edition 5": (
        (
            f"[general]\nedition = 6\n{GENERAL}[tvm-ffi]\n"
            '[kernel.a]\nlanguage = "rust-cpu"\ncargo-manifest = "Cargo.toml"\n'
            '[kernel.b]\nlanguage = "rust-cuda"\ncargo-manifest = "Cargo.toml"\n'
        ),
        5,
        (
            "9: [kernel.a] key 'language': a Rust component, which edition 5 does not have; "
            "stay with edition 6, or drop the component\n"
            "12: [kernel.b] key 'language': a Rust component, which edition 5 does not have; "
            "stay with edition 6, or drop the component"
        ),
    ),
    "a wrong file": (
        f"[general]\nedition = 5\n{GENERAL}[torch]\nsrc = 1\n",
        6,
        "8: [torch] key 'src': a list is expected, not the integer 1; write it as [\"csrc/relu.cpp\"]",
    ),
    "no TOML": ("[general\n", 6, "1:9: the table's header is not closed; write [table] on a line of its own"),
}


@pytest.mark.parametrize(("text", "to", "expected"), [*REFUSED.values()], ids=[*REFUSED])
def test_what_is_not_migrated(text: str, to: Edition, expected: str) -> None:
    with pytest.raises(ConfigError) as raised:
        migrate(text, FILE, to)
    assert re.sub(f"^{FILE}:", "", str(raised.value), flags=re.MULTILINE) == expected


def _parse(folder: Path, text: str) -> Kernel:
    file = folder / "build.toml"
    file.unlink(missing_ok=True)
    file.write_text(text, encoding="utf-8", newline="")
    return config.parse(file)


def test_samples_stay_the_same_kernel(samples: dict[str, str], tmp_path: Path) -> None:
    for name, text in samples.items():
        if name != "edition-3":
            for to in (5, 6):
                assert _parse(tmp_path, migrate(text, FILE, to)) == _parse(tmp_path, text)


def test_corpus_goes_up_and_down(corpus: list[Path], tmp_path: Path) -> None:
    for file in corpus:
        text = file.read_bytes().decode()
        newest = migrate(text, file)
        assert migrate(newest, file) == newest
        older = migrate(newest, file, 5)
        assert older == migrate(text, file, 5)
        assert _parse(tmp_path, newest) == _parse(tmp_path, older) == _parse(tmp_path, text)
        assert _changes(text, older) <= {("", "edition = 5")}
        assert all(re.match(r"(edition|language) = |cuda-cap|rocm-archs", new) for _, new in _changes(older, newest))


def _changes(old: str, new: str) -> set[tuple[str, str]]:
    """The lines that differ between two texts, in pairs; a line that is new stands beside an empty one."""
    changes: set[tuple[str, str]] = set()
    before, after = old.splitlines(), new.splitlines()
    for kind, a, b, c, d in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if kind != "equal":
            gone = before[a:b] or [""] * (d - c)
            changes.update(zip(gone, after[c:d], strict=True))
    return changes
