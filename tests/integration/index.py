"""A package index on this machine, as pip's simple protocol has it."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.integration.serving import serving


@dataclass(frozen=True)
class Wheel:
    """A wheel that was published."""

    path: Path
    sha256: str
    size: int


@dataclass(frozen=True)
class Index:
    """Packages that are served at `url`, from files in `folder`."""

    folder: Path
    url: str

    def publish(self, name: str, version: str, files: Mapping[str, str], tag: str = "py3-none-any") -> Wheel:
        """Offer a wheel of some files."""
        project = self.folder / name
        project.mkdir(parents=True, exist_ok=True)
        wheel = project / f"{name.replace('-', '_')}-{version}-{tag}.whl"
        about = f"{name.replace('-', '_')}-{version}.dist-info"
        texts = {
            **files,
            f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
            f"{about}/WHEEL": f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: {tag}\n",
        }
        with zipfile.ZipFile(wheel, "w") as archive:
            for path, text in texts.items():
                archive.writestr(path, text)
            record = "".join(f"{path},,\n" for path in (*texts, f"{about}/RECORD"))
            archive.writestr(f"{about}/RECORD", record)
        return self.offer(wheel)

    def offer(self, wheel: Path) -> Wheel:
        """List a file as it is now, with all others of its package."""
        links = (
            f'<a href="{path.name}#sha256={hashlib.sha256(path.read_bytes()).hexdigest()}">{path.name}</a><br>\n'
            for path in sorted(wheel.parent.glob("*.whl"))
        )
        (wheel.parent / "index.html").write_text(f"<!DOCTYPE html><html><body>\n{''.join(links)}</body></html>\n")
        content = wheel.read_bytes()
        return Wheel(wheel, hashlib.sha256(content).hexdigest(), len(content))


@contextmanager
def serve(folder: Path) -> Iterator[Index]:
    """An index without packages, that answers until the end of the block."""
    folder.mkdir(parents=True)
    with serving(folder) as url:
        yield Index(folder, url)
