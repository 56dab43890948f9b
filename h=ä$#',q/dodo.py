"""The task graph. `doit list` shows it; README.md explains it; the stages are the modules of buildlib."""

from collections.abc import Iterator
from pathlib import Path

from buildlib.tasks import Session, TaskDict

SESSION = Session.open(Path(__file__).resolve().parent)
DOIT_CONFIG = SESSION.doit_config


def task_build() -> Iterator[TaskDict]:
    yield {"name": None, "doc": "Build what changed: build, build:KERNEL, build:KERNEL:VARIANT or a wildcard"}
    yield from SESSION.build_tasks()


def task_check() -> Iterator[TaskDict]:
    yield {
        "name": None,
        "doc": "Build, then check each artifact, a real load included: check[:KERNEL[:VARIANT]]",
    }
    yield from SESSION.check_tasks()


def task_test() -> Iterator[TaskDict]:
    yield {"name": None, "doc": "Build, then run the builder's and the kernels' tests: test[:KERNEL[:VARIANT]]"}
    yield from SESSION.test_tasks()


def task_lint() -> Iterator[TaskDict]:
    yield {"name": None, "doc": "Lint the Python and the Rust, and see that the CI workflows are current"}
    yield from SESSION.lint_tasks()


def task_toolchains() -> Iterator[TaskDict]:
    yield from SESSION.toolchain_tasks()


def task_migrate() -> Iterator[TaskDict]:
    yield {"name": None, "doc": "Rewrite a build.toml in the newest edition, or in another: migrate:KERNEL [--to 5]"}
    yield from SESSION.migrate_tasks()


def task_schema() -> TaskDict:
    return SESSION.schema_task()


def task_dist() -> TaskDict:
    return SESSION.dist_task()


def task_lock() -> TaskDict:
    return SESSION.lock_task()
