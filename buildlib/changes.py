"""What differs between two plans: an earlier commit's, or an earlier run's, and the checkout's as it is now."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
import tomli

from buildlib import config, environment, git, loading, rows
from buildlib.config.model import Kernel, RustCpu, RustCuda
from buildlib.digest import PARTS, Builder, this_builder
from buildlib.errors import ConfigError, ToolchainError
from buildlib.git import Tree
from buildlib.rows import Row, Status
from buildlib.rust import crates
from buildlib.rust.crates import SHARED, Crates
from buildlib.sources import Sources
from buildlib.workspace import Workspace

# What a push of a new branch gives as the commit before it, and what an unset variable gives.
_NOTHING = re.compile(r"0*")


class Before(msgspec.Struct, frozen=True, kw_only=True):
    """The plan that is compared with; `trouble` says why there is none, and then everything counts as changed."""

    since: str
    rows: tuple[Row, ...] = ()
    trouble: str | None = None


def before(since: str, workspace: Workspace, *, portable: bool) -> Before | None:
    """The plan of an earlier commit, or the one in a matrix.json; None where `since` names nothing at all.

    Raises:
        SelectionError: the commit is unknown here, or the file does not hold a matrix.
    """
    if _NOTHING.fullmatch(since):
        return None
    if since.endswith(".json"):
        return Before(since=since, rows=tuple(rows.read(Path(since))))
    store = workspace.build / "objects.msgpack"
    with git.tree(workspace.root, since, environment.child(workspace.settings)) as tree:
        tree.remember(store)
        found = _at_commit(since, tree, workspace, portable=portable)
        tree.save(store)
    return found


def changed(before: Before, now: Sequence[Row]) -> list[Row]:
    """The rows that differ, each with the reason; what this machine does not build has no digest and cannot differ."""
    earlier = {row.name: row for row in before.rows}
    found = [_compared(row, earlier, before) for row in now if row.status is not Status.SKIP]
    return [*(row for row in found if row is not None), *_deleted(before, now)]


def _compared(row: Row, earlier: Mapping[str, Row], before: Before) -> Row | None:
    """The row with the reason why it counts as changed, or None where it does not."""
    was = earlier.get(row.name)
    if row.status is Status.ERROR:
        same = was is not None and was.status is Status.ERROR and was.reason == row.reason
        return None if same else row
    if was is not None and was.status is Status.BUILD and was.digest == row.digest:
        return None
    reason, parts = _why(row, was, earlier, before)
    return msgspec.structs.replace(row, reason=reason, changed=parts)


def _why(row: Row, was: Row | None, earlier: Mapping[str, Row], before: Before) -> tuple[str, tuple[str, ...]]:
    """The reason in words, and the parts of the digest that differ."""
    since = before.since
    if before.trouble is not None:
        return before.trouble, ()
    if was is None:
        broken = earlier.get(row.kernel)
        if broken is not None:
            return f"cannot be compared: in {since}, {_first_line(broken)}", ("build.toml",)
        known = any(each.kernel == row.kernel for each in before.rows)
        return f"new {'variant' if known else 'kernel'} since {since}", ("new",)
    if was.status is not Status.BUILD:
        return f"not built in {since}: {_first_line(was)}", ("toolchain",)
    parts = tuple(part for part in PARTS if was.parts.get(part) != row.parts.get(part))
    return f"changed since {since}: {', '.join(parts)}", parts


def _deleted(before: Before, now: Sequence[Row]) -> Iterator[Row]:
    names = {row.name for row in now}
    kernels = {row.kernel for row in now}
    # A kernel that cannot be planned now has no variants, and is not deleted.
    broken = {row.kernel for row in now if row.variant is None and row.status is Status.ERROR}
    for row in before.rows:
        if row.name in names or row.kernel in broken or row.variant is None:
            continue
        if row.kernel not in kernels:
            yield _gone(row, f"kernel deleted since {before.since}")
        elif row.status is Status.BUILD:
            yield _gone(row, f"variant dropped since {before.since}")


def _gone(row: Row, reason: str) -> Row:
    return msgspec.structs.replace(row, status=Status.DELETED, reason=reason, digest=None, parts={})


def _first_line(row: Row) -> str:
    return (row.reason or "").partition("\n")[0]


def _at_commit(since: str, tree: Tree, workspace: Workspace, *, portable: bool) -> Before:
    def read(path: Path) -> Kernel:
        content = tree.content(path)
        if content is None:
            raise ConfigError(f"{path}: there is no such file; each folder under kernels/ needs one")
        return config.parse(path, content)

    kernels, broken = loading.load(_kernel_files(tree), workspace.root, read)
    try:
        with tempfile.TemporaryDirectory(prefix="kernelyard-toolchains-") as folder:
            _extract(tree, "toolchains", Path(folder))
            plan = loading.planned(
                kernels,
                broken,
                Path(folder),
                workspace.settings,
                portable=portable,
                load_crates=lambda found: _crates(tree, found),
            ).plan
    except ToolchainError as error:
        what = str(error).replace(folder, "toolchains").partition("\n")[0]
        return Before(since=since, trouble=f"cannot be compared: in {since}, {what}")
    sources = Sources(tree, lambda: tree.content(tree.root / "Cargo.lock"), _builder(tree))
    return Before(since=since, rows=tuple(rows.rows(plan, sources)))


def _extract(tree: Tree, folder: str, target: Path) -> None:
    """Write what a commit has in a folder, elsewhere."""
    for path in tree.below(folder):
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        (target / path).write_bytes(tree.content(tree.root / folder / path) or b"")


def _crates(tree: Tree, kernels: Iterable[Kernel]) -> tuple[dict[str, Crates], dict[str, str]]:
    """The crates of the kernels in Rust, read from copies of their folders, and of what they share."""
    in_rust = [kernel for kernel in kernels if any(isinstance(each, RustCpu | RustCuda) for each in kernel.components)]
    if not in_rust:
        return {}, {}
    with tempfile.TemporaryDirectory(prefix="kernelyard-crates-") as scratch:
        folder = Path(scratch) / "kernels"
        for name in (SHARED, *(kernel.key for kernel in in_rust)):
            _extract(tree, f"kernels/{name}", folder / name)
        copies = [msgspec.structs.replace(kernel, folder=folder / kernel.key) for kernel in in_rust]
        found, wrong = crates.load_all(copies)
    here = tree.root / "kernels"
    return {key: msgspec.structs.replace(each, kernel=here / key) for key, each in found.items()}, wrong


def _kernel_files(tree: Tree) -> list[Path]:
    """As `discover`: the build.toml of each folder that holds any file."""
    folders = {path.partition("/")[0] for path in tree.listing(tree.root / "kernels") if "/" in path}
    return [tree.root / "kernels" / name / "build.toml" for name in sorted(folders) if not name.startswith("_")]


def _builder(tree: Tree) -> Builder:
    """The builder in a commit, or the one that is running where the repository has its builder from elsewhere."""
    templates = tree.root / "buildlib" / "templates"
    paths = [path for path in tree.listing(templates) if path.count("/") == 1 and path.endswith(".j2")]
    if not paths:
        return this_builder()
    hashes = {path: info.sha256 for path in paths if (info := tree.get(f"{templates}/{path}"))}
    return Builder(version=_version(tree), templates=hashes)


def _version(tree: Tree) -> str:
    content = tree.content(tree.root / "pyproject.toml") or b""
    try:
        return str(tomli.loads(content.decode("utf-8"))["project"]["version"])
    except (ValueError, KeyError, TypeError):
        return "unknown"
