from __future__ import annotations

from pathlib import Path

import pytest

from buildlib.rust import archive


def _archive(names: list[bytes]) -> bytes:
    index = len(names).to_bytes(4, "big") + bytes(4 * len(names)) + b"".join(name + b"\0" for name in names)
    header = b"/               0           0     0     0       " + f"{len(index):<10}".encode() + b"`\n"
    return b"!<arch>\n" + header + index


@pytest.mark.parametrize("names", [[], [b"one"], [b"__tvm_ffi_relu", b"other"]])
def test_symbols_of_an_archive(tmp_path: Path, names: list[bytes]) -> None:
    (tmp_path / "lib.rlib").write_bytes(_archive(names))
    assert archive.symbols(tmp_path / "lib.rlib") == [name.decode() for name in names]


@pytest.mark.parametrize("content", [b"", b"!<arch>\n", b"\x7fELF", b"!<arch>\nlib.rmeta/ "])
def test_what_has_no_index_has_no_symbols(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "lib.rlib").write_bytes(content)
    assert archive.symbols(tmp_path / "lib.rlib") == []
