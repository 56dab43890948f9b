"""One kernel at one destination: read, decide, commit, look again; and again, until the destination holds it all."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping

import msgspec

from buildlib import check, interface
from buildlib.errors import PublishError
from buildlib.interface import Interface
from buildlib.package import METADATA, Metadata
from buildlib.publish import Options, plan, refuse, report
from buildlib.publish.card import render_card
from buildlib.publish.content import Tree, same
from buildlib.publish.destination import Commit, Destination, Moved, PullRequest, Unclear
from buildlib.publish.gather import Job
from buildlib.publish.plan import MAIN, BranchPlan, Bundle, Kind
from buildlib.publish.report import Branch, Opened, Row, Show
from buildlib.workspace import Workspace

# Of many who commit to one branch at once, one succeeds each time.
_TRIES = 25
_ACCIDENTS = 5
_LONGEST_PAUSE_SECONDS = 30.0
_SHOWN = 5


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """A branch as it was read, or the pull request for it: where commits go, its head, and its files."""

    revision: str
    head: str | None
    tree: Tree
    # Whether the files in folders were left out.
    top: bool = False
    pull_request: PullRequest | None = None


class Decided(msgspec.Struct, frozen=True, kw_only=True):
    """What a branch lacks, and what that was decided on."""

    seen: Seen
    plan: BranchPlan


class Settled(msgspec.Struct, frozen=True, kw_only=True):
    """What was done about a branch, if anything, and the pull request that it is in, if there is one."""

    done: Branch | None = None
    pull_request: PullRequest | None = None


class Publication:
    """The publication of one kernel."""

    def __init__(
        self, job: Job, bundle: Bundle, destination: Destination, options: Options, workspace: Workspace, show: Show
    ) -> None:
        self._job = job
        self._bundle = bundle
        self._destination = destination
        self._options = options
        self._workspace = workspace
        self._show = show

    def check(self) -> None:
        """Refuse artifacts that may not be published, wherever to.

        Raises:
            PublishError: one of them.
        """
        for spec, variant in zip(self._job.specs, self._bundle.variants, strict=True):
            refuse.artifact(
                variant,
                self._workspace.shown(self._workspace.artifact(spec)),
                # An artifact of an earlier run is not the one of these sources, although it has passed.
                passed=spec.name not in self._workspace.unavailable and check.up_to_date(spec, self._workspace),
                allow_dirty=self._options.allow_dirty,
            )

    def lacks(self, heads: Mapping[str, str]) -> list[Decided]:
        """What the destination lacks, by what its branches' heads were: for each branch, and perhaps nothing."""
        version = self._version(heads)
        card = self._card(heads, version) if self._bundle.branch != MAIN else None
        return [version] if card is None else [version, card]

    def run(self) -> Row:
        """Bring the destination everything that it lacks.

        The version branch comes first: the card on main tells of variants that are there then. What went wrong is in
        the row, beside what was done before that.
        """
        settled: dict[str, Settled] = {}
        problem = None
        try:
            settled[self._bundle.branch] = self._settle(self._bundle.branch, self._version)
            if self._bundle.branch != MAIN:
                settled[MAIN] = self._settle(MAIN, self._card_of_now)
        except PublishError as error:
            problem = str(error)
        done = tuple(each.done for each in settled.values() if each.done is not None)
        opened = tuple(opened_for(branch, each.pull_request) for branch, each in settled.items() if each.pull_request)
        status = report.NO_CHANGES
        if problem is not None:
            status = report.FAILED
        elif done:
            status = report.PULL_REQUEST if self._options.create_pr else report.UPLOADED
        return self.row(status, done, opened, problem)

    def row(
        self,
        status: str,
        branches: tuple[Branch, ...] = (),
        opened: tuple[Opened, ...] = (),
        message: str | None = None,
    ) -> Row:
        """The kernel's row of the report."""
        return Row(
            kernel=self._bundle.kernel,
            status=status,
            repo_id=self._bundle.repo_id,
            branch=self._bundle.branch,
            url=self._destination.url(self._bundle.repo_id, self._bundle.branch),
            pull_requests=opened,
            branches=branches,
            message=message,
        )

    def _settle(self, branch: str, decide: Callable[[Mapping[str, str]], Decided | None]) -> Settled:
        """Commit what a branch lacks. A commit whose answer was lost is found by deciding again, and not doubled.

        Raises:
            PublishError: it was refused, or did not work out in the end.
        """
        announced: BranchPlan | None = None
        accidents = 0
        for attempt in range(_TRIES):
            decided = decide(self._heads())
            if decided is None:
                return Settled()
            if not decided.plan.changes:
                # Where something was announced, it has arrived, though the answer that said so has not.
                done = report.branch_of(announced, decided.seen.head) if announced else None
                return Settled(done=done, pull_request=decided.seen.pull_request)
            if announced is None:
                self._show.plan(self._bundle.kernel, self._bundle.repo_id, decided.plan, dry_run=False)
                announced = decided.plan
            try:
                made, pull_request = self._send(branch, decided)
                return Settled(done=report.branch_of(announced, made), pull_request=pull_request)
            except Moved:
                self._pause(attempt, "somebody else committed in between")
            except Unclear as accident:
                accidents += 1
                if accidents == _ACCIDENTS:
                    raise PublishError(f"{self._bundle.repo_id}: {accident}; publish again later") from None
                self._pause(attempt, f"{accident}; looking whether it happened")
        raise PublishError(
            f"{self._bundle.repo_id}: in {_TRIES} attempts, somebody else was always faster on branch {branch}; "
            "publish again later"
        )

    def _send(self, branch: str, decided: Decided) -> tuple[str, PullRequest | None]:
        """Make the commits of a plan, one unless it is larger than a commit may be, and look at what became of it."""
        revision, head, tree = decided.seen.revision, decided.seen.head, decided.seen.tree
        pull_request = decided.seen.pull_request
        if head is None:
            head = self._destination.begin(self._bundle.repo_id, branch, self._heads())
            tree = {}
        if head is not None and (decided.seen.top or decided.seen.head is None):
            tree = self._destination.tree(self._bundle.repo_id, head)
        for part in plan.batches(decided.plan):
            wants_pr = self._options.create_pr and pull_request is None
            made = self._destination.commit(
                Commit(
                    repo_id=self._bundle.repo_id,
                    branch=revision,
                    parent=head,
                    title=self._title(branch),
                    description=self._description(decided.plan),
                    adds={each.path: part.adds[each.path] for each in part.changes if each.kind is not Kind.DELETE},
                    deletes=[each.path for each in part.changes if each.kind is Kind.DELETE],
                    pull_request=wants_pr,
                )
            )
            head = made.commit
            if made.pull_request is not None:
                pull_request = made.pull_request
                revision = pull_request.branch
        assert head is not None
        self._verify(head, decided.plan, tree)
        return head, pull_request

    def _verify(self, commit: str, done: BranchPlan, before: Tree) -> None:
        """Compare the tree of a commit with the one that was planned.

        Raises:
            PublishError: they differ.
        """
        there = self._destination.tree(self._bundle.repo_id, commit)
        wanted = plan.after(done, before)
        # The Hub itself notes in .gitattributes which files it stores outside of git.
        wrong = [path for path in sorted(wanted.keys() ^ there.keys()) if path != ".gitattributes"]
        wrong += [path for path, file in done.adds.items() if path in there and not same(file, there[path])]
        if wrong:
            more = f" and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
            raise PublishError(
                f"{self._bundle.repo_id}: after the commit, branch {done.branch} is not as planned "
                f"({', '.join(wrong[:_SHOWN])}{more}); publish again, which sends what is wrong, and look who else "
                "writes there"
            )

    def _heads(self) -> dict[str, str]:
        return self._destination.heads(self._bundle.repo_id) or {}

    def _look(self, heads: Mapping[str, str], branch: str, *, top: bool = False) -> Seen:
        """A branch, or what an open pull request would make of it."""
        repo_id = self._bundle.repo_id
        if self._options.create_pr:
            found = self._destination.pull_requests(repo_id).get(self._title(branch))
            if found is not None:
                tree = self._destination.tree(repo_id, found.head, top=top)
                return Seen(revision=found.branch, head=found.head, tree=tree, top=top, pull_request=found)
        head = heads.get(branch)
        tree = self._destination.tree(repo_id, head, top=top) if head is not None else {}
        return Seen(revision=branch, head=head, tree=tree, top=top)

    def _version(self, heads: Mapping[str, str]) -> Decided:
        seen = self._look(heads, self._bundle.branch)
        theirs: dict[str, Metadata | None] = {}
        known: dict[str, Interface] = {}
        for ours, other in plan.questions(self._bundle, seen.tree).items():
            assert seen.head is not None
            content = self._destination.read(self._bundle.repo_id, seen.head, f"build/{other}/{METADATA}")
            metadata = _decode(content)
            if ours == other:
                theirs[ours] = metadata
            offered = self._offered(seen, other, metadata)
            known[ours] = offered if plan.comparable_ops(ours, other) else Interface(python=offered.python)
        refuse.backwards(self._bundle, known)
        decided = plan.version_branch(self._bundle, seen.head, seen.tree, theirs)
        if self._bundle.branch == MAIN:
            text = render_card(self._job.kernel, self._bundle.repo_id, plan.variants_of(plan.after(decided, seen.tree)))
            decided = plan.together(decided, plan.readme(self._bundle, seen.head, seen.tree, text))
        return Decided(seen=seen, plan=decided)

    def _card(self, heads: Mapping[str, str], version: Decided) -> Decided | None:
        """What main lacks, given what the version branch is to hold; None where main tells of a newer version."""
        if plan.newer_version(self._bundle, heads) is not None:
            return None
        names = plan.variants_of(plan.after(version.plan, version.seen.tree))
        text = render_card(self._job.kernel, self._bundle.repo_id, names)
        seen = self._look(heads, MAIN, top=True)
        return Decided(seen=seen, plan=plan.readme(self._bundle, seen.head, seen.tree, text))

    def _card_of_now(self, heads: Mapping[str, str]) -> Decided | None:
        """As `_card`, with the variants that are on the version branch now.

        All heads are read before the trees are. So if another machine's variants arrive too late for this card, that
        machine, which writes its card after its variants, finds this one already there or makes it move.
        """
        branch = self._look(heads, self._bundle.branch)
        empty = BranchPlan(repo_id=self._bundle.repo_id, branch=self._bundle.branch, parent=branch.head)
        return self._card(heads, Decided(seen=branch, plan=empty))

    def _offered(self, seen: Seen, name: str, metadata: Metadata | None) -> Interface:
        """The interface of a published variant; of another builder's, the Python part, read from its files."""
        if metadata is not None and metadata.kernelyard.interface is not None:
            return metadata.kernelyard.interface
        assert seen.head is not None
        return Interface(python=interface.python(_Files(self._destination, self._bundle.repo_id, seen, name)))

    def _title(self, branch: str) -> str:
        return f"Publish {self._bundle.kernel} to {branch}"

    def _description(self, done: BranchPlan) -> str:
        lines = list(done.reasons)
        for variant in self._bundle.variants:
            kernel = variant.metadata.provenance.kernel
            if refuse.is_dirty(variant):
                lines.append(f"{variant.name}: from uncommitted sources")
            elif kernel is not None:
                lines.append(f"{variant.name}: from commit {kernel.commit}")
        return "\n".join(lines)

    def _pause(self, attempt: int, why: str) -> None:
        # A random part, so that two who collide do not collide again.
        seconds = random.uniform(0.05, min(_LONGEST_PAUSE_SECONDS, 0.2 * 2**attempt))  # noqa: S311
        self._show.wait(seconds, f"{self._bundle.repo_id}: {why}")


def opened_for(branch: str, pull_request: PullRequest) -> Opened:
    """A pull request as the report tells it."""
    return Opened(branch=branch, url=pull_request.url)


class _Files(Mapping[str, bytes]):
    """The files of a published variant, read when they are asked for."""

    def __init__(self, destination: Destination, repo_id: str, seen: Seen, name: str) -> None:
        assert seen.head is not None
        self._destination, self._repo_id, self._head = destination, repo_id, seen.head
        self._prefix = f"build/{name}/"
        self._paths = [path.removeprefix(self._prefix) for path in seen.tree if path.startswith(self._prefix)]

    def __getitem__(self, path: str) -> bytes:
        if path not in self._paths:
            raise KeyError(path)
        return self._destination.read(self._repo_id, self._head, self._prefix + path)

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths)

    def __len__(self) -> int:
        return len(self._paths)


def _decode(content: bytes) -> Metadata | None:
    try:
        return msgspec.json.decode(content, type=Metadata)
    except msgspec.DecodeError:
        return None
