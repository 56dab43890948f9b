"""Artifacts that travel: packed into one file by the job that built them, verified by the job that unpacks them.

A packed file is a plain tar: the artifacts, with the reports of their checks, and first of all `packed.json`, which
lists them. An archive keeps what CI services' own transfer of folders loses: the modes of files, and hidden ones.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from buildlib import package
from buildlib import plan as planning
from buildlib.config.model import Kernel
from buildlib.errors import CheckError
from buildlib.files import FileCache, listing
from buildlib.plan import BuildSpec, Failed, Plan, Skipped
from buildlib.rows import Row, Status
from buildlib.variant import Backend
from buildlib.workspace import Workspace

_LIST = "packed.json"
_ARTIFACT, _REPORTS = "artifacts", "reports"


class Packed(msgspec.Struct, frozen=True, kw_only=True):
    """One artifact in a packed file.

    `digest` is that of what it was made from, `metadata` the SHA-256 of its metadata.json, which covers each other
    file, and `seconds` what its build took, where that is known.
    """

    kernel: str
    variant: str
    digest: str
    metadata: str
    seconds: float | None = None

    @property
    def name(self) -> str:
        return f"{self.kernel}:{self.variant}"


def pack(rows: Iterable[Row], target: Path, workspace: Workspace) -> list[Packed]:
    """Pack the artifacts of rows into one file; the same artifacts give the same bytes.

    Raises:
        CheckError: an artifact is missing, damaged, or made from something else than the row says.
    """
    given = list(rows)
    wanted = [row for row in given if row.status is Status.BUILD]
    problems = [_unbuilt(row) for row in given if row.status is Status.ERROR]
    if problems := problems + [problem for row in wanted if (problem := mismatch(row, workspace))]:
        raise CheckError("\n".join(problems))
    seconds = workspace.times.seconds
    packed = [_packed(row, workspace, seconds.get(row.name)) for row in wanted]
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=".tmp-")
    try:
        with os.fdopen(handle, "wb") as file, tarfile.open(fileobj=file, mode="w") as archive:
            _add(archive, _LIST, msgspec.json.format(msgspec.json.encode(packed)) + b"\n")
            for each in packed:
                for kind, folder in _places(each, workspace).items():
                    for path in listing(folder, hidden=True) if folder.is_dir() else ():
                        _add(archive, f"{kind}/{each.kernel}/{each.variant}/{path}", (folder / path).read_bytes())
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise
    return packed


def unpack(sources: Sequence[Path], rows: Sequence[Row] | None, workspace: Workspace) -> list[Packed]:
    """Put packed artifacts into their places, all of them or none; folders stand for the packed files in them.

    Where rows are given, every one of them must come, made from just what the row says; what comes beside them is left.

    Raises:
        CheckError: a file is not a packed one, or an artifact is missing, altered, or not the one that was wanted.
    """
    files = list(_files(sources))
    if not files and rows is None:
        raise CheckError(f"{', '.join(map(str, sources))}: no file of 'doit pack' is there; hand one over")
    with tempfile.TemporaryDirectory(dir=workspace.build, prefix=".unpacking-") as scratch:
        found: dict[str, tuple[Packed, Path]] = {}
        for number, file in enumerate(files):
            folder = Path(scratch) / str(number)
            for each in _extracted(file, folder):
                if each.name in found and found[each.name][0].metadata != each.metadata:
                    raise CheckError(f"{file}: holds another {each.name} than a file before it; unpack one of the two")
                found[each.name] = each, folder
        if rows is not None:
            found = _wanted(found, rows)
        for each, folder in found.values():
            for kind, target in _places(each, workspace).items():
                _settle(folder / kind / each.kernel / each.variant, target)
                workspace.cache.forget(target)
            if each.seconds is not None:
                workspace.times.record(each.name, each.seconds)
    return [each for each, _ in found.values()]


def built(plan: Plan, kernels: Iterable[Kernel], workspace: Workspace) -> Plan:
    """The plan of a machine that builds nothing: what lies under `build/kernels` is there, the rest is skipped."""
    by_key = {kernel.key: kernel for kernel in kernels}
    specs, skipped, failed = [], [], []
    for entry in plan.entries:
        variant = entry.variant
        if isinstance(entry, Failed) and variant is None:
            failed.append(entry)
        elif variant is None or isinstance(variant, Backend):
            skipped += [entry] if isinstance(entry, Skipped) else []
        else:
            key = entry.kernel.key if isinstance(entry, BuildSpec) else entry.kernel
            unbuilt = BuildSpec(kernel=by_key[key], variant=variant, components=(), toolchain=None)
            spec = entry if isinstance(entry, BuildSpec) else unbuilt
            if (workspace.artifact(spec) / package.METADATA).is_file():
                specs.append(spec)
            else:
                skipped.append(Skipped(kernel=key, variant=variant, reason="no artifact here to take as built"))
    return Plan(specs=tuple(sorted(specs, key=planning.name)), skipped=tuple(skipped), failed=tuple(failed))


def verify(spec: BuildSpec, workspace: Workspace) -> None:
    """See that an artifact that was built elsewhere is whole.

    Raises:
        CheckError: it is not.
    """
    folder = workspace.artifact(spec)
    if problem := _damage(folder, spec.name, workspace):
        raise CheckError(problem)


def mismatch(row: Row, workspace: Workspace) -> str | None:
    """Why the artifact in a row's place is not the one that the row asks for; None where it is."""
    assert row.variant is not None
    folder = workspace.build / "kernels" / row.kernel / "build" / row.variant
    if problem := _damage(folder, row.name, workspace):
        return problem
    metadata = package.read(folder)
    assert metadata is not None
    if row.digest is not None and metadata.kernelyard.digest != row.digest:
        return f"{workspace.shown(folder)}: made from other sources than {row.name} asks for; build it again"
    return None


def _damage(folder: Path, name: str, workspace: Workspace) -> str | None:
    shown = workspace.shown(folder)
    metadata = package.read(folder)
    if metadata is None:
        return (
            f"{shown}: the artifact of {name} is missing; build it, or hand it over with 'doit pack' and 'doit unpack'"
        )
    workspace.cache.forget(folder)
    damage = package.damage(folder, metadata, workspace.cache)
    return f"{shown}/{damage[0]}; build {name} again, or hand it over anew" if damage else None


def _packed(row: Row, workspace: Workspace, seconds: float | None) -> Packed:
    assert row.variant is not None
    folder = workspace.build / "kernels" / row.kernel / "build" / row.variant
    metadata = package.read(folder)
    assert metadata is not None
    return Packed(
        kernel=row.kernel,
        variant=row.variant,
        digest=metadata.kernelyard.digest,
        metadata=hashlib.sha256((folder / package.METADATA).read_bytes()).hexdigest(),
        seconds=seconds,
    )


def _places(each: Packed, workspace: Workspace) -> dict[str, Path]:
    """The folders of an artifact that travel, by their names in a packed file: its own, and that of its reports."""
    return {
        _ARTIFACT: workspace.build / "kernels" / each.kernel / "build" / each.variant,
        _REPORTS: workspace.build / "reports" / each.kernel / each.variant,
    }


def _add(archive: tarfile.TarFile, path: str, content: bytes) -> None:
    # A fresh TarInfo has no time and no owner, so that the same artifacts give the same bytes.
    member = tarfile.TarInfo(path)
    member.size = len(content)
    archive.addfile(member, io.BytesIO(content))


def _files(sources: Iterable[Path]) -> Iterator[Path]:
    for source in sources:
        yield from sorted(source.rglob("*.tar")) if source.is_dir() else (source,)


def _extracted(file: Path, scratch: Path) -> list[Packed]:
    """The artifacts of a packed file, extracted below `scratch` and verified."""
    try:
        with tarfile.open(file, "r:") as archive:
            for member in archive:
                _extract(archive, member, scratch)
        packed = msgspec.json.decode((scratch / _LIST).read_bytes(), type=list[Packed])
    except (OSError, tarfile.TarError, msgspec.DecodeError) as error:
        raise CheckError(f"{file}: not a whole file of 'doit pack' ({error}); hand it over anew") from None
    for each in packed:
        if not (_is_name(each.kernel) and _is_name(each.variant)):
            raise CheckError(f"{file}: {each.name!r} is no name of an artifact; hand the file over anew")
        if problem := _altered(each, scratch / _ARTIFACT / each.kernel / each.variant):
            raise CheckError(f"{file}: {each.name}: {problem}; hand the file over anew")
    return packed


def _extract(archive: tarfile.TarFile, member: tarfile.TarInfo, scratch: Path) -> None:
    content = archive.extractfile(member) if member.isfile() else None
    if content is None or not all(map(_is_name, member.name.split("/"))):
        raise tarfile.TarError(f"{member.name!r} is not a file within it")
    target = scratch / member.name
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content.read())


def _is_name(part: str) -> bool:
    """Whether a string names a file in a folder, and nothing outside of it."""
    return part not in {"", ".", ".."} and "/" not in part


def _altered(each: Packed, folder: Path) -> str | None:
    metadata = package.read(folder)
    if metadata is None:
        return f"{package.METADATA} is missing or cannot be read"
    if hashlib.sha256((folder / package.METADATA).read_bytes()).hexdigest() != each.metadata:
        return f"{package.METADATA} was altered"
    if metadata.kernelyard.digest != each.digest:
        return f"{package.METADATA} is of other sources"
    problems = package.damage(folder, metadata, FileCache(folder.with_name("unused")))
    return problems[0] if problems else None


def _wanted(found: Mapping[str, tuple[Packed, Path]], rows: Sequence[Row]) -> dict[str, tuple[Packed, Path]]:
    problems = []
    wanted = {}
    for row in rows:
        if row.status is Status.ERROR:
            problems.append(_unbuilt(row))
        elif row.status is Status.BUILD:
            each = found.get(row.name)
            if each is None:
                problems.append(f"{row.name}: its artifact did not come; see whether the job that builds it failed")
            elif each[0].digest != row.digest:
                problems.append(f"{row.name}: its artifact is made from other sources; build from the same commit")
            else:
                wanted[row.name] = each
    if problems:
        raise CheckError("\n".join(problems))
    return wanted


def _unbuilt(row: Row) -> str:
    reason = (row.reason or "").partition("\n")[0]
    return f"{row.name}: was not built: {reason}"


def _settle(folder: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(target, ignore_errors=True)
    if folder.is_dir():
        os.rename(folder, target)
