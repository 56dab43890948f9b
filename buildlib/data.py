"""The data files in toolchains/."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import msgspec
import tomli

from buildlib.errors import ToolchainError

_T = TypeVar("_T")


def read(path: Path, kind: type[_T]) -> _T:
    """A file's content as a value of a type.

    Raises:
        ToolchainError: the file is missing, or does not say what it must.
    """
    try:
        return msgspec.convert(tomli.loads(path.read_text(encoding="utf-8")), kind)
    except (OSError, ValueError) as error:
        raise ToolchainError(f"{path}: {error}; restore it from version control") from None
