"""A parsed TOML document, of whatever edition → Kernel.

All editions are read by one grammar, in which each key says which editions have it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from buildlib.config.grammar import DOCUMENT, FRAMEWORKS, NEWEST_EDITION
from buildlib.config.model import Component, Framework, General, Kernel, Torch
from buildlib.config.problems import Problem, Reading
from buildlib.config.values import Natural, as_table
from buildlib.variant import Backend, Version

# The edition of a file that does not say one, and the one before, which looks alike but is not built any more.
_UNNAMED = 4
_LEGACY = 3
_NAMED = (5, 6)


def read(document: Mapping[str, object], folder: Path) -> Kernel | list[Problem]:
    """The kernel that a document describes, or all that is wrong with it."""
    edition = edition_of(document)
    if isinstance(edition, Problem):
        return [edition]
    reading = Reading(edition)
    values = _values(document, reading)
    if values is not None:
        return _kernel(values, folder)
    return _unnamed(document, folder, reading.problems) if edition == _UNNAMED else reading.problems


def edition_of(document: Mapping[str, object]) -> int | Problem:
    """The edition that a document is to be read as; 4 stands for a document that names none."""
    general = as_table(document.get("general"))
    if general is None or "edition" not in general:
        return _UNNAMED
    path = ("general", "edition")
    reading = Reading(NEWEST_EDITION)
    edition = Natural(example=str(NEWEST_EDITION)).read(general["edition"], path, reading)
    if edition is not None and edition not in _NAMED:
        todo = f"write edition = {NEWEST_EDITION}, or drop the key for edition {_UNNAMED}"
        reading.at_key(path, f"there is no edition {edition} that has this key", todo)
    return reading.problems[0] if edition is None or reading.problems else edition


def is_legacy(document: Mapping[str, object]) -> bool:
    """Whether a document is of edition 3, and not of edition 4, which names itself as little."""
    if edition_of(document) != _UNNAMED or _values(document, Reading(_UNNAMED)) is not None:
        return False
    return _values(document, Reading(_LEGACY)) is not None


def _values(document: Mapping[str, object], reading: Reading) -> dict[str, object] | None:
    values = DOCUMENT.values(document, (), reading)
    given = [name for name in FRAMEWORKS if name in document]
    if not given and reading.edition > _LEGACY:
        tables = ", ".join(f"[{name}]" for name in FRAMEWORKS)
        reading.at_table((), "the framework is missing", f"add one of the tables {tables}")
    for name in given[1:]:
        reading.at_table((name,), f"a second framework besides [{given[0]}]", "keep one of the two")
    return None if reading.problems else values


def _unnamed(document: Mapping[str, object], folder: Path, problems: list[Problem]) -> list[Problem]:
    """Why a document without an edition is not built: it is of the one before, or it is wrong as what it is read as."""
    migrate = f"doit migrate:{folder.absolute().name}"
    reading = Reading(_UNNAMED)
    if is_legacy(document):
        reasons = " and ".join(["there is no key 'edition'", *(problem.what for problem in problems)])
        reading.at_table(
            ("general",),
            f"read as edition {_LEGACY}, which is not built any more, because {reasons}",
            f"run `{migrate}`",
        )
        return reading.problems
    reading.at_table(
        ("general",),
        f"read as edition {_UNNAMED}, because there is no key 'edition'",
        f"when what follows is put right, `{migrate}` rewrites the file to edition {NEWEST_EDITION}",
    )
    return [*reading.problems, *problems]


def _kernel(values: Mapping[str, Any], folder: Path) -> Kernel:
    """The kernel, once the grammar has found nothing wrong; this is where its values become typed."""
    general = _general(values["general"])
    framework: Framework
    if "torch" in values:
        framework = _torch(values["torch"], general.backends)
    elif "torch_noarch" in values:
        framework = values["torch_noarch"]
    else:
        framework = values["tvm_ffi"]
    components: tuple[Component, ...] = values.get("kernel", ())
    return Kernel(folder=folder, general=general, framework=framework, components=components)


def _general(values: Mapping[str, Any]) -> General:
    """The model's General: the tables of the backends become one mapping, and the edition has done its work."""
    by_backend = {backend: values[backend.value] for backend in Backend if backend.value in values}
    own = {field: value for field, value in values.items() if field not in {"edition", *by_backend}}
    return General(**own, by_backend=by_backend)


def _torch(values: Mapping[str, Any], backends: tuple[Backend, ...]) -> Torch:
    """The model's Torch: a stable ABI that is given once is that of every declared backend."""
    stable_abi: Version | dict[Backend, Version] = values.get("stable_abi", {})
    by_backend = stable_abi if isinstance(stable_abi, dict) else dict.fromkeys(backends, stable_abi)
    return Torch(**{**values, "stable_abi": by_backend})
