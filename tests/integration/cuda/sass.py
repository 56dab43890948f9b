"""Machine code as nvdisasm shows it: how often an instruction stands in it, and in the loops that do the work."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

# A label, or an instruction with what it jumps to.
_LINE = re.compile(
    r"^(?P<label>\.L_x_\d+):|^\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\d\s+)?(?P<code>[A-Z][\w.]*)[^;]*;", re.MULTILINE
)
_TARGET = re.compile(r"`\((\.L_x_\d+)\)")


@dataclass(frozen=True)
class Sass:
    """The instructions of one entry, in order, and its loops: first and last instruction of each."""

    symbol: str
    codes: tuple[str, ...]
    loops: tuple[tuple[int, int], ...]

    def count(self, code: str) -> int:
        return sum(each.startswith(code) for each in self.codes)

    def main_loops(self, code: str) -> list[tuple[str, ...]]:
        """The innermost loops with an instruction, by their instructions."""
        working = [
            (first, last)
            for first, last in self.loops
            if any(each.startswith(code) for each in self.codes[first : last + 1])
        ]
        inner = [
            (first, last)
            for first, last in working
            if not any(first <= begin and end <= last and (begin, end) != (first, last) for begin, end in working)
        ]
        return [self.codes[first : last + 1] for first, last in inner]


def read(nvdisasm: Path, cubin: Path) -> Sass:
    """The machine code of a cubin with one entry."""
    said = subprocess.run([nvdisasm, "-c", cubin], capture_output=True, text=True, check=True).stdout
    (symbol,) = set(re.findall(r"^\.text\.(\w+):", said, re.MULTILINE))
    codes: list[str] = []
    labels: dict[str, int] = {}
    loops: list[tuple[int, int]] = []
    for step in _LINE.finditer(said):
        if step["label"]:
            labels[step["label"]] = len(codes)
            continue
        codes.append(step["code"])
        target = _TARGET.search(step[0])
        if step["code"].startswith("BRA") and target and target[1] in labels:
            loops.append((labels[target[1]], len(codes) - 1))
    return Sass(symbol, tuple(codes), tuple(loops))
