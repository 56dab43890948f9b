"""The workflow files: what they may do, and that they hold no knowledge that doit has."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from buildlib import environment, workflows
from buildlib.errors import ConfigError, SelectionError

_ROOT = Path(__file__).parents[2]
_FILES = workflows.files(_ROOT)
_GITHUB = {path: yaml.safe_load(text) for path, text in _FILES.items() if path.startswith(".github")}
_GITLAB = yaml.safe_load(_FILES[".gitlab-ci.yml"])


def _jobs() -> Iterator[tuple[str, dict[str, Any]]]:
    for path, workflow in _GITHUB.items():
        for name, job in workflow["jobs"].items():
            yield f"{Path(path).stem}/{name}", job


def _steps() -> Iterator[tuple[str, dict[str, Any]]]:
    for name, job in _jobs():
        for step in job["steps"]:
            yield name, step


def test_the_files_of_this_repository_are_current() -> None:
    workflows.check(_ROOT)


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / ".gitlab-ci.yml").mkdir()
    with pytest.raises(SelectionError, match=r"^\.gitlab-ci\.yml: cannot be written \(Is a directory\); name another"):
        workflows.write(tmp_path)


def test_a_stale_or_missing_file_is_named(tmp_path: Path) -> None:
    assert sorted(workflows.write(tmp_path)) == sorted(workflows.files(tmp_path))
    workflows.check(tmp_path)
    assert workflows.write(tmp_path) == []
    (tmp_path / ".gitlab-ci.yml").write_text("edited")
    (tmp_path / ".github/workflows/main.yml").unlink()
    with pytest.raises(
        ConfigError, match=r"^\.github/workflows/main\.yml, \.gitlab-ci\.yml: not what 'doit ci' writes"
    ):
        workflows.check(tmp_path)


def test_another_repository_neither_releases_the_builder_nor_runs_its_tests(tmp_path: Path) -> None:
    written = workflows.files(tmp_path)
    assert ".github/workflows/release.yml" not in written
    assert not any("test:unit" in text or "kernelyard" in text for text in written.values())
    assert all(yaml.safe_load(text) for text in written.values())


def test_every_command_is_one_doit_call() -> None:
    commands = [step["run"] for _, step in _steps() if "run" in step]
    commands += [line for job in _GITLAB.values() if isinstance(job, dict) for line in job.get("script", [])]
    assert commands
    for command in commands:
        assert re.fullmatch(
            r'\./ci/doit [^;&|`$\n]*("\$\w+"|"[\w/-]+\$\w+\.tar"|[^;&|`$\n])*( >> "\$GITHUB_\w+")?', command
        )


def test_no_expression_is_spelled_into_a_command() -> None:
    assert not any("${{" in step.get("run", "") for _, step in _steps())


def test_actions_are_pinned_by_commit() -> None:
    used = re.findall(r"uses: (\S+)( # v[\d.]+)?", "".join(_FILES.values()))
    assert used
    assert all(re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", action) and release for action, release in used)


def test_permissions_are_the_least() -> None:
    assert all(workflow["permissions"] == {} for workflow in _GITHUB.values())
    assert {name: job["permissions"] for name, job in _jobs() if job["permissions"] != {"contents": "read"}} == {
        "main/publish": {"contents": "read", "id-token": "write"},
        "release/publish": {"id-token": "write"},
    }


def test_secrets_reach_only_the_step_that_publishes_from_a_protected_environment() -> None:
    with_secrets = [(name, step) for name, step in _steps() if "secrets." in str(step)]
    assert [(name, step["env"]) for name, step in with_secrets] == [
        ("main/publish", {"HF_TOKEN": "${{ secrets.HF_TOKEN }}"})
    ]
    jobs = dict(_jobs())
    assert (jobs["main/publish"]["environment"], jobs["release/publish"]["environment"]) == ("publish", "release")
    assert sum(text.count("secrets.") for text in _FILES.values()) == 1


def test_a_pull_request_of_a_fork_gets_neither_secrets_nor_a_machine_of_ours() -> None:
    # PyYAML reads the key `on` as true.
    assert set(_GITHUB[".github/workflows/pull-request.yml"][True]) == {"pull_request", "merge_group"}
    assert not any("pull_request_target" in text for text in _FILES.values())
    assert "head.repo.full_name == github.repository" in dict(_jobs())["pull-request/test-gpu"]["if"]


def test_the_token_of_the_checkout_is_not_kept() -> None:
    checkouts = [step for _, step in _steps() if step.get("uses", "").startswith("actions/checkout@")]
    assert checkouts
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)


def test_no_token_reaches_what_doit_starts() -> None:
    tokens = {"HF_TOKEN": "hf_x", "GITHUB_TOKEN": "x", "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "x", "CI_JOB_TOKEN": "x"}
    settings = environment.read({**tokens, "HOME": "/home/me", "PATH": "/bin"})
    assert not tokens.keys() & environment.child(settings).keys()


def test_without_rows_later_jobs_are_skipped() -> None:
    jobs = dict(_jobs())
    for workflow in ("pull-request", "main", "nightly"):
        assert jobs[f"{workflow}/build"]["if"] == "needs.plan.outputs.rows != '0'"
        assert "build" in jobs[f"{workflow}/test-gpu"]["needs"]
    assert "needs.build.result == 'success'" in jobs["main/publish"]["if"]


def test_two_runs_never_publish_at_once_and_none_is_cut_off() -> None:
    assert _GITHUB[".github/workflows/main.yml"]["concurrency"] == {"group": "publish", "cancel-in-progress": False}
    assert (_GITLAB["publish"]["resource_group"], _GITLAB["publish"]["interruptible"]) == ("publish", False)


def test_nightly_publishes_nothing() -> None:
    assert "publish" not in _GITHUB[".github/workflows/nightly.yml"]["jobs"]
    assert any("schedule" in rule["if"] for rule in _GITLAB["publish"]["rules"])
