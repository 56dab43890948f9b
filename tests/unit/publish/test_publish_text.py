"""Cards, reports, names and foreign messages."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from buildlib.config.model import Kernel
from buildlib.errors import PublishError
from buildlib.publish import report
from buildlib.publish.asking import harmless
from buildlib.publish.card import describe, render_card
from buildlib.publish.destination import folder_of, problem_with_names, staged
from buildlib.publish.report import Opened, Row, Show, overall, readable, write_json
from tests.unit.factories import noarch, write_files


@pytest.fixture
def kernel(tmp_path: Path) -> Kernel:
    folder = tmp_path / "relu"
    write_files(
        folder,
        {
            "torch-ext/relu/__init__.py": "from . import layers\n__all__ = ['relu', 'layers']\n",
            "torch-ext/relu/layers.py": "class ReLU: ...\n",
        },
    )
    return noarch(folder=folder, upstream="https://example.org/up.git", license="Apache-2.0")


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("torch213-cxx11-cu130-x86_64-linux", ("torch 2.13", "CUDA 13.0", "x86_64-linux")),
        ("torch213-metal-aarch64-darwin", ("torch 2.13", "Metal", "aarch64-darwin")),
        ("torch-stable-abi211-cpu-aarch64-linux", ("torch 2.11 or newer", "CPU", "aarch64-linux")),
        ("tvm-ffi01-rocm72-x86_64-linux", ("tvm-ffi 0.1", "ROCm 7.2", "x86_64-linux")),
        ("torch212-cxx11-xpu20253-x86_64-linux", ("torch 2.12", "XPU 2025.3", "x86_64-linux")),
        ("torch-cuda", ("torch", "CUDA", "any")),
        ("torch-npu", ("torch", "CANN", "any")),
        ("torch-universal", ("torch", "any", "any")),
        ("strange", ("strange", "?", "any")),
    ],
)
def test_a_variant_in_words(name: str, told: tuple[str, str, str]) -> None:
    row = describe(name)
    assert (row.needs, row.device, row.platform) == told


def test_a_card_sees_upstreams_names_and_gets_a_table(kernel: Kernel) -> None:
    names = ["repo_id", "version", "functions", "layers", "has_benchmark", "upstream", "source", "license"]
    write_files(kernel.folder, {"CARD.md": "\n".join(f"{name}: {{{{ {name} }}}}" for name in names)})
    assert render_card(kernel, "org/relu", ["torch-cpu"]) == (
        "repo_id: org/relu\nversion: 1\nfunctions: ['relu']\nlayers: ['ReLU']\nhas_benchmark: False\n"
        "upstream: https://example.org/up.git\nsource: None\nlicense: apache-2.0\n\n"
        "## Variants\n\n| variant | needs | device | platform |\n| --- | --- | --- | --- |\n"
        "| `torch-cpu` | torch | CPU | any |\n"
    )


def test_a_card_may_place_the_variants_itself(kernel: Kernel) -> None:
    write_files(kernel.folder, {"CARD.md": "{% for v in variants %}{{ v.name }} {% endfor %}"})
    assert render_card(kernel, "org/relu", ["torch-cpu", "torch-cuda"]) == "torch-cpu torch-cuda\n"


def test_a_kernel_without_a_card_gets_one(kernel: Kernel) -> None:
    card = render_card(kernel, "org/relu", ["torch-cpu"])
    assert card.startswith("---\nlibrary_name: kernels\nlicense: apache-2.0\n---\n\n# relu\n\n```python\n")
    assert 'kernel = get_kernel("org/relu", version=1)\nkernel.relu\n```\n' in card
    for part in ("## Functions\n\n- `relu`\n", "## Layers\n\n- `ReLU`\n", "## Variants\n"):
        assert part in card
    assert "## Benchmark" not in card


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\n{{ x y }}", "CARD.md:2: expected token 'end of print statement', got 'y'; correct it"),
        ("{{ colour }}", "CARD.md: 'colour' is undefined; a card may use functions, "),
        ("{{ ''.__class__.__mro__ }}", "CARD.md: access to attribute '__class__' of 'str' object is unsafe"),
        ("a\n\n{{ version + 'a' }}", "CARD.md:3: TypeError: unsupported operand type(s) for +: 'int' and 'str'"),
        ("{{ 1 / 0 }}", "CARD.md:1: ZeroDivisionError: division by zero; correct it"),
        ("{% include 'x' %}", "CARD.md:1: TypeError: no loader for this environment specified; correct it"),
    ],
)
def test_a_wrong_card_is_named(kernel: Kernel, text: str, message: str) -> None:
    write_files(kernel.folder, {"CARD.md": text})
    with pytest.raises(PublishError) as raised:
        render_card(kernel, "org/relu", [])
    assert message in str(raised.value)


def test_a_card_that_is_no_text_is_named(kernel: Kernel) -> None:
    (kernel.folder / "CARD.md").write_bytes(b"\xff")
    with pytest.raises(PublishError, match=r"kernels/relu/CARD.md: cannot be read .*; save it as UTF-8"):
        render_card(kernel, "org/relu", [])


@pytest.mark.parametrize(
    ("said", "left"),
    [
        ("bad token hf_abcDEF123 here", "bad token hf_… here"),
        ("PUT https://s3.example/x?X-Amz-Signature=abc&y=1 failed", "PUT https://s3.example/x failed"),
        ("Authorization: secret\nAuthorization: Bearer abc.def", "Authorization: … Authorization: Bearer …"),
        ("two\n\n  lines", "two lines"),
    ],
)
def test_a_foreign_message_lets_nobody_in(said: str, left: str) -> None:
    assert harmless(said) == left


def test_where_to(tmp_path: Path) -> None:
    assert folder_of("hub", tmp_path) is None
    assert folder_of("file:dist/hub", tmp_path) == tmp_path / "dist" / "hub"
    assert folder_of("file:/srv/hub", tmp_path) == Path("/srv/hub")
    assert folder_of("file:~/hub", tmp_path) == Path("~/hub").expanduser()
    for wrong in (
        "", "file:", "Hub", "https://huggingface.co", "file:.", "file:kernels", "file:kernels/x", "file:a/../kernels/x",
    ):  # fmt: skip
        with pytest.raises(PublishError):
            folder_of(wrong, tmp_path)


def test_names() -> None:
    assert problem_with_names("org/relu", "v1") is None
    assert problem_with_names("or-g/re.lu", "feature/one") is None
    for repo_id, branch in (
        ("relu", "v1"),
        ("a/b/c", "v1"),
        ("../x", "v1"),
        ("o/r", "../v1"),
        ("o/r", "a..b"),
        ("o/r", ""),
    ):
        assert problem_with_names(repo_id, branch) is not None
    assert staged("org/relu", "try") == "try/relu"
    assert staged("org/relu", "try/my-") == "try/my-relu"


@pytest.mark.parametrize(
    ("statuses", "status"),
    [
        ([], "no_changes"),
        (["no_changes", "skipped"], "no_changes"),
        (["no_changes", "uploaded"], "uploaded"),
        (["uploaded", "refused"], "failed"),
        (["pull_request_created", "no_changes"], "pull_request_created"),
        (["planned"], "planned"),
    ],
)
def test_one_status_for_all(statuses: list[str], status: str) -> None:
    assert overall([Row(kernel=str(index), status=each) for index, each in enumerate(statuses)]) == status


def test_the_report_of_several_kernels(tmp_path: Path) -> None:
    opened = Opened(branch="v1", url="https://hub/pr/1")
    rows = [
        Row(kernel="a", status="pull_request_created", repo_id="o/a", branch="v1", pull_requests=(opened,)),
        Row(kernel="b", status="failed", message="b: is wrong"),
    ]
    write_json(tmp_path / "out.json", rows)
    told = json.loads((tmp_path / "out.json").read_text())
    assert (told["status"], told["repo_id"], told["pull_requests"]) == (
        "failed",
        None,
        [{"branch": "v1", "url": "https://hub/pr/1"}],
    )
    assert [row["kernel"] for row in told["kernels"]] == ["a", "b"]
    out = io.StringIO()
    Show(out).rows(rows)
    assert out.getvalue() == "pull_request_created a  https://hub/pr/1\nfailed               b: b: is wrong\n"


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 bytes"), (999, "999 bytes"), (1500, "1.5 kB"), (2_500_000, "2.5 MB"), (10**13, "10000.0 GB")],
)
def test_sizes(size: int, text: str) -> None:
    assert readable(size) == text


def test_short_waits_are_not_worth_a_line() -> None:
    out = io.StringIO()
    Show(out).wait(0.0, "why")
    assert out.getvalue() == ""
    assert report.NO_CHANGES == "no_changes"
