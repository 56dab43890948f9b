"""The commands of doit that work on finished artifacts: publish, sign and verify."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from doit.exceptions import InvalidCommand

from buildlib import plan as planning
from buildlib.commands import Run, session_of
from buildlib.commands_base import Command
from buildlib.errors import PublishError, SelectionError
from buildlib.files import named_by_user
from buildlib.plan import BuildSpec, Failed, Plan, Skipped
from buildlib.rows import Row as MatrixRow
from buildlib.selection import select
from buildlib.tasks import Session

if TYPE_CHECKING:
    from buildlib.publish import report

_PUBLISH_OPTIONS = ("to", "dry-run", "create-pr", "allow-dirty", "private", "repo-prefix", "output-json")


def _option(name: str, kind: type, default: object, help_text: str) -> dict[str, object]:
    """An option of a command, as doit wants it described."""
    return {"name": name, "long": name, "type": kind, "default": default, "help": help_text}


class _OfArtifacts(Run):
    """A command that builds and checks what it is told, and then does something with the artifacts."""

    doc_usage = "[KERNEL | KERNEL:VARIANT | wildcard ...]"

    def execute(self, params: dict[str, Any], args: list[str]) -> int:
        """Keep the options that doit's own `run` does not know."""
        self._given = params
        return int(super().execute(params, args))

    def _select(self, session: Session, rows: list[MatrixRow] | None) -> bool:
        words = [] if self.sel_default_tasks else self.sel_tasks
        chosen = _choose(session.plan, [word.removeprefix(f"{self.get_name()}:") for word in words])
        self._chosen = chosen if rows is None else _only(chosen, {row.name for row in rows})
        self.sel_tasks = []
        # With no row there is an outcome to write nevertheless.
        return True

    def _check(self, specs: Iterable[BuildSpec], run: Callable[[], int]) -> int:
        """Build and check, through doit; the exit status."""
        self.sel_tasks = [f"check:{spec.name}" for spec in specs]
        return min(1, int(run())) if self.sel_tasks else 0


class Publish(_OfArtifacts):
    """`doit publish`: build, check, and bring a destination exactly what it lacks."""

    name = "publish"
    doc_purpose = "Build, check, and publish what changed to the Hub or a folder: [KERNEL[:VARIANT] ...]"
    doc_description = (
        "What changed is decided by the digests at the destination alone; where nothing did, nothing is written."
    )
    cmd_options = (
        *Run.cmd_options,
        _option("to", str, "file:dist/hub", "destination: hub, or file:FOLDER"),
        _option("dry-run", bool, default=False, help_text="show what would be published, and write nothing"),
        _option("create-pr", bool, default=False, help_text="open a pull request for each branch"),
        _option("allow-dirty", bool, default=False, help_text="publish uncommitted sources; the commit will say so"),
        _option("private", bool, default=False, help_text="make new repositories private"),
        _option("repo-prefix", str, "", "publish to ORG/name, or to ORG/PREFIXname, in place of the repo-id's owner"),
        _option("output-json", str, "", "write the outcome for each kernel to this file"),
    )

    def _work(self, session: Session, run: Callable[[], int]) -> int:
        # Imported here because only this command needs them.
        from buildlib.publish import Options, stage  # noqa: PLC0415
        from buildlib.publish.report import FAILED, SKIPPED, Show  # noqa: PLC0415

        names = {name.replace("-", "_"): name for name in _PUBLISH_OPTIONS}
        options = Options(**{field: self._given[name] for field, name in names.items()})
        show = Show(self.outstream)
        working: stage.Stage | None = None
        unknown = "publishing was cut short; run it again, which finishes it"
        # Whatever ends this run, even SIGKILL, must not leave the report of an earlier one.
        self._report([], unknown)
        try:
            where = stage.destination(options, session.workspace.root, show, bars=self.outstream.isatty())
            working = stage.Stage(where, options, session.workspace, show)
            for failed in self._chosen.failed:
                working.refuse(failed.kernel, failed.message, FAILED)
            kernels = {kernel.key: kernel for kernel in session.kernels}
            specs = stage.by_kernel(self._chosen.specs)
            for kernel in {skipped.kernel for skipped in self._chosen.skipped} - specs.keys():
                working.refuse(kernel, "no variant of it is built on this machine", SKIPPED)
            jobs = working.prepare([(kernels[key], found) for key, found in specs.items()])
            self._check([spec for job in jobs for spec in job.specs], run)
            working.carry_out(jobs)
        except PublishError as error:
            unknown = str(error)
            raise
        finally:
            self._report(working.rows if working else [], unknown)
        show.rows(working.rows)
        return 1 if any(row.is_failure for row in working.rows) else 0

    def _report(self, known: Sequence[report.Row], unknown: str) -> None:
        """Write the outcome where it is asked for; of the kernels that have none yet, say why."""
        from buildlib.publish.report import FAILED, Row, write_json  # noqa: PLC0415 - as above

        if path := self._given["output-json"]:
            chosen = {planning.name(entry).partition(":")[0] for entry in self._chosen.entries}
            left = chosen - {row.kernel for row in known}
            rows: list[report.Row] = [*known, *(Row(kernel=each, status=FAILED, message=unknown) for each in left)]
            with named_by_user(f"--output-json {path}"):
                write_json(Path(path), sorted(rows, key=lambda row: row.kernel))


class Sign(_OfArtifacts):
    """`doit sign`: metadata.json.sigstore beside the metadata.json of each artifact."""

    name = "sign"
    doc_purpose = "Build, check, and sign artifacts where there is an identity to sign with: [KERNEL[:VARIANT] ...]"
    doc_description = (
        "The identity is the one that a CI job has by OIDC. Without one nothing is signed, and it is said."
    )

    def _work(self, session: Session, run: Callable[[], int]) -> int:
        from buildlib.publish import sign  # noqa: PLC0415 - as above

        status = self._check(self._chosen.specs, run)
        for line in sign.sign_all(self._chosen.specs, session.workspace):
            self.outstream.write(f"{line}\n")
        return status


class Verify(Command):
    """`doit verify`: whether artifacts are what their metadata.json says, and who signed it."""

    name = "verify"
    doc_purpose = "Compare artifacts with their digests, and check signatures: [KERNEL[:VARIANT] | FOLDER ...]"
    doc_usage = "[KERNEL | KERNEL:VARIANT | wildcard | FOLDER ...]"
    doc_description = "Builds nothing and needs no network. A folder may be any that holds artifacts, such as dist/hub."
    cmd_options = (
        _option("identity", str, "", "the signer that signatures must be of, such as the address of a CI workflow"),
        _option("issuer", str, "https://token.actions.githubusercontent.com", "who vouches for the signer"),
    )

    def _execute(self, pos_args: list[str], identity: str, issuer: str) -> int:
        from buildlib.publish import sign  # noqa: PLC0415 - as above

        session = session_of(self)
        self.dep_manager.close()
        folders = [word for word in pos_args if Path(word).is_dir()]
        words = [word for word in pos_args if word not in folders]
        try:
            chosen = _choose(session.plan, words) if words or not folders else None
        except SelectionError as error:
            raise InvalidCommand(str(error)) from None
        built = [session.workspace.artifact(spec) for spec in chosen.specs] if chosen else []
        found = sign.verify_all(built, [Path(folder) for folder in folders], session.workspace, identity, issuer)
        for verdict in found:
            self.outstream.write(f"{verdict.line}\n")
        return 0 if all(verdict.good for verdict in found) else 1


def _choose(part: Plan, patterns: Sequence[str]) -> Plan:
    """The part of the plan that the patterns select; all of it where there is none.

    Raises:
        SelectionError: a pattern selects nothing.
    """
    entries = {planning.name(entry): entry for entry in part.entries}
    kernels = {name.partition(":")[0] for name in entries}
    chosen = set(select(patterns, sorted(kernels | entries.keys()))) if patterns else kernels
    found = [entry for name, entry in entries.items() if name in chosen or name.partition(":")[0] in chosen]
    return Plan(
        specs=tuple(entry for entry in found if isinstance(entry, BuildSpec)),
        skipped=tuple(entry for entry in found if isinstance(entry, Skipped)),
        failed=tuple(entry for entry in found if isinstance(entry, Failed)),
    )


def _only(part: Plan, names: Collection[str]) -> Plan:
    """Of a part of the plan, what has these names; why something else is skipped does not matter then."""
    return Plan(
        specs=tuple(entry for entry in part.specs if entry.name in names),
        skipped=(),
        failed=tuple(entry for entry in part.failed if planning.name(entry) in names),
    )


OF_ARTIFACTS = (Publish, Sign)
COMMANDS = (Publish, Sign, Verify)
