"""What a kernel has to publish: the artifacts on disk, and its benchmarks."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from buildlib import package
from buildlib import variant as variants
from buildlib.config.model import Kernel
from buildlib.errors import PublishError
from buildlib.package import METADATA, SIGNATURE
from buildlib.plan import BuildSpec, hub_target
from buildlib.publish.content import local
from buildlib.publish.destination import problem_with_names, staged
from buildlib.publish.plan import Bundle, Variant
from buildlib.workspace import Workspace


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One kernel to publish: which of its specs, and to which repository and branch."""

    kernel: Kernel
    specs: tuple[BuildSpec, ...]
    repo_id: str
    branch: str


def job(kernel: Kernel, specs: Sequence[BuildSpec], repo_prefix: str) -> Job:
    """Where a kernel's specs are published to.

    Raises:
        PublishError: build.toml names no repository, or one that cannot be.
    """
    where = f"kernels/{kernel.key}/build.toml"
    target = hub_target(kernel)
    if target is None:
        raise PublishError(
            f"{where}: [general.hub] has no repo-id; add one, such as repo-id = 'your-name/{kernel.key}'"
        )
    repo_id, branch = target
    repo_id = staged(repo_id, repo_prefix) if repo_prefix else repo_id
    if (problem := problem_with_names(repo_id, branch)) is not None:
        # What build.toml says is wrong by itself, or the option has made it so.
        if repo_prefix and problem_with_names(*target) is None:
            raise PublishError(f"--repo-prefix {repo_prefix}: makes it {repo_id!r}; use 'owner', or 'owner/start-'")
        raise PublishError(f"{where}: {problem}")
    return Job(kernel=kernel, specs=tuple(specs), repo_id=repo_id, branch=branch)


def bundle(job: Job, workspace: Workspace) -> Bundle:
    """Look at all files that a job publishes.

    Raises:
        PublishError: an artifact is missing.
    """
    benchmarks = sorted((job.kernel.folder / "benchmarks").glob("benchmark*.py"))
    return Bundle(
        kernel=job.kernel.key,
        repo_id=job.repo_id,
        branch=job.branch,
        version=job.kernel.general.version,
        variants=tuple(_variant(spec, workspace) for spec in job.specs),
        benchmarks={f"benchmarks/{path.name}": local(path) for path in benchmarks if path.is_file()},
    )


def _variant(spec: BuildSpec, workspace: Workspace) -> Variant:
    folder = workspace.artifact(spec)
    metadata = package.read(folder)
    if metadata is None:
        raise PublishError(f"{workspace.shown(folder)}: no artifact that can be read; 'doit build:{spec.name}'")
    name = variants.name(spec.variant)
    paths = [*metadata.digest.files, METADATA, *([SIGNATURE] if (folder / SIGNATURE).is_file() else [])]
    files = {f"build/{name}/{path}": local(folder / path) for path in paths}
    return Variant(name=name, metadata=metadata, files=files)
