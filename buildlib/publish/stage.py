"""All kernels that a command publishes: what can be said before a build, and what is done after it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, TypeVar

from buildlib import build, check, environment, provenance
from buildlib.config.model import Kernel
from buildlib.errors import PublishError
from buildlib.plan import BuildSpec
from buildlib.publish import Options, report
from buildlib.publish.carry_out import Decided, Publication, opened_for
from buildlib.publish.destination import Destination, folder_of
from buildlib.publish.folder import Folder
from buildlib.publish.gather import Job, bundle, job
from buildlib.publish.refuse import uncommitted_sources
from buildlib.publish.report import Row, Show
from buildlib.workspace import Workspace

_T = TypeVar("_T")
# Questions are asked side by side; commits are made one after the other, so that a file in two kernels is sent once.
_ASKING_AT_ONCE = 8


def destination(options: Options, root: Path, show: Show, *, bars: bool) -> Destination:
    """The destination that `--to` names.

    Raises:
        PublishError: it names none, or one that cannot do what the other options ask for.
    """
    folder = folder_of(options.to, root)
    if folder is None:
        from buildlib.publish.hub import Hub  # noqa: PLC0415 - it takes longer to import than doit may take to list

        return Hub(show.wait, bars=bars)
    for option, given in (("--create-pr", options.create_pr), ("--private", options.private)):
        if given:
            raise PublishError(f"{option}: is for the Hub; leave it away, or publish with --to hub")
    return Folder(folder, options.to)


class _Looked(NamedTuple):
    """One kernel, and what its repository was found to hold."""

    job: Job
    publication: Publication
    decided: tuple[Decided, ...]


class Stage:
    """One run of `doit publish`; `rows` grows with each kernel whose outcome is known."""

    def __init__(self, where: Destination, options: Options, workspace: Workspace, show: Show) -> None:
        self._destination = where
        self._options = options
        self._workspace = workspace
        self._show = show
        self._heads: dict[str, dict[str, str] | None] = {}
        self._asked = False
        self.rows: list[Row] = []

    def prepare(self, wanted: Sequence[tuple[Kernel, Sequence[BuildSpec]]]) -> list[Job]:
        """Say before anything is built what would stop a kernel later, and make the repositories that are missing.

        Returns:
            The jobs for which nothing is in the way.

        Raises:
            PublishError: nothing at all can be published.
        """
        folder = self._workspace.root / "kernels"
        changed = provenance.uncommitted(folder, environment.child(self._workspace.settings))
        jobs = [made for kernel, specs in wanted if (made := self._job(kernel, specs, changed)) is not None]
        if not jobs:
            return []
        jobs = _kept(jobs, _side_by_side(jobs, self._read))
        missing = any(self._heads[each.repo_id] is None for each in jobs)
        if missing or any(not self._is_built(spec) for each in jobs for spec in each.specs):
            jobs = self._allowed(jobs)
        return _kept(jobs, _side_by_side(jobs, self._open))

    def carry_out(self, jobs: Sequence[Job]) -> None:
        """Publish what was built and checked; a kernel that fails stops no other."""
        looked = [found for found in _side_by_side(jobs, self._look) if found is not None]
        lacking = [each for each in looked if any(part.plan.changes for part in each.decided)]
        for each in looked:
            if each not in lacking:
                requests = ((part.plan.branch, part.seen.pull_request) for part in each.decided)
                opened = tuple(opened_for(branch, request) for branch, request in requests if request is not None)
                self.rows.append(each.publication.row(report.NO_CHANGES, (), opened))
        allowed = self._allowed([each.job for each in lacking])
        for each in lacking:
            if each.job not in allowed:
                continue
            if self._options.dry_run:
                self._tell(each)
            else:
                self.rows.append(each.publication.run())
        self.rows.sort(key=lambda row: row.kernel)

    def refuse(self, kernel: str, message: str, status: str = report.REFUSED) -> None:
        """Note why a kernel is not published."""
        self.rows.append(Row(kernel=kernel, status=status, message=message))

    def _job(self, kernel: Kernel, specs: Sequence[BuildSpec], changed: Sequence[str] | None) -> Job | None:
        try:
            made = job(kernel, specs, self._options.repo_prefix)
        except PublishError as error:
            self.refuse(kernel.key, str(error))
            return None
        problem = None if self._options.allow_dirty else uncommitted_sources(made, changed)
        if problem is not None:
            self.refuse(kernel.key, problem)
            return None
        return made

    def _is_built(self, spec: BuildSpec) -> bool:
        return build.up_to_date(spec, self._workspace) and check.up_to_date(spec, self._workspace)

    def _allowed(self, jobs: Sequence[Job]) -> list[Job]:
        """The jobs whose repositories may be written to, as far as can be told; asked once, before the first effort.

        Where nothing is to be built and nothing to be written, nobody need be asked who we are.
        """
        if not jobs or self._asked or self._options.dry_run or self._options.create_pr:
            return list(jobs)
        self._asked = True
        denied = self._destination.check_rights([each.repo_id for each in jobs])

        def may(each: Job) -> bool:
            heads = self._heads.get(each.repo_id)
            problem = denied.get(each.repo_id) or (self._destination.probe(each.repo_id, heads) if heads else None)
            if problem is not None:
                self.refuse(each.kernel.key, problem)
            return problem is None

        return _kept(jobs, _side_by_side(jobs, lambda each: self._unless_refused(each, may)))

    def _unless_refused(self, each: Job, question: Callable[[Job], bool]) -> bool:
        try:
            return question(each)
        except PublishError as error:
            self.refuse(each.kernel.key, str(error))
            return False

    def _read(self, each: Job) -> bool:
        """Read the heads of the repository's branches; whether that worked."""

        def read(each: Job) -> bool:
            self._heads[each.repo_id] = self._destination.heads(each.repo_id)
            return True

        return self._unless_refused(each, read)

    def _open(self, each: Job) -> bool:
        """Make the repository where there is none, or the branch that a pull request needs; whether that worked."""

        def make(each: Job) -> bool:
            heads = self._heads[each.repo_id]
            if self._options.create_pr:
                if heads is None:
                    raise PublishError(f"{each.repo_id}: no such repository to open a pull request in")
                if each.branch in heads:
                    return True
                self._destination.begin(each.repo_id, each.branch, heads)
            elif heads is None:
                self._destination.create(each.repo_id, private=self._options.private)
            else:
                return True
            self._heads[each.repo_id] = self._destination.heads(each.repo_id)
            return True

        return self._options.dry_run or self._unless_refused(each, make)

    def _look(self, each: Job) -> _Looked | None:
        """What one kernel's repository lacks, by its heads from before the build.

        Nothing is written on this word: who finds something to write reads the heads again.
        """
        try:
            gathered = bundle(each, self._workspace)
            publication = Publication(each, gathered, self._destination, self._options, self._workspace, self._show)
            publication.check()
            decided = publication.lacks(self._heads.get(each.repo_id) or {})
        except PublishError as error:
            self.refuse(each.kernel.key, str(error))
            return None
        return _Looked(each, publication, tuple(decided))

    def _tell(self, each: _Looked) -> None:
        lacking = [part.plan for part in each.decided if part.plan.changes]
        for plan in lacking:
            self._show.plan(each.job.kernel.key, each.job.repo_id, plan, dry_run=True)
        self.rows.append(each.publication.row(report.PLANNED, tuple(report.branch_of(plan) for plan in lacking)))


def by_kernel(specs: Sequence[BuildSpec]) -> Mapping[str, tuple[BuildSpec, ...]]:
    """Specs by their kernel's key, in order."""
    found: dict[str, tuple[BuildSpec, ...]] = {}
    for spec in specs:
        found[spec.kernel.key] = (*found.get(spec.kernel.key, ()), spec)
    return found


def _side_by_side(items: Sequence[Job], question: Callable[[Job], _T]) -> list[_T]:
    with ThreadPoolExecutor(_ASKING_AT_ONCE) as pool:
        return list(pool.map(question, items))


def _kept(jobs: Sequence[Job], answers: Sequence[bool]) -> list[Job]:
    return [each for each, kept in zip(jobs, answers, strict=True) if kept]
