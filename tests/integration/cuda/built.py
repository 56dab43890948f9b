"""What the builder leaves of a kernel of tile programs: its library, and the Tile IR of which its images were made."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.integration.conftest import Yard
from tests.integration.cuda.driver import Gpu, Machine, kernels
from tests.tile_ir.parser import parse
from tests.tile_ir.program import Program


@dataclass(frozen=True)
class Built:
    """A built kernel with one component of tile programs; `images` is the folder of its images."""

    library: Path
    images: Path
    disassembler: Path
    _programs: dict[tuple[str, str], Program] = field(default_factory=dict, compare=False)

    @classmethod
    def of(cls, yard: Yard, kernel: str) -> Built:
        (library,) = yard.artifact(kernel).glob("*.so")
        (images,) = (yard.root / "build" / "work" / kernel / "images").iterdir()
        (disassembler,) = yard.cache.glob("toolchains/tileiras-*/bin/tileirdisasm")
        return cls(library, images, disassembler)

    def machine(self, capability: str) -> Machine:
        """A machine with one GPU of a capability, which has the entries of the image's table."""
        (table,) = self.images.glob("*.rs")
        return Machine(gpus=(Gpu(capability),), kernels=kernels(table.read_text()))

    def program(self, symbol: str, capability: str) -> Program:
        """The Tile IR of an entry: what the bytecode holds that was assembled, not what the emitter says of it."""
        if (symbol, capability) not in self._programs:
            code = self.images / "code" / self._image(symbol, capability)["file"]
            text = subprocess.run([self.disassembler, code], capture_output=True, text=True, check=True).stdout
            self._programs[symbol, capability] = parse(text)
        return self._programs[symbol, capability]

    def emitted(self, symbol: str, capability: str) -> Program:
        """The Tile IR of an entry as the emitter prints it."""
        return parse((self.images / "code" / self._image(symbol, capability)["text"]).read_text())

    def _image(self, symbol: str, capability: str) -> dict[str, Any]:
        entries = json.loads((self.images / "code" / "entries.json").read_text())["entries"]
        (entry,) = (entry for entry in entries if entry["symbol"] == symbol)
        (image,) = (image for image in entry["images"] if image["capability"] == capability)
        assert isinstance(image, dict)
        return image
