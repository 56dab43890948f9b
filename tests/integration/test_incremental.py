"""What decides is content: each rule of the design about up-to-dateness, with a test that fails when it is broken."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.conftest import Yard

VALUE = "value/value.cpp"


@pytest.fixture
def built(yard: Yard) -> Yard:
    """A checkout with the `answer` kernel, built: it answers 111."""
    yard.add("answer")
    assert yard.doit("build").status == 0
    return yard


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def compiled(yard: Yard, before: dict[str, int], kernel: str = "answer") -> set[str]:
    """The objects that were made anew since `before`."""
    after = yard.objects(kernel)
    return {name for name, time in after.items() if before.get(name) != time}


def snapshot(folder: Path) -> dict[str, tuple[int, int]]:
    """Every file below a folder, with its size and time."""
    return {
        str(path.relative_to(folder)): (path.stat().st_size, path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_second_build_does_nothing(built: Yard) -> None:
    before = snapshot(built.root / "build" / "kernels"), snapshot(built.root / "build" / "logs")
    result = built.doit("build")
    assert (result.status, result.ran()) == (0, [])
    assert (snapshot(built.root / "build" / "kernels"), snapshot(built.root / "build" / "logs")) == before


def test_a_new_time_alone_rebuilds_nothing(built: Yard) -> None:
    for path in (built.root / "kernels").rglob("*"):
        os.utime(path)
    assert built.doit("build").ran() == []


@pytest.mark.parametrize("when", ["now", "2001", "as before"])
def test_an_edit_is_built_whatever_its_time(built: Yard, when: str) -> None:
    path = built.root / "kernels" / "answer" / VALUE
    stat = path.stat()
    edit(path, "1 + NEAR", "2 + NEAR")
    if when != "now":
        time = stat.st_mtime_ns if when == "as before" else 978_307_200_000_000_000
        os.utime(path, ns=(time, time))
    assert built.doit("build").status == 0
    assert built.answer() == 112


@pytest.mark.parametrize("when", ["now", "2001"])
@pytest.mark.parametrize(
    ("header", "old", "new"),
    [("value/near.h", "NEAR 10", "NEAR 20"), ("include/deep/far.h", "FAR 100", "FAR 110")],
)
def test_an_edited_header_compiles_its_users_only(built: Yard, header: str, old: str, new: str, when: str) -> None:
    before = built.objects("answer")
    path = built.root / "kernels" / "answer" / header
    edit(path, old, new)
    if when == "2001":
        os.utime(path, (978_307_200, 978_307_200))
    assert built.doit("build").status == 0
    assert compiled(built, before) == {"src/value/value.cpp.o"}
    assert built.answer() == 121


def test_one_edited_source_compiles_one_object(built: Yard) -> None:
    before = built.objects("answer")
    edit(built.root / "kernels" / "answer" / VALUE, "1 + NEAR", "2 + NEAR")
    built.doit("build")
    assert compiled(built, before) == {"src/value/value.cpp.o"}


def test_a_shadowing_header_is_noticed(built: Yard) -> None:
    # `#include "deep/far.h"` is looked for beside the source first: a new file there takes the old one's place.
    shadow = built.root / "kernels" / "answer" / "value" / "deep" / "far.h"
    shadow.parent.mkdir()
    shadow.write_text("#define FAR 200\n")
    assert built.doit("build").status == 0
    assert built.answer() == 211


def test_a_removed_header_fails_the_build(built: Yard) -> None:
    (built.root / "kernels" / "answer" / "value" / "near.h").unlink()
    result = built.doit("build")
    assert result.status == 1
    assert "near.h: No such file" in result.out


def test_data_is_packaged_again_without_compiling(built: Yard) -> None:
    before = built.objects("answer")
    data = built.root / "kernels" / "answer" / "tvm-ffi-ext" / "answer" / "data.json"
    data.write_text('{"unit": "new"}')
    assert built.doit("build").status == 0
    assert compiled(built, before) == set()
    assert (built.artifact("answer") / "data.json").read_text() == '{"unit": "new"}'


def test_a_dropped_file_leaves_the_artifact(built: Yard) -> None:
    package = built.root / "kernels" / "answer" / "tvm-ffi-ext" / "answer"
    (package / "extra.py").write_text("")
    built.doit("build")
    assert (built.artifact("answer") / "extra.py").exists()
    (package / "extra.py").unlink()
    built.doit("build")
    assert not (built.artifact("answer") / "extra.py").exists()


def test_documentation_and_tests_rebuild_nothing(built: Yard) -> None:
    folder = built.root / "kernels" / "answer"
    (folder / "README.md").write_text("words")
    edit(folder / "tests" / "test_answer.py", "111", "112")
    assert built.doit("build").ran() == []


def test_flags_in_build_toml_count(built: Yard) -> None:
    before = built.objects("answer")
    edit(built.root / "kernels" / "answer" / "build.toml", "-DFLAG=0", "-DFLAG=5")
    assert built.doit("build").status == 0
    assert compiled(built, before) == {"src/value/value.cpp.o"}
    assert built.answer() == 116


def test_a_comment_in_build_toml_does_not_count(built: Yard) -> None:
    edit(built.root / "kernels" / "answer" / "build.toml", "[general]\n", "# A comment.\n[general]\n")
    assert built.doit("build").ran() == []


def test_only_the_edited_kernel_is_built(built: Yard) -> None:
    built.add("answer", "other", rename=lambda text: text.replace("kernelyard-test/answer", "kernelyard-test/other"))
    assert built.doit("build").ran() == ["build:other:tvm-ffi01-cpu-x86_64-linux"]
    edit(built.root / "kernels" / "answer" / VALUE, "1 + NEAR", "2 + NEAR")
    assert built.doit("build").ran() == ["build:answer:tvm-ffi01-cpu-x86_64-linux"]


def _wrapper(folder: Path, body: str) -> str:
    """A compiler that runs `body` first; `$object` is what it was asked to make, if it was asked for an object."""
    path = folder / "c++"
    path.write_text(
        textwrap.dedent(
            """\
            #!/bin/sh
            object= previous=
            for argument in "$@"; do
              [ "$previous" = -o ] && case "$argument" in *.o) object=$argument ;; esac
              previous=$argument
            done
            """
        )
        + body
        + '\nexec c++ "$@"\n'
    )
    path.chmod(0o755)
    return str(path)


def test_an_edit_during_the_compile_is_built_by_the_next_run(yard: Yard, tmp_path: Path) -> None:
    source = yard.add("answer") / VALUE
    compiler = _wrapper(tmp_path, f'case "$object" in *value.cpp.o) sed -i "s/1 + NEAR/2 + NEAR/" "{source}" ;; esac')
    assert yard.doit("build", CXX=compiler).status == 0
    assert "2 + NEAR" in source.read_text()
    # The artifact is of the text that was hashed, and says so.
    assert yard.answer() == 111
    assert yard.doit("build", CXX=compiler).ran() == ["build:answer:tvm-ffi01-cpu-x86_64-linux"]
    assert yard.answer() == 112


def test_another_compiler_version_rebuilds_and_another_path_does_not(built: Yard, tmp_path: Path) -> None:
    same = _wrapper(tmp_path, "")
    assert built.doit("build", CXX=same).ran() == []
    (tmp_path / "newer").mkdir()
    newer = _wrapper(tmp_path / "newer", 'case "$*" in *-dM*) echo "#define __GNUC__ 99"; exit ;; esac')
    assert len(built.doit("build", CXX=newer).ran()) == 1
    assert "gcc 99.0.0" in built.metadata("answer")["kernelyard"]["toolchain"][0]


@pytest.mark.parametrize("variable", ["CXXFLAGS", "CPATH", "CPLUS_INCLUDE_PATH"])
def test_the_shell_does_not_leak_into_the_build(yard: Yard, tmp_path: Path, variable: str) -> None:
    source = yard.add("answer") / VALUE
    (tmp_path / "leaked.h").write_text("#define LEAKED\n")
    source.write_text(f"#if __has_include(<leaked.h>)\n#define LEAKED\n#endif\n{source.read_text()}")
    edit(source, "int value() {", "int value() {\n#ifdef LEAKED\n  return -1;\n#endif\n")
    value = "-DLEAKED" if variable == "CXXFLAGS" else str(tmp_path)
    assert yard.doit("build", **{variable: value}).status == 0
    assert yard.answer() == 111
    assert yard.doit("build").ran() == []


def test_lost_databases_cost_a_check_and_no_build(built: Yard) -> None:
    before = snapshot(built.root / "build" / "kernels")
    for name in ("doit.sqlite3", "files.msgpack"):
        (built.root / "build" / name).unlink()
    shutil.rmtree(built.root / "build" / "work")
    assert built.doit("build").ran() == []
    assert snapshot(built.root / "build" / "kernels") == before


@pytest.mark.parametrize("harm", ["truncate", "alter", "remove", "add", "metadata"])
def test_a_damaged_artifact_is_built_again(built: Yard, harm: str) -> None:
    folder = built.artifact("answer")
    library = next(folder.glob("*.so"))
    content = library.read_bytes()
    match harm:
        case "truncate":
            library.write_bytes(content[:-100])
        case "alter":
            stat = library.stat()
            library.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
            os.utime(library, ns=(stat.st_mtime_ns, stat.st_mtime_ns))
        case "remove":
            library.unlink()
        case "add":
            (folder / "notes.txt").write_text("stray")
        case "metadata":
            (folder / "metadata.json").write_text("{")
    assert len(built.doit("build").ran()) == 1
    assert next(folder.glob("*.so")).read_bytes() == content
    assert not (folder / "notes.txt").exists()
    assert built.doit("build").ran() == []


def test_bytecode_in_an_artifact_is_no_damage(built: Yard) -> None:
    cache = built.artifact("answer") / "__pycache__"
    cache.mkdir()
    (cache / "__init__.cpython-311.pyc").write_bytes(b"x")
    assert built.doit("build").ran() == []


def test_the_same_input_gives_the_same_bytes(make_yard: Callable[[str], Yard]) -> None:
    contents = []
    for name, seed in (("one", "0"), ("a longer path to the other", "1")):
        yard = make_yard(name)
        yard.add("answer")
        assert yard.doit("build", PYTHONHASHSEED=seed).status == 0
        folder = yard.artifact("answer")
        rendered = yard.root / "build" / "work" / "answer" / folder.name / "CMakeLists.txt"
        files = [path for path in folder.rglob("*") if path.is_file()]
        contents.append({path.name: path.read_bytes() for path in (*files, rendered)})
        assert str(yard.root).encode() not in b"".join(contents[-1].values())
    assert contents[0] == contents[1]


def test_adding_a_kernel_leaves_the_others_files_alone(built: Yard) -> None:
    work = built.root / "build" / "work" / "answer"
    before = snapshot(work)
    built.add("answer", "another", rename=lambda text: text.replace("kernelyard-test/answer", "kernelyard-test/z"))
    assert built.doit("build").status == 0
    assert snapshot(work) == before


def test_a_failed_build_is_not_taken_for_done(built: Yard) -> None:
    path = built.root / "kernels" / "answer" / VALUE
    edit(path, "return", "retrun")
    for _ in range(2):
        result = built.doit("build")
        assert result.status == 1
        assert result.out.count("was not declared in this scope") == 1
    edit(path, "retrun", "return")
    assert built.doit("build").status == 0
    assert built.answer() == 111


def test_clean_removes_what_was_built_of_one_kernel(built: Yard) -> None:
    built.add("answer", "other", rename=lambda text: text.replace("kernelyard-test/answer", "kernelyard-test/other"))
    built.doit("build")
    assert built.doit("clean", "other").status == 0
    left = {path.parts[path.parts.index("build") + 2] for path in (built.root / "build").glob("*/*/*/*")}
    assert left == {"answer"}
    assert built.doit("build").ran() == ["build:other:tvm-ffi01-cpu-x86_64-linux"]


def _git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=Nobody", "-c", "user.email=nobody@example.org"]
    done = subprocess.run(["git", *identity, *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_provenance_is_of_the_kernels_folder_only(yard: Yard) -> None:
    folder = yard.add("answer")
    _git(yard.root, "init", "-q")
    (yard.root / ".gitignore").write_text("build\n")
    _git(yard.root, "add", ".")
    _git(yard.root, "commit", "-qm", "one")
    commit = _git(yard.root, "rev-parse", "HEAD")
    assert yard.doit("build").status == 0
    assert yard.metadata("answer")["provenance"]["kernel"] == {"commit": commit, "dirty": False}
    # A commit, and dirt, elsewhere: nothing is built, and the id stays.
    (yard.root / "elsewhere").write_text("x")
    _git(yard.root, "add", ".")
    _git(yard.root, "commit", "-qm", "two")
    (yard.root / "elsewhere").write_text("y")
    assert yard.doit("build").ran() == []
    # Dirt in the folder is recorded, and goes once it is committed, without a new id.
    edit(folder / VALUE, "1 + NEAR", "2 + NEAR")
    yard.doit("build")
    dirty = yard.metadata("answer")
    assert dirty["provenance"]["kernel"] == {"commit": commit, "dirty": True}
    _git(yard.root, "commit", "-qam", "three")
    yard.doit("build")
    clean = yard.metadata("answer")
    assert clean["provenance"]["kernel"] == {"commit": _git(yard.root, "rev-parse", "HEAD"), "dirty": False}
    assert clean["id"] == dirty["id"]
    assert yard.doit("build").ran() == []


def test_two_contents_of_one_kernel_live_in_one_process(built: Yard, tmp_path: Path) -> None:
    old = tmp_path / "old" / built.artifact("answer").name
    shutil.copytree(built.artifact("answer"), old)
    edit(built.root / "kernels" / "answer" / VALUE, "1 + NEAR", "2 + NEAR")
    built.doit("build")
    new = built.artifact("answer")
    code = (
        "from pathlib import Path; from kernels import get_local_kernel; import json; "
        f"print(json.dumps([get_local_kernel(Path(p)).answer() for p in {[str(old), str(new), str(old)]!r}]))"
    )
    assert json.loads(built.call(code)) == [111, 112, 111]


def test_nothing_is_written_into_the_sources(yard: Yard) -> None:
    folder = yard.add("answer")
    before = snapshot(folder)
    assert yard.doit("check", "test:answer").status == 0
    assert snapshot(folder) == before
