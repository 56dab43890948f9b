"""What a run came to, in Markdown."""

from __future__ import annotations

from pathlib import Path

import pytest

from buildlib import summary
from buildlib.errors import SelectionError
from buildlib.reporter import Entry

from .factories import write_files

_RUN = [
    Entry("build:relu:torch-cpu", "up to date"),
    Entry("check:relu:torch-cpu", "done", "", 2.0),
    Entry("test:relu:torch-cpu", "done", "12 passed", 3.06),
    Entry("build:gelu:torch-cpu", "failed", "kernels/gelu: <no> | `x`\nsecond line", 1.0),
    Entry("test:gelu:torch-cpu", "not run", "build:gelu:torch-cpu failed"),
    Entry("build:relu:torch-cuda", "skipped", "no toolchain"),
    Entry("build:gelu:torch-cuda", "skipped", "no toolchain"),
    Entry("test:unit", "done", "900 passed", 8.0),
]


def test_a_run() -> None:
    assert summary.markdown(_RUN, {"relu:torch-cpu": "1.5 KiB"}) == (
        "### Kernels\n\n3 done, 1 up to date, 1 failed, 1 not run, 2 skipped\n"
        "\n"
        "| kernel | variant | build | check | test | size | seconds |\n"
        "| --- | --- | --- | --- | --- | ---: | ---: |\n"
        "| gelu | torch-cpu | **failed** |  | not run |  | 1.0 |\n"
        "| relu | torch-cpu | ✓ up to date | ✓ | ✓ 12 passed | 1.5 KiB | 5.1 |\n"
        "| unit |  |  |  | ✓ 900 passed |  | 8.0 |\n"
        "\n"
        "| skipped | why |\n| ---: | --- |\n| 2 | no toolchain |\n"
        "\n"
        "<details><summary>build:gelu:torch-cpu</summary>\n\n"
        "<pre>kernels/gelu: &lt;no&gt; | `x`\nsecond line</pre>\n\n</details>\n"
    )


def test_a_run_of_nothing() -> None:
    assert summary.markdown([], {}) == "### Kernels\n\nNothing to do.\n"


def test_no_name_can_break_the_table() -> None:
    text = summary.markdown([Entry("build:a|b<i>:[x](y)\n|", "done")], {})
    row = text.splitlines()[-1]
    assert row.startswith("| a\\|b\\<i\\> | \\[x\\]\\(y\\) \\| |")


def test_a_run_is_kept_and_read_back(tmp_path: Path) -> None:
    summary.save(_RUN, tmp_path / "run.json")
    assert summary.read(tmp_path / "run.json") == _RUN


@pytest.mark.parametrize("content", [None, b"", b"{}"])
def test_without_a_run_there_is_nothing_to_sum_up(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "run.json").write_bytes(content)
    with pytest.raises(SelectionError, match="no run to sum up"):
        summary.read(tmp_path / "run.json")


@pytest.mark.parametrize(("count", "words"), [(0, "0.0 KiB"), (1536, "1.5 KiB"), (3 << 20, "3.0 MiB")])
def test_sizes(tmp_path: Path, count: int, words: str) -> None:
    write_files(tmp_path, {"a/b": b"x" * (count // 2), ".c": b"x" * (count - count // 2)})
    assert summary.size(tmp_path) == words
