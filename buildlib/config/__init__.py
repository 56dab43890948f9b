"""Stage 2: the path of a build.toml → Kernel. `load` is the one door for the other stages."""

from __future__ import annotations

from pathlib import Path

from buildlib.config import editions, paths, problems, text
from buildlib.config.model import Kernel

__all__ = ["load", "parse"]


def load(file: Path) -> Kernel:
    """Read a kernel's build.toml and see that the files that it names are there.

    Raises:
        ConfigError: with a line for each thing that is wrong with the file, or with the folder.
    """
    content, document, kernel = _read(file, text.read(file))
    if found := paths.check(document, kernel.folder):
        raise problems.error(file, content, found)
    return kernel


def parse(file: Path, content: bytes | None = None) -> Kernel:
    """Read a kernel's build.toml alone, whatever is in its folder; `content` stands for a file that is not there.

    Raises:
        ConfigError: with a line for each thing that is wrong with the file.
    """
    return _read(file, text.read(file) if content is None else text.decode(file, content))[2]


def _read(file: Path, content: str) -> tuple[str, dict[str, object], Kernel]:
    document = text.parse(file, content)
    kernel = editions.read(document, file.parent)
    if isinstance(kernel, list):
        raise problems.error(file, content, kernel)
    return content, document, kernel
