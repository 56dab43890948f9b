"""Stage 3: toolchains/variants.toml → the rows of the matrix."""

from __future__ import annotations

from pathlib import Path

import msgspec
import tomli

from buildlib.errors import ToolchainError
from buildlib.variant import Compute, Platform, Version


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A framework's release for one compute segment on one platform."""

    version: Version
    compute: Compute
    platform: Platform


class Matrix(msgspec.Struct, frozen=True, kw_only=True):
    """Every variant that may be published, by framework. torch-noarch needs no rows: its variants are the backends."""

    torch: tuple[Row, ...] = ()
    tvm_ffi: tuple[Row, ...] = ()


def load(path: Path) -> Matrix:
    """Read variants.toml.

    Raises:
        ToolchainError: the file is missing, not TOML, or has a row that is not understood.
    """
    try:
        document = tomli.loads(path.read_text(encoding="utf-8"))
        tables = msgspec.convert(document, _File)
        return Matrix(torch=_rows(tables.torch), tvm_ffi=_rows(tables.tvm_ffi))
    except OSError as error:
        raise ToolchainError(f"{path}: cannot be read ({error.strerror}); restore it from version control") from None
    except ValueError as error:
        raise ToolchainError(f"{path}: {error}; the comment at its top gives the format") from None


class _Release(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One table: a release, and its compute segments by platform."""

    version: str
    x86_64_linux: list[str] = msgspec.field(name="x86_64-linux", default_factory=list)
    aarch64_linux: list[str] = msgspec.field(name="aarch64-linux", default_factory=list)
    aarch64_darwin: list[str] = msgspec.field(name="aarch64-darwin", default_factory=list)
    x86_64_windows: list[str] = msgspec.field(name="x86_64-windows", default_factory=list)


class _File(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", forbid_unknown_fields=True):
    torch: list[_Release] = []
    tvm_ffi: list[_Release] = []


def _rows(releases: list[_Release]) -> tuple[Row, ...]:
    return tuple(
        Row(version=Version.parse(release.version), compute=Compute.parse(text), platform=platform)
        for release in releases
        for platform in Platform
        for text in getattr(release, platform.name.lower())
    )
