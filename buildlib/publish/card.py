"""CARD.md → the README.md of a repository, by the names that upstream's cards use and a table of the variants."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

import msgspec

from buildlib import render
from buildlib.config.model import Kernel
from buildlib.errors import PublishError
from buildlib.inputs import package_folder
from buildlib.interface import exports

_DEVICES = {
    "cu": "CUDA", "rocm": "ROCm", "xpu": "XPU", "cann": "CANN", "cpu": "CPU", "metal": "Metal", "neuron": "Neuron",
    "npu": "CANN", "tpu": "TPU", "cuda": "CUDA", "universal": "any",
}  # fmt: skip
_FRAMEWORK = re.compile(r"(torch-stable-abi|torch|tvm-ffi)(\d)(\d+)-(?:cxx\d+-)?([a-z]+)(\d*)-(.+)")


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A variant as the card's table shows it."""

    name: str
    needs: str
    device: str
    platform: str


def render_card(kernel: Kernel, repo_id: str, variants: Iterable[str]) -> str:
    """The README.md of a kernel, for the variants that the repository will hold.

    Raises:
        PublishError: CARD.md cannot be read or rendered.
    """
    path = kernel.folder / "CARD.md"
    where = f"kernels/{kernel.key}/CARD.md"
    try:
        source = path.read_text(encoding="utf-8") if path.exists() else None
        functions, layers = _offered(kernel)
    except (OSError, ValueError) as error:
        raise PublishError(f"{where}: cannot be read ({error}); save it as UTF-8") from None
    general = kernel.general
    values: dict[str, object] = {
        "name": general.name,
        "repo_id": repo_id,
        "version": general.version,
        "functions": functions,
        "layers": layers,
        "has_benchmark": (kernel.folder / "benchmarks" / "benchmark.py").is_file(),
        "upstream": general.upstream,
        "source": general.source,
        "license": general.license.lower(),
        "variants": [describe(name) for name in variants],
    }
    return render.card(source, where, values)


def describe(name: str) -> Row:
    """A variant's name in words; what cannot be understood is shown as it is."""
    if (match := _FRAMEWORK.fullmatch(name)) is not None:
        framework, major, minor, device, digits, platform = match.groups()
        needs = {"torch-stable-abi": f"torch {major}.{minor} or newer"}.get(framework, f"{framework} {major}.{minor}")
        version = f" {digits[:-1]}.{digits[-1]}" if len(digits) > 1 else ""
        return Row(name=name, needs=needs, device=_DEVICES.get(device, device) + version, platform=platform)
    framework, _, device = name.partition("-")
    return Row(name=name, needs=framework, device=_DEVICES.get(device, device or "?"), platform="any")


def _offered(kernel: Kernel) -> tuple[list[str], list[str]]:
    """The functions in the package's `__all__`, and its layers where `layers` is among them; as upstream finds them."""
    folder = kernel.folder / package_folder(kernel)
    names = exports(ast.parse((folder / "__init__.py").read_bytes())) or []
    layers: list[str] = []
    if "layers" in names:
        found = (path for path in (folder / "layers" / "__init__.py", folder / "layers.py") if path.is_file())
        for path in found:
            layers = [node.name for node in ast.parse(path.read_bytes()).body if isinstance(node, ast.ClassDef)]
            break
    return [name for name in names if name != "layers"], layers
