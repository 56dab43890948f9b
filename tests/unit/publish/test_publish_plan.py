"""Which files a commit needs: decided on trees alone."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import msgspec
import pytest

from buildlib.package import BackendInfo, Builder, Digest, Metadata, Origin, ProvenanceInfo
from buildlib.provenance import Provenance
from buildlib.publish import plan
from buildlib.publish.content import LocalFile, RemoteFile, Tree, local, same
from buildlib.publish.plan import Bundle, Change, Kind, Variant

NAME = "torch-cpu"
PREFIX = f"build/{NAME}/"


def metadata(digest: str = "d", *, dirty: bool = False, toolchain: tuple[str, ...] | None = None) -> Metadata:
    return Metadata(
        name="relu",
        id="_relu",
        version=1,
        license="MIT",
        python_depends=[],
        kernel_depends=[],
        kernels_minver="0.14.0",
        backend=BackendInfo(type="cpu"),
        kernelyard=Origin(digest=digest, toolchain=toolchain),
        provenance=ProvenanceInfo(kernel_builder=Builder(version="1"), kernel=Provenance(commit="a" * 40, dirty=dirty)),
        digest=Digest(algorithm="sha256", files={"__init__.py": ""}),
    )


def variant(name: str = NAME, *, told: Metadata | None = None, **files: str) -> Variant:
    described = told or metadata()
    contents = {"__init__.py": "x", **{path.replace("_DOT_", "."): text for path, text in files.items()}}
    named = {f"build/{name}/{path}": local(text.encode()) for path, text in contents.items()}
    named[f"build/{name}/metadata.json"] = local(msgspec.json.encode(described))
    return Variant(name=name, metadata=described, files=named)


def bundle(*variants: Variant, version: int = 1, benchmarks: dict[str, LocalFile] | None = None) -> Bundle:
    return Bundle(
        kernel="relu",
        repo_id="org/relu",
        branch=f"v{version}",
        version=version,
        variants=variants or (variant(),),
        benchmarks=benchmarks or {},
    )


def as_git(file: LocalFile) -> RemoteFile:
    return RemoteFile(size=file.size, git=file.git)


def as_large(file: LocalFile) -> RemoteFile:
    return RemoteFile(size=file.size, sha256=file.sha256)


def published(*variants: Variant, how: Callable[[LocalFile], RemoteFile] = as_git) -> dict[str, RemoteFile]:
    return {path: how(file) for each in variants for path, file in each.files.items()}


def kinds(made: plan.BranchPlan) -> dict[str, str]:
    return {change.path: change.kind.value for change in made.changes}


@pytest.mark.parametrize("how", [as_git, as_large])
def test_the_same_content_is_the_same_however_it_is_stored(how: Callable[[LocalFile], RemoteFile]) -> None:
    assert same(local(b"a"), how(local(b"a")))
    assert not same(local(b"a"), how(local(b"b")))
    assert not same(local(b"a"), None)
    assert plan.version_branch(bundle(), "h", published(variant(), how=how), {}).changes == ()


def test_gits_name_for_a_file_is_gits() -> None:
    assert local(b"hello\n").git == "ce013625030ba8dba906f756967f9e9ca394464a"
    assert local(b"hello\n").sha256 == hashlib.sha256(b"hello\n").hexdigest()


def test_a_new_variant_is_all_new() -> None:
    made = plan.version_branch(bundle(), None, {}, {})
    assert kinds(made) == {PREFIX + "__init__.py": "add", PREFIX + "metadata.json": "add"}
    assert (made.reasons, made.parent) == ((f"{NAME}: new",), None)
    assert set(made.adds) == {change.path for change in made.changes}
    assert made.size == sum(file.size for file in variant().files.values())


@pytest.mark.parametrize(
    ("theirs", "reason"),
    [
        (None, "made by another builder"),
        (metadata("other"), "changed sources, flags or templates"),
        (metadata("other", toolchain=("gcc 12",)), "another toolchain (gcc 13)"),
        (metadata(dirty=True), "its sources are committed now"),
    ],
)
def test_why_a_variant_is_replaced(theirs: Metadata | None, reason: str) -> None:
    toolchain = ("gcc 13",) if theirs is not None and theirs.kernelyard.toolchain else None
    ours = variant(told=metadata(toolchain=toolchain))
    tree = published(variant(told=metadata("zzz"), old_DOT_py="y"))
    made = plan.version_branch(bundle(ours), "h", tree, {NAME: theirs})
    assert made.reasons == (f"{NAME}: {reason}",)
    assert kinds(made) == {PREFIX + "metadata.json": "replace", PREFIX + "old.py": "delete"}


def test_other_bytes_of_the_same_inputs_stay_where_they_are() -> None:
    theirs = variant(told=metadata(toolchain=("told differently",)))
    made = plan.version_branch(bundle(), "h", published(theirs), {NAME: theirs.metadata})
    assert made.changes == ()


def test_half_a_variant_is_finished() -> None:
    tree = published(variant())
    del tree[PREFIX + "metadata.json"]
    made = plan.version_branch(bundle(), "h", tree, {})
    assert (made.reasons, kinds(made)) == ((f"{NAME}: left half uploaded",), {PREFIX + "metadata.json": "add"})


def test_other_variants_and_other_folders_are_not_ours() -> None:
    other = variant("torch-cuda")
    tree = {**published(other), "notes.txt": as_git(local(b"")), f"x/{PREFIX}y": as_git(local(b""))}
    assert all(path.startswith(PREFIX) for path in kinds(plan.version_branch(bundle(), "h", tree, {})))


def test_which_published_variant_each_is_compared_with() -> None:
    names = ["torch212-cxx11-cpu-x86_64-linux", "torch212-cxx11-cu126-x86_64-linux"]
    tree = published(*(variant(name, told=metadata("other")) for name in names))
    asked = plan.questions(
        bundle(
            variant("torch212-cxx11-cpu-x86_64-linux"),
            variant("torch213-cxx11-cu130-x86_64-linux"),
            variant("torch-cpu"),
        ),
        tree,
    )
    assert asked == {
        "torch212-cxx11-cpu-x86_64-linux": "torch212-cxx11-cpu-x86_64-linux",
        "torch213-cxx11-cu130-x86_64-linux": "torch212-cxx11-cu126-x86_64-linux",
        "torch-cpu": "torch212-cxx11-cu126-x86_64-linux",
    }
    assert plan.comparable_ops("torch213-cxx11-cu130-x86_64-linux", "torch212-cxx11-cu126-x86_64-linux")
    assert not plan.comparable_ops("torch-cpu", "torch212-cxx11-cpu-x86_64-linux")
    assert plan.questions(bundle(), {}) == {}
    assert plan.questions(bundle(), published(variant())) == {}


def test_the_readme_and_newer_versions() -> None:
    made = plan.readme(bundle(), "h", {}, "text")
    assert (made.branch, kinds(made), made.reasons) == ("main", {"README.md": "add"}, ("README.md: new",))
    there = {"README.md": as_git(local(b"text"))}
    assert plan.readme(bundle(), "h", there, "text").changes == ()
    assert kinds(plan.readme(bundle(), "h", there, "other")) == {"README.md": "replace"}
    assert plan.newer_version(bundle(), ["main", "v1", "v0", "vision"]) is None
    assert plan.newer_version(bundle(), ["v2", "v10"]) == "v10"


def test_after_a_plan_the_tree_is_as_planned() -> None:
    tree = published(variant(told=metadata("other"), old_DOT_py="y"))
    made = plan.version_branch(bundle(), "h", tree, {NAME: None})
    after = plan.after(made, tree)
    assert after.keys() == variant().files.keys()
    assert plan.version_branch(bundle(), "h", after, {}).changes == ()
    assert plan.variants_of(after) == (NAME,)


def many(count: int, *, size: int = 1) -> plan.BranchPlan:
    paths = [PREFIX + f"{number:03}.py" for number in range(count)]
    changes = [Change(path=path, kind=Kind.ADD, size=size) for path in paths]
    closing = [Change(path=PREFIX + "metadata.json", kind=Kind.REPLACE, size=1)]
    gone = [Change(path=PREFIX + "gone.py", kind=Kind.DELETE, size=0)]
    return plan.BranchPlan(repo_id="org/relu", branch="v1", parent="h", changes=(*closing, *gone, *changes))


def test_one_commit_where_the_limits_allow_it() -> None:
    assert plan.batches(many(500)) == [many(500)]
    # What the Hub stores outside of git is not in the commit, whatever its size.
    assert len(plan.batches(many(50, size=1 << 30))) == 1


@pytest.mark.parametrize(("files", "size"), [(3, 1 << 20), (1000, 3)])
def test_more_commits_close_a_variant_last_and_open_it_first(files: int, size: int) -> None:
    parts = plan.batches(many(7), files, size)
    assert len(parts) > 2
    assert all(len(part.changes) <= files for part in parts)
    assert parts[0].changes[0] == Change(path=PREFIX + "metadata.json", kind=Kind.DELETE, size=0)
    assert parts[-1].changes == (Change(path=PREFIX + "metadata.json", kind=Kind.ADD, size=1),)
    told = [change.path for part in parts for change in part.changes]
    assert sorted({*told}) == sorted(change.path for change in many(7).changes)
    assert len(told) == len({*told}) + 1


def test_a_kernel_on_main_is_one_commit_with_its_card() -> None:
    version = plan.version_branch(bundle(), "h", {}, {})
    both = plan.together(version, plan.readme(bundle(), "h", {}, "text"))
    assert "README.md" in kinds(both)
    assert PREFIX + "metadata.json" in kinds(both)
    assert set(both.adds) == set(kinds(both))


def test_benchmarks_are_those_of_the_kernel() -> None:
    ours = {"benchmarks/benchmark.py": local(b"new")}
    tree: Tree = {
        **published(variant()),
        "benchmarks/benchmark.py": as_git(local(b"old")),
        "benchmarks/benchmark_old.py": as_git(local(b"")),
        "benchmarks/data.json": as_git(local(b"")),
        "benchmarks/deep/benchmark.py": as_git(local(b"")),
    }
    made = plan.version_branch(bundle(benchmarks=ours), "h", tree, {})
    assert kinds(made) == {"benchmarks/benchmark.py": "replace", "benchmarks/benchmark_old.py": "delete"}
