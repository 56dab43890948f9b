"""Our verdict on a build.toml is that of the parser in the `kernels` package, but for a few differences, named here."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import tomli
from kernels._rust import Backend as TheirBackend
from kernels._rust import Build, KernelVersion

from buildlib import config
from buildlib.config.model import General, KernelDepend
from buildlib.errors import ConfigError
from buildlib.variant import Backend

Document = dict[str, Any]
KeyPath = tuple[str | int, ...]

_VALUES = {
    "integer": 5,
    "negative": -1,
    "float": 2.5,
    "boolean": True,
    "string": "cuda",
    "version": "2.10",
    "empty string": "",
    "empty list": [],
    "list of integers": [1],
    "list of strings": ["torch"],
    "list of lists": [[]],
    "empty table": {},
    "table": {"cuda": "2.10"},
    "list of tables": [{"repo-id": "a/b", "version": 1}],
    "date": dt.date(2026, 1, 2),
}

_BORDERS: dict[KeyPath, list[object]] = {
    ("general", "name"): [
        *(
            "a",
            "ab",
            "a-",
            "a-b",
            "-a",
            "1a",
            "a1",
            "A",
            "aB",
            "a_b",
            "a b",
            "a.b",
            "é",
            "aé",
            "ab\n",
            " ab",
            "a" * 200,
        ),
        *("a--b", "a1-", "0"),
    ],
    ("general", "version"): [0, 1, 2**31, 2**32, 2**63 - 1, -(2**63)],
    ("general", "edition"): [0, 1, 2, 3, 4, 5, 7, 99, 2**31, 2**32, 2**32 + 5, -5, 5.0, "5", True],
    ("general", "license"): ["", " ", "mit", "no such license", "é"],
    ("general", "backends"): [
        [],
        ["cpu", "cpu"],
        ["CPU"],
        ["Cpu"],
        [" cpu"],
        ["npu"],
        ["cuda", "hip"],
        [""],
        ["cann", "cpu", "cuda", "metal", "neuron", "rocm", "tpu", "xpu"],
    ],
    ("general", "upstream"): [
        *("https://example.org", "https://example.org/", "HTTPS://example.org/a", "http://example.org:8080/a?b#c"),
        *("git://example.org/a", "ssh://user@example.org:22/a", "git+ssh://example.org/a", "git+http://example.org/a"),
        *("ftp://example.org/a", "file:///a", "ws://example.org/a", "example.org/a", "/a/b", "a", "", ":", "https"),
        *("https:", "https:/", "https://", "https://:80", "https://example.org:99999", "https://example.org:a/b"),
        *("https://example.org:65535/", "https://example.org:65536/", "https://example.org:/a"),
        *("user@example.org:a/b", "user@example.org:/a/b", "user@example.org:", "example.org:a/b", "@example.org:a"),
        *("user@:a", "git+https://user:secret@example.org/a.git", "git+file:///a", "svn+ssh://example.org/a"),
        *("https://exa mple.org/a", "https://exa<mple.org/a", "https://example.org/a<b>", "https://1.2.3.4/a"),
        *("git:a", "git:/a", "ssh:///a", "https:a", "https:///a", "https://[::1]/a", "1x:a", "a b@example.org:a"),
        *(" https://example.org/a", "https://example.org/a ", "https://example.org/a b", "https://exämple.org/a"),
        *("https://1.2.3/a", "https://1.2.3.256/a", "https://example.org/ä", "https://a@b@example.org/a"),
        *("https://under_score.example.org/", "https://-a.example.org/", "https://a-.example.org/"),
    ],
    ("general", "cuda", "minver"): [
        *("12.8", "0.0", "12", "12.8.0", "12.", ".8", ".", "", " ", " 12.8 ", "12 .8", "12. 8", "012.08", "+12.8"),
        *("12.+8", "++12.8", "-12.8", "1_2.8", "12.8a", "v12.8", "12,8", "12.8.", "\u0663.\u0661", "1e2.1", "0x1.2"),
        *("18446744073709551615.0", "18446744073709551616.0", "12.8\n", "\t12.8"),
    ],
    ("torch", "stable-abi"): [
        *("2.10", "2", "2.10.0", "", " 2.10 ", "2.x"),
        *({}, {"cpu": "2.10"}, {"neuron": "2.10"}, {"gpu": "2.10"}, {"CPU": "2.10"}, {"cpu": "2"}, {"cpu": 2.1}),
        {"cpu": {}},
    ],
    ("kernel", "on_cpu", "backend"): ["cpu", "cuda", "metal", "rocm", "xpu", "neuron", "tpu", "cann", "CPU", "", "x"],
    ("kernel", "on_cpu", "depends"): [
        [],
        ["torch", "torch"],
        ["Torch"],
        ["cutlass_3_5"],
        ["cutlass_4_4"],
        ["cutlass_4_1"],
        ["cutlass_2_10", "cutlass_3_6", "cutlass_3_8", "cutlass_3_9", "cutlass_4_5", "sycl_tla", "metal-cpp"],
        ["metal_cpp"],
        ["sycl-tla"],
        ["python"],
    ],
    ("general", "kernel-depends"): [
        [{"repo-id": "a/b", "version": 1, "revision": "main"}],
        [{"repo-id": "a/b"}],
        [{"version": 1}],
        [{"repo-id": "", "revision": ""}],
        [{"repo-id": "a/b", "version": "1"}],
        [{"repo-id": "a/b", "version": -1}],
        [{"repo-id": "a/b", "version": 1, "branch": "x"}],
        [{"repo-id": "a/b", "version": 1}, {"repo-id": "a/b", "version": 1}],
    ],
}

# Changes of the text itself, with what a parsed document cannot show.
_TEXTS: dict[str, Callable[[str], str]] = {
    "byte order mark": lambda text: "\ufeff" + text,
    "CRLF": lambda text: text.replace("\n", "\r\n"),
    "CR": lambda text: text.replace("\n", "\r"),
    "no newline at the end": lambda text: text.rstrip("\n"),
    "nothing": lambda _: "",
    "a comment only": lambda _: "# nothing\n",
    "key twice": lambda text: text.replace("version =", "version = 1\nversion =", 1),
    "table twice": lambda text: text + "\n[general]\n",
    "component twice": lambda text: text + '\n[kernel.one]\nbackend = "cpu"\n[kernel.one]\n',
    "a list of frameworks": lambda text: text.replace("[torch]", "[[torch]]"),
    "a list of generals": lambda text: text.replace("[general]", "[[general]]"),
    "inline table over lines": lambda text: text + "\n[extra]\na = {\n b = 1\n}\n",
    "trailing comma in an inline table": lambda text: re.sub(r"(version = \d) \}", r"\1, }", text) + "# {",
    "inline hub over lines": lambda text: text.replace("[general.hub]", 'hub = {\n repo-id = "a/b"\n}\n[general.xpu2]'),
    "escape \\e": lambda text: text.replace('license = "', 'license = "\\e'),
    "escape \\x": lambda text: text.replace('license = "', 'license = "\\x41'),
    "escape \\u": lambda text: text.replace('license = "', 'license = "\\u0041'),
    "no closing quote": lambda text: text.replace('license = "', "license = "),
    "no closing bracket": lambda text: text.replace("]\n", "\n", 1),
    "integer too large": lambda text: re.sub(r"version = \d", "version = 9223372036854775808", text, count=1),
    "hexadecimal": lambda text: re.sub(r"version = \d", "version = 0x1_0", text, count=1),
    "NUL": lambda text: text.replace('name = "', 'name = "\x00'),
    "dotted keys": lambda text: text.replace("[general.hub]\nrepo-id", "[general]\nhub.repo-id"),
    "a second framework": lambda text: text + "\n[tvm-ffi]\nsrc = []\n",
    "a second framework without architecture": lambda text: text + "\n[torch-noarch]\n",
    "an empty kernel table": lambda text: text + "\n[kernel]\n",
    "an unknown table": lambda text: text + "\n[extra]\n",
}


def _toml(document: Document) -> str:
    """A document as TOML, with headers for the outer tables and with inline tables inside."""
    lines = [f"{json.dumps(key)} = {_inline(value)}" for key, value in document.items() if not isinstance(value, dict)]
    for key, table in document.items():
        if isinstance(table, dict):
            lines.append(f"[{json.dumps(key)}]")
            lines += [f"{json.dumps(name)} = {_inline(value)}" for name, value in table.items()]
    return "\n".join(lines) + "\n"


def _inline(value: object) -> str:
    match value:
        case dict():
            return "{ " + ", ".join(f"{json.dumps(key)} = {_inline(item)}" for key, item in value.items()) + " }"
        case list():
            return "[" + ", ".join(map(_inline, value)) + "]"
        case dt.date():
            return value.isoformat()
        case _:
            return json.dumps(value, ensure_ascii=False)


def _paths(value: object, path: KeyPath = ()) -> Iterator[KeyPath]:
    """The paths to all tables and values, of each list to its first item alone."""
    children = value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else ()
    for key, child in children:
        yield (*path, key)
        yield from _paths(child, (*path, key))


def _parent(document: Document, path: KeyPath) -> tuple[Document, Any]:
    """A copy of a document, and in it the table or list that the last part of a path is in."""
    copy = deepcopy(document)
    parent: Any = copy
    for part in path[:-1]:
        parent = parent[part]
    return copy, parent


def _with(document: Document, path: KeyPath, value: object) -> Document:
    copy, parent = _parent(document, path)
    parent[path[-1]] = value
    return copy


def _without(document: Document, path: KeyPath) -> tuple[Document, Any]:
    copy, parent = _parent(document, path)
    return copy, parent.pop(path[-1])


def _renamed(document: Document, path: KeyPath, name: str) -> Document:
    copy, parent = _parent(document, path)
    parent[name] = parent.pop(path[-1])
    return copy


def _of_document(document: Document) -> Iterator[tuple[str, Document]]:
    for path in _paths(document):
        shown = ".".join(map(str, path))
        without, value = _without(document, path)
        yield f"drop {shown}", without
        for kind, other in _VALUES.items():
            yield f"{shown} = {kind}", _with(document, path, other)
        name = path[-1]
        if isinstance(name, str):
            for new in sorted({name + "x", name.upper(), name.replace("-", "_"), name.replace("_", "-")} - {name}):
                yield f"rename {shown} to {new}", _renamed(document, path, new)
            if len(path) > 1:
                yield f"move {shown} to the top", without | {name: value}
                yield f"move {shown} to general", without | {"general": without["general"] | {name: value}}
    for path, values in _BORDERS.items():
        if _has(document, path[:-1]):
            for value in values:
                yield f"{'.'.join(map(str, path))} = {value!r}", _with(document, path, value)


def _has(document: Document, path: KeyPath) -> bool:
    return path in set(_paths(document))


def _mutations(samples: dict[str, str]) -> Iterator[tuple[str, str]]:
    for sample, text in samples.items():
        yield sample, text
        for name, rewrite in _TEXTS.items():
            yield f"{sample}: {name}", rewrite(text)
        for name, document in _of_document(tomli.loads(text)):
            yield f"{sample}: {name}", _toml(document)


# Where we differ on purpose: what we do, and which mutations show it.
_STRICTER = {
    "a table with fixed keys is never written as a list of its values": r"(tpu|torch-noarch) = list of lists",
    "a URL names a host": r"'(git:/?a|ssh:///a|https:(///)?a)'",
    "a URL has no spaces": r"' https|a '|/a b'|'a b@",
    "a host is a name in ASCII, or an IPv4 address": r"\[::1\]|exämple",
    "one @ of a URL ends the user's name": r"a@b@",
    "a short form of a URL has an @": r"'1x:a'",
}
_LAXER = {
    "under [torch-noarch], names with `-` mean the same as with `_`": r"noarch: rename torch-noarch\.\w+ to \S+-\S+",
    "a host that looks like an address need not be one": r"1\.2\.3\.256",
}


def _ours(file: Path) -> General | None:
    try:
        return config.parse(file).general
    except ConfigError:
        return None


def _theirs(file: Path) -> Build | None:
    try:
        return Build.open(file.parent)
    except ValueError:
        return None


def _depends(general: General, backend: Backend) -> list[tuple[str, int | str | None]]:
    own = general.by_backend[backend].kernel_depends if backend in general.by_backend else ()
    return [_depend(depend) for depend in (*general.kernel_depends, *own)]


def _depend(depend: KernelDepend) -> tuple[str, int | str | None]:
    return depend.repo_id, depend.revision if depend.version is None else depend.version


def _same_values(ours: General, theirs: Build) -> bool:
    names = list(dict.fromkeys(Backend[str(backend).upper()] for backend in theirs.general.backends))
    if names != list(ours.backends):
        return False
    for backend in Backend:
        given = []
        for depend in theirs.all_kernel_depends(TheirBackend.from_str(backend.value)):
            match depend.version:
                case KernelVersion.Version(version):
                    given.append((depend.repo_id, version))
                case KernelVersion.Revision(revision):
                    given.append((depend.repo_id, revision))
        if list(dict.fromkeys(given)) != _depends(ours, backend):
            return False
    return True


def _difference(file: Path) -> str | None:
    ours, theirs = _ours(file), _theirs(file)
    if ours is None or theirs is None:
        return None if ours is theirs else "stricter" if ours is None else "laxer"
    return None if _same_values(ours, theirs) else "other values"


def test_mutations_have_the_same_verdict_and_values(samples: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "build.toml"
    differences: dict[str, list[str]] = {"stricter": [], "laxer": [], "other values": []}
    count = 0
    for name, text in _mutations(samples):
        # A new file costs less than a changed one, which some file systems write to the disk at once.
        file.unlink(missing_ok=True)
        file.write_bytes(text.encode())
        count += 1
        if kind := _difference(file):
            differences[kind].append(name)
    assert count >= 3000
    assert differences["other values"] == []
    for kind, named in (("stricter", _STRICTER), ("laxer", _LAXER)):
        shown = "|".join(named.values())
        assert [name for name in differences[kind] if not re.search(shown, name)] == []
        unseen = [name for name, shows in named.items() if not any(re.search(shows, n) for n in differences[kind])]
        assert unseen == []


def test_corpus_has_the_same_verdict_and_values(corpus: list[Path]) -> None:
    assert [file for file in corpus if _ours(file) is None or _difference(file)] == []
