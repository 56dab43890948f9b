"""What a run came to, as Markdown for the page that CI shows of a job."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from buildlib.errors import SelectionError
from buildlib.files import listing, write
from buildlib.reporter import Entry

# The columns of the table: the stages whose tasks are `<stage>:<kernel>:<variant>`.
_STAGES = ("build", "check", "test")
_MARKS = {
    "done": "✓", "up to date": "✓ up to date", "failed": "**failed**", "not run": "not run", "not tested": "not tested",
}  # fmt: skip
# The states in which a task stands in the table; the reasons of what was skipped are counted below it.
_SHOWN = frozenset(_MARKS)
_KIB, _MIB = 1024, 1024 * 1024


def size(folder: Path) -> str:
    """The size of an artifact in words, `123.4 KiB`."""
    total = sum((folder / path).stat().st_size for path in listing(folder, hidden=True))
    return f"{total / _MIB:.1f} MiB" if total >= _MIB else f"{total / _KIB:.1f} KiB"


def save(entries: Iterable[Entry], record: Path) -> None:
    """Keep the outcome of a run for `read`."""
    write(record, msgspec.json.format(msgspec.json.encode(list(entries))) + b"\n")


def read(record: Path) -> list[Entry]:
    """The outcome of the last run.

    Raises:
        SelectionError: there was none.
    """
    try:
        return msgspec.json.decode(record.read_bytes(), type=list[Entry])
    except (OSError, msgspec.DecodeError):
        raise SelectionError("no run to sum up; run 'doit build', 'doit check' or 'doit test' first") from None


def markdown(entries: Sequence[Entry], sizes: Mapping[str, str]) -> str:
    """The outcome of a run; `sizes` are those of artifacts, by `<kernel>:<variant>`."""
    counts = Counter(entry.state for entry in entries)
    states = ("done", "up to date", "failed", "not run", "not tested", "skipped")
    said = ", ".join(f"{counts[state]} {state}" for state in states if counts[state])
    parts = [f"### Kernels\n\n{said or 'Nothing to do.'}\n"]
    if table := _table(entries, sizes):
        parts.append(table)
    skipped = Counter(entry.text for entry in entries if entry.state == "skipped")
    if skipped:
        lines = [f"| {count} | {_cell(reason)} |" for reason, count in sorted(skipped.items())]
        parts.append("| skipped | why |\n| ---: | --- |\n" + "\n".join(lines) + "\n")
    parts += [
        f"<details><summary>{html.escape(entry.task)}</summary>\n\n<pre>{html.escape(entry.text)}</pre>\n\n</details>\n"
        for entry in entries
        if entry.state == "failed"
    ]
    return "\n".join(parts)


def _table(entries: Iterable[Entry], sizes: Mapping[str, str]) -> str:
    rows: dict[str, dict[str, Entry]] = {}
    for entry in entries:
        stage, _, name = entry.task.partition(":")
        if entry.state in _SHOWN:
            rows.setdefault(name if stage in _STAGES else entry.task, {})[stage] = entry
    if not rows:
        return ""
    lines = [
        "| kernel | variant | build | check | test | size | seconds |",
        "| --- | --- | --- | --- | --- | ---: | ---: |",
    ]
    for name, stages in sorted(rows.items()):
        kernel, _, variant = name.partition(":")
        cells = [_outcome(stages.get(stage)) for stage in _STAGES]
        seconds = sum(entry.seconds for entry in stages.values())
        cells = [_cell(kernel), _cell(variant), *cells, sizes.get(name, ""), f"{seconds:.1f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _outcome(entry: Entry | None) -> str:
    if entry is None:
        return ""
    # What a test has to say is how many there were; a build says its size, which has a column.
    said = entry.text if entry.task.startswith("test:") and entry.state == "done" else ""
    return f"{_MARKS[entry.state]} {_cell(said)}".strip()


def _cell(text: str) -> str:
    """Text that can neither end a cell of a table nor start anything in it."""
    return "".join(f"\\{each}" if each in "\\`*_{}[]<>()#+!|~" else each for each in text.replace("\n", " "))
