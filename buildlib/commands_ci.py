"""The commands of doit that CI is made of: matrix, pack, unpack, cache-key, summary and ci. See ci/README.md."""

from __future__ import annotations

import platform
from collections.abc import Callable
from pathlib import Path

import msgspec
from doit.exceptions import InvalidCommand

from buildlib import cachekeys, changes, environment, process, rows, shards, summary, travel, workflows
from buildlib.chosen import Options, in_shard
from buildlib.commands import SELECTING, alone, reader_may_leave, session_of
from buildlib.commands_base import Command
from buildlib.errors import BuildError, SelectionError
from buildlib.files import named_by_user, write
from buildlib.rows import Row, matching
from buildlib.tasks import Session

_OUTPUTS = {
    "name": "outputs",
    "long": "outputs",
    "type": bool,
    "default": False,
    "help": "print name=value lines, as a CI service takes them for the outputs of a step",
}
_USAGE = "[KERNEL | KERNEL:VARIANT | wildcard ...]"


class _Command(Command):
    """A command with words and options, whose errors are for the user, and which prints what `_run` returns."""

    def _answer(self, run: Callable[[Session], str]) -> int:
        session = session_of(self)
        try:
            text = run(session)
        except BuildError as error:
            raise InvalidCommand(str(error)) from None
        finally:
            self.dep_manager.close()
            session.workspace.close()
        with reader_may_leave():
            self.outstream.write(text)
        return 0


class Matrix(_Command):
    """`doit matrix`: the plan as JSON."""

    doc_purpose = f"Print the plan as JSON for CI: {_USAGE}"
    doc_usage = _USAGE
    doc_description = (
        "An object for each kernel × variant: kernel, variant, backend, framework, status, reason, digest, parts of "
        "the digest, and changed (which parts, where --changed-since compares)."
    )
    cmd_options = (
        SELECTING[0],
        {
            "name": "shards",
            "long": "shards",
            "type": int,
            "default": None,
            "help": "split the rows for this many machines, and print what a CI matrix takes",
        },
        {
            "name": "output",
            "long": "output",
            "short": "o",
            "type": str,
            "default": None,
            "help": "write the rows to this file, for --rows",
        },
        _OUTPUTS,
    )

    def _execute(
        self,
        pos_args: list[str],
        changed_since: str | None,
        shards: int | None,
        output: str | None,
        outputs: bool,  # noqa: FBT001 - doit passes it so
    ) -> int:
        def run(session: Session) -> str:
            found = _split(_selected(session, pos_args, changed_since), shards, session)
            if output is not None:
                with named_by_user(f"--output {output}"):
                    write(Path(output), rows.encode(found))
            return _shown(found, sharded=shards is not None, outputs=outputs)

        return self._answer(run)


def _selected(session: Session, words: list[str], since: str | None) -> list[Row]:
    now = session.rows()
    before = session.before(since) if since is not None else None
    if before is None:
        return rows.matching(words, now)
    # A word may name a kernel that is gone, and one that is there but not changed.
    found = changes.changed(before, now)
    known = {row.name: row for row in (*found, *now)}
    chosen = {row.name for row in rows.matching(words, list(known.values()))}
    return [row for row in found if row.name in chosen]


def _split(found: list[Row], count: int | None, session: Session) -> list[Row]:
    if count is None:
        return found
    if count < 1:
        raise SelectionError(f"--shards {count}: there is nothing to split for; use 1 or more")
    seconds = session.workspace.times.seconds
    return shards.split(found, {spec.name: shards.estimate(spec, seconds) for spec in session.plan.specs}, count)


def _shown(found: list[Row], *, sharded: bool, outputs: bool) -> str:
    """What is printed: the rows, or the CI matrix of their shards; as outputs of a step, both on a line each."""
    ci_matrix = msgspec.json.encode(shards.summary(found)).decode()
    if outputs:
        return f"rows={sum(row.shard is not None for row in found)}\nmatrix={ci_matrix}\n"
    return ci_matrix + "\n" if sharded else rows.encode(found).decode()


class Pack(_Command):
    """`doit pack`: artifacts on their way to another machine."""

    doc_purpose = f"Pack built artifacts into one file, for 'doit unpack' elsewhere: {_USAGE}"
    doc_usage = _USAGE
    doc_description = "Each artifact is verified first, and nothing is built."
    cmd_options = (
        *SELECTING,
        {"name": "to", "long": "to", "type": str, "default": "build/packed/artifacts.tar", "help": "the file to write"},
    )

    def _execute(
        self, pos_args: list[str], changed_since: str | None, rows: str | None, shard: int | None, to: str
    ) -> int:
        def run(session: Session) -> str:
            chosen = session.chosen(Options(since=changed_since, file=rows, shard=shard))
            found = matching(pos_args, session.rows() if chosen is None else chosen)
            with named_by_user(f"--to {to}"):
                packed = travel.pack(found, Path(to), session.workspace)
            return f"{to}: {len(packed)} artifacts, {Path(to).stat().st_size} bytes\n"

        return self._answer(run)


class Unpack(_Command):
    """`doit unpack`: artifacts from another machine."""

    doc_purpose = "Verify packed artifacts and put them into their places: FILE | FOLDER ..."
    doc_usage = "FILE | FOLDER ..."
    doc_description = "With --rows, each row of that file must come, made from what the row says. Nothing is built."
    cmd_options = SELECTING[1:]

    def _execute(self, pos_args: list[str], rows: str | None, shard: int | None) -> int:
        def run(session: Session) -> str:
            if not pos_args:
                raise SelectionError("doit unpack: which files? name the files, or folders of files, of 'doit pack'")
            wanted = None if rows is None else in_shard(Options(file=rows, shard=shard))
            with alone(session.workspace.build / "lock"):
                unpacked = travel.unpack([Path(word) for word in pos_args], wanted, session.workspace)
            return f"{len(unpacked)} artifacts, verified, in build/kernels\n"

        return self._answer(run)


class CacheKey(_Command):
    """`doit cache-key`: what CI keeps between runs."""

    name = "cache-key"
    doc_purpose = "Print what CI should cache, and under which keys"
    doc_usage = ""
    doc_description = "For each cache: its name, its paths, its key, and the start of older keys to fall back to."
    cmd_options = (_OUTPUTS,)

    def _execute(self, outputs: bool) -> int:  # noqa: FBT001 - doit passes it so
        def run(session: Session) -> str:
            found = _caches(session)
            return (
                cachekeys.outputs(found) if outputs else msgspec.json.format(msgspec.json.encode(found)).decode() + "\n"
            )

        return self._answer(run)


class Summary(_Command):
    """`doit summary`: the last run for people."""

    doc_purpose = "Print the outcome of the last run as Markdown"
    doc_usage = ""
    doc_description = "A table of kernel × variant with what was built, checked and tested, sizes, times and reasons."
    cmd_options = ()

    def _execute(self) -> int:
        return self._answer(lambda session: summary.markdown(summary.read(session.record), _sizes(session)))


class Ci(_Command):
    """`doit ci`: the workflow files."""

    doc_purpose = "Write the workflow files for GitHub and GitLab; --check only verifies them"
    doc_usage = ""
    doc_description = "They hold nothing that a repository with the same layout would have to change."
    cmd_options = (
        {"name": "check", "long": "check", "type": bool, "default": False, "help": "fail where they are not current"},
    )

    def _execute(self, check: bool) -> int:  # noqa: FBT001 - doit passes it so
        def run(session: Session) -> str:
            root = session.workspace.root
            if check:
                workflows.check(root)
                return "the workflow files are current\n"
            return "".join(f"{path}: written\n" for path in workflows.write(root)) or "nothing to write\n"

        return self._answer(run)


def _caches(session: Session) -> list[cachekeys.Cache]:
    host = f"{platform.machine()}-{platform.system()}".lower()
    root, settings = session.workspace.root, session.workspace.settings
    commit = process.output(["git", "rev-parse", "HEAD"], env=environment.child(settings), cwd=root) or "none"
    return cachekeys.caches(root, settings, session.rows(), platform=host, commit=commit.strip())


def _sizes(session: Session) -> dict[str, str]:
    """The sizes of the artifacts that are there, by `<kernel>:<variant>`."""
    folders = {spec.name: session.workspace.artifact(spec) for spec in session.plan.specs}
    return {name: summary.size(folder) for name, folder in folders.items() if folder.is_dir()}


COMMANDS = (Matrix, Pack, Unpack, CacheKey, Summary, Ci)
