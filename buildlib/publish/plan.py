"""What a destination lacks: artifacts and the tree of a branch → the changes of one commit, each with a reason. Pure.

What counts is the digest in each variant's metadata.json. A variant whose digest the destination already has is left
alone even if its bytes differ, because some compilers give other bytes on every run.
"""

from __future__ import annotations

import base64
import enum
import fnmatch
import re
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from buildlib.package import METADATA, SIGNATURE, Metadata
from buildlib.publish.content import LocalFile, RemoteFile, Tree, local, same

MAIN = "main"
README = "README.md"
_BENCHMARKS = "benchmarks/benchmark*.py"
# What one commit may hold: files, as many as upstream's builder puts into one, and bytes of files that are not large.
MOST_FILES, MOST_BYTES = 1000, 256 << 20
_LARGE = 10 << 20


class Variant(msgspec.Struct, frozen=True, kw_only=True):
    """An artifact to publish: its metadata, and its files by their path in the repository."""

    name: str
    metadata: Metadata
    files: dict[str, LocalFile]

    @property
    def prefix(self) -> str:
        return f"build/{self.name}/"


class Bundle(msgspec.Struct, frozen=True, kw_only=True):
    """All that one kernel publishes to its version branch."""

    kernel: str
    repo_id: str
    branch: str
    version: int
    variants: tuple[Variant, ...]
    benchmarks: dict[str, LocalFile]


class Kind(enum.StrEnum):
    """What happens to a file."""

    ADD = "add"
    REPLACE = "replace"
    DELETE = "delete"


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One file of a commit; `size` is in bytes, and 0 where nothing is sent."""

    path: str
    kind: Kind
    size: int


class BranchPlan(msgspec.Struct, frozen=True, kw_only=True):
    """One commit: the head it goes on top of (None for a branch that is not there yet), its files, and why."""

    repo_id: str
    branch: str
    parent: str | None
    changes: tuple[Change, ...] = ()
    reasons: tuple[str, ...] = ()
    adds: dict[str, LocalFile] = {}

    @property
    def size(self) -> int:
        """How many bytes there are to send."""
        return sum(change.size for change in self.changes)


def questions(bundle: Bundle, tree: Tree) -> dict[str, str]:
    """The variant at the destination that each local variant is to be compared with, by the local one's name.

    That is the one it replaces, or the one of the same kind for another release. A variant that the destination has
    already needs no comparison.
    """
    present = sorted(path.split("/")[1] for path in tree if re.fullmatch(rf"build/[^/]+/{METADATA}", path))
    asked: dict[str, str] = {}
    for variant in bundle.variants:
        if variant.name in present:
            if not same(variant.files[variant.prefix + METADATA], tree[variant.prefix + METADATA]):
                asked[variant.name] = variant.name
        elif present:
            kin = [name for name in present if _kind(name) == _kind(variant.name)]
            asked[variant.name] = (kin or present)[-1]
    return asked


def comparable_ops(here: str, there: str) -> bool:
    """Whether two variants are made from the same components, so that their ops can be compared."""
    return _kind(here) == _kind(there)


def version_branch(bundle: Bundle, parent: str | None, tree: Tree, theirs: Mapping[str, Metadata | None]) -> BranchPlan:
    """The commit that brings the kernel's artifacts and benchmarks to its version branch.

    `theirs` is the metadata of the variants at the destination that are to be replaced; None for one that this builder
    did not write. Files of variants that are not in the bundle are never touched.
    """
    changes: list[Change] = []
    reasons: list[str] = []
    adds: dict[str, LocalFile] = {}
    for variant in bundle.variants:
        reason = _judge(variant, tree, theirs.get(variant.name))
        if reason is None:
            continue
        there = [path for path in tree if path.startswith(variant.prefix)]
        if _same_metadata(variant, tree):
            there = [path for path in there if path != variant.prefix + SIGNATURE or path in variant.files]
        made = tuple(_differences(variant.files, there, tree))
        changes += made
        reasons.append(f"{variant.name}: {reason}")
        adds |= variant.files
    there = [path for path in tree if fnmatch.fnmatchcase(path, _BENCHMARKS) and path.count("/") == 1]
    if made := tuple(_differences(bundle.benchmarks, there, tree)):
        changes += made
        reasons.append("benchmarks: changed")
        adds |= bundle.benchmarks
    return _plan(bundle.repo_id, bundle.branch, parent, changes, reasons, adds)


def readme(bundle: Bundle, parent: str | None, tree: Tree, text: str) -> BranchPlan:
    """The commit that brings the rendered card to `main`, which is where the Hub shows it from."""
    files = {README: local(text.encode("utf-8"))}
    changes = list(_differences(files, [], tree))
    reasons = ["README.md: " + ("changed" if README in tree else "new")] if changes else []
    return _plan(bundle.repo_id, MAIN, parent, changes, reasons, files)


def together(version: BranchPlan, card: BranchPlan) -> BranchPlan:
    """Both in one commit, for a kernel whose version branch is `main`."""
    return msgspec.structs.replace(
        version,
        changes=tuple(sorted((*version.changes, *card.changes), key=lambda change: change.path)),
        reasons=(*version.reasons, *card.reasons),
        adds={**version.adds, **card.adds},
    )


def after(plan: BranchPlan, tree: Tree) -> dict[str, RemoteFile]:
    """The tree that a branch has once the plan is carried out."""
    result = dict(tree)
    for change in plan.changes:
        if change.kind is Kind.DELETE:
            result.pop(change.path, None)
        else:
            added = plan.adds[change.path]
            result[change.path] = RemoteFile(size=added.size, sha256=added.sha256, git=added.git)
    return result


def variants_of(tree: Tree) -> tuple[str, ...]:
    """The names of the variants in a tree that a client can load."""
    return tuple(sorted(path.split("/")[1] for path in tree if re.fullmatch(rf"build/[^/]+/{METADATA}", path)))


def newer_version(bundle: Bundle, branches: Iterable[str]) -> str | None:
    """The newest version branch, if it is newer than the bundle's: then `main` describes that one."""
    versions = [int(match[1]) for branch in branches if (match := re.fullmatch(r"v(\d+)", branch))]
    newest = max(versions, default=bundle.version)
    return f"v{newest}" if newest > bundle.version else None


def batches(plan: BranchPlan, most_files: int = MOST_FILES, most_bytes: int = MOST_BYTES) -> list[BranchPlan]:
    """The plan as commits of a bounded size: itself where it fits.

    Where a limit forces more, a reader may see the branch between two of them. So the first one takes the metadata.json
    of every replaced variant away and the last one brings the new ones: in between, no client takes the variant for
    whole.
    """
    if len(plan.changes) <= most_files and _inline(plan.changes) <= most_bytes:
        return [plan]
    last = [change for change in plan.changes if _closes(change.path) and change.kind is not Kind.DELETE]
    first = [Change(path=each.path, kind=Kind.DELETE, size=0) for each in last if each.kind is Kind.REPLACE]
    groups: list[list[Change]] = [first]
    for change in (each for each in plan.changes if each not in last):
        if groups[-1] and (len(groups[-1]) >= most_files or _inline([*groups[-1], change]) > most_bytes):
            groups.append([])
        groups[-1].append(change)
    groups.append([Change(path=each.path, kind=Kind.ADD, size=each.size) for each in last])
    return [msgspec.structs.replace(plan, changes=tuple(group)) for group in groups if group]


def _inline(changes: Iterable[Change]) -> int:
    """How many bytes travel in the commit itself; the Hub takes larger files beforehand."""
    return sum(change.size for change in changes if change.size <= _LARGE)


def _plan(
    repo_id: str,
    branch: str,
    parent: str | None,
    changes: list[Change],
    reasons: list[str],
    adds: Mapping[str, LocalFile],
) -> BranchPlan:
    sent = {change.path for change in changes if change.kind is not Kind.DELETE}
    return BranchPlan(
        repo_id=repo_id,
        branch=branch,
        parent=parent,
        changes=tuple(sorted(changes, key=lambda change: change.path)),
        reasons=tuple(reasons),
        adds={path: file for path, file in adds.items() if path in sent},
    )


def _differences(wanted: Mapping[str, LocalFile], there: Iterable[str], tree: Tree) -> Iterator[Change]:
    for path, file in wanted.items():
        if not same(file, tree.get(path)):
            yield Change(path=path, kind=Kind.REPLACE if path in tree else Kind.ADD, size=file.size)
    for path in there:
        if path not in wanted:
            yield Change(path=path, kind=Kind.DELETE, size=0)


def _judge(variant: Variant, tree: Tree, theirs: Metadata | None) -> str | None:
    """Why a variant must be sent, or None where the destination has it."""
    there = {path.removeprefix(variant.prefix): tree[path] for path in tree if path.startswith(variant.prefix)}
    if METADATA not in there:
        return "left half uploaded" if there else "new"
    if _same_metadata(variant, tree):
        return _mend(variant, there)
    return _replace(variant.metadata, theirs, there)


def _replace(ours: Metadata, theirs: Metadata | None, there: Tree) -> str | None:
    """Why a variant must be replaced by one whose metadata.json differs, or None where it need not be."""
    if theirs is None:
        return "made by another builder"
    new, old = ours.kernelyard, theirs.kernelyard
    if old.digest == new.digest:
        if _dirty(theirs) and not _dirty(ours):
            return "its sources are committed now"
        return None if _whole(theirs, there) else "damaged at the destination"
    if old.toolchain != new.toolchain:
        changed = [part for part in new.toolchain or () if part not in (old.toolchain or ())]
        return "another toolchain" + (f" ({', '.join(changed)})" if changed else "")
    return "changed sources, flags or templates"


def _mend(variant: Variant, there: Tree) -> str | None:
    """What is wrong with a variant at the destination whose metadata.json is ours to the letter."""
    ours = {path.removeprefix(variant.prefix): file for path, file in variant.files.items()}
    paths = (ours.keys() | there.keys()) - {SIGNATURE}
    if any(path not in ours or not same(ours[path], there.get(path)) for path in paths):
        return "damaged at the destination"
    return "signed" if SIGNATURE in ours and SIGNATURE not in there else None


def _whole(metadata: Metadata, there: Tree) -> bool:
    """Whether the files at the destination are those that their own metadata.json lists, as far as hashes are known."""
    expected = metadata.digest.files
    if there.keys() - {METADATA, SIGNATURE} != expected.keys():
        return False
    known = {path: file.sha256 for path, file in there.items() if file.sha256 is not None and path in expected}
    return all(base64.b64encode(bytes.fromhex(sha256)).decode() == expected[path] for path, sha256 in known.items())


def _same_metadata(variant: Variant, tree: Tree) -> bool:
    path = variant.prefix + METADATA
    return same(variant.files[path], tree.get(path))


def _dirty(metadata: Metadata) -> bool:
    kernel = metadata.provenance.kernel
    return kernel is None or kernel.dirty


def _closes(path: str) -> bool:
    """Whether a file makes a variant look whole."""
    return path.startswith("build/") and path.rpartition("/")[2] in {METADATA, SIGNATURE} and path.count("/") == 2  # noqa: PLR2004


def _kind(name: str) -> str:
    """A variant's name less all versions."""
    return re.sub(r"\d+", "", name.replace("x86_64", "x86"))
