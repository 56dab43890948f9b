"""A registry of crates on this machine, as cargo's sparse protocol has it."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.integration.serving import serving


class Registry:
    """Crates that are served over HTTP; `home` is a CARGO_HOME that puts it in place of the public registry."""

    def __init__(self, folder: Path, url: str) -> None:
        self.home = folder / "cargo-home"
        self._served = folder / "served"
        self._served.mkdir(parents=True, exist_ok=True)
        self.home.mkdir()
        (self._served / "config.json").write_text(json.dumps({"dl": url + "/crates/{crate}-{version}.crate"}))
        (self.home / "config.toml").write_text(
            f'[source.crates-io]\nreplace-with = "here"\n\n[source.here]\nregistry = "sparse+{url}/"\n'
        )

    def publish(self, name: str, version: str, source: str) -> None:
        """Offer a crate of one source file; its name has four letters, by which the index files it."""
        manifest = f'[package]\nname = "{name}"\nversion = "{version}"\nedition = "2021"\n'
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            for path, text in (("Cargo.toml", manifest), ("src/lib.rs", source)):
                entry = tarfile.TarInfo(f"{name}-{version}/{path}")
                entry.size = len(text)
                archive.addfile(entry, io.BytesIO(text.encode()))
        content = gzip.compress(packed.getvalue())
        crate = self._served / "crates" / f"{name}-{version}.crate"
        crate.parent.mkdir(exist_ok=True)
        crate.write_bytes(content)
        index = self._served / name[:2] / name[2:4] / name
        index.parent.mkdir(parents=True, exist_ok=True)
        line = {"name": name, "vers": version, "deps": [], "features": {}, "yanked": False}
        with index.open("a") as file:
            file.write(json.dumps(line | {"cksum": hashlib.sha256(content).hexdigest()}) + "\n")


@contextmanager
def serve(folder: Path) -> Iterator[Registry]:
    """A registry that answers until the end of the block."""

    with serving(folder / "served") as url:
        yield Registry(folder, url)
