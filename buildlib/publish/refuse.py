"""What may not be published, and why not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from buildlib import interface
from buildlib.errors import PublishError
from buildlib.interface import Interface
from buildlib.publish.gather import Job
from buildlib.publish.plan import Bundle, Variant

_SHOWN = 5


def uncommitted_sources(job: Job, changed: Sequence[str] | None) -> str | None:
    """Why the kernel's folder as it is now is not what a commit holds; `changed` is relative to `kernels/`."""
    where = f"kernels/{job.kernel.key}"
    if changed is None:
        return f"{where}: not in a git repository, so nobody could tell what was published; pass --allow-dirty to do it"
    mine = [path.partition("/")[2] for path in changed if path.startswith(f"{job.kernel.key}/")]
    if not mine:
        return None
    more = f" and {len(mine) - _SHOWN} more" if len(mine) > _SHOWN else ""
    return (
        f"{where}: not all is committed ({', '.join(mine[:_SHOWN])}{more}); commit it, or pass --allow-dirty, which "
        "says so in the commit"
    )


def artifact(variant: Variant, where: str, *, passed: bool, allow_dirty: bool) -> None:
    """Refuse an artifact for what it says about itself, or for what its checks said.

    Raises:
        PublishError: it may not be published.
    """
    if not passed:
        raise PublishError(f"{where}: has not passed all checks; see the report, mend it, and run 'doit check' again")
    if narrowed := variant.metadata.kernelyard.narrowed:
        raise PublishError(f"{where}: was built with {', '.join(narrowed)}; build it whole, without that, and publish")
    if is_dirty(variant) and not allow_dirty:
        raise PublishError(f"{where}: was built from sources that no commit holds; commit them, or pass --allow-dirty")


def is_dirty(variant: Variant) -> bool:
    """Whether an artifact does not name the commit that its sources are in."""
    kernel = variant.metadata.provenance.kernel
    return kernel is None or kernel.dirty


def backwards(bundle: Bundle, known: Mapping[str, Interface]) -> None:
    """Refuse what would break those who use the version that the bundle is of.

    `known` is the published interface that each variant is to be compared with, by the variant's name.

    Raises:
        PublishError: a name was lost or changed.
    """
    problems: dict[str, None] = {}
    for variant in bundle.variants:
        ours = variant.metadata.kernelyard.interface
        if ours is not None and variant.name in known:
            problems |= dict.fromkeys(interface.losses(known[variant.name], ours))
    if problems:
        listed = "; ".join(problems)
        raise PublishError(
            f"kernels/{bundle.kernel}: breaks users of {bundle.repo_id} version {bundle.version}: {listed}. Keep what "
            f"was there, or set [general] version = {bundle.version + 1} in build.toml"
        )
