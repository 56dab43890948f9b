"""Torch extensions: what is compiled when, and that it works."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from tests.integration.conftest import Yard

_STABLE = "torch-stable-abi211-cpu-x86_64-linux"


def test_full_abi_kernel(yard: Yard) -> None:
    yard.add("full-abi")
    result = yard.doit("check:full-abi", "test:full-abi")
    assert result.status == 0, result.out
    assert re.search(r"ok +test:full-abi:torch213-cxx11-cpu-x86_64-linux .* 2 passed", result.out)
    # Only what every flavour of torch has is linked, and nothing says where it was found.
    library = next(yard.artifact("full-abi").glob("*.abi3.so"))
    assert _dynamic(library, "NEEDED") <= {
        "libtorch_cpu.so", "libc10.so", "libstdc++.so.6", "libgcc_s.so.1", "libc.so.6", "libm.so.6", "libgomp.so.1"
    }  # fmt: skip
    assert _dynamic(library, "RPATH") == _dynamic(library, "RUNPATH") == set()
    # A new content is a new name, and yet neither the binding nor the other component is compiled again.
    before = yard.objects("full-abi")
    source = yard.root / "kernels" / "full-abi" / "plain" / "ops.cpp"
    source.write_text(source.read_text().replace("x * SCALE", "SCALE * x"))
    first = yard.metadata("full-abi")["id"]
    assert yard.doit("build").status == 0
    changed = {name for name, time in yard.objects("full-abi").items() if before[name] != time}
    assert changed == {"gen/extension.cpp.o", "src/plain/ops.cpp.o"}
    assert yard.metadata("full-abi")["id"] != first
    # The new name reached the registrations that were not compiled again.
    assert yard.doit("test:full-abi").status == 0


def test_a_source_that_spells_the_name_follows_it(yard: Yard) -> None:
    yard.add("stable")
    assert yard.doit("build").status == 0
    before = yard.objects("stable")
    source = yard.root / "kernels" / "stable" / "component" / "component.cpp"
    source.write_text("int component() { return 2; }\n")
    assert yard.doit("build").status == 0
    changed = {name for name, time in yard.objects("stable").items() if before[name] != time}
    assert changed == {"gen/extension.cpp.o", "src/component/component.cpp.o", "src/torch-ext/spells.cpp.o"}
    library = next(yard.artifact("stable").glob("*.abi3.so"))
    assert yard.metadata("stable")["id"].encode() in library.read_bytes()
    assert b"kernelyard_op_namespace" not in library.read_bytes().replace(b"kernelyard_op_namespace\0", b"", 1)
    assert yard.doit("check").status == 0


def test_only_the_init_function_is_exported(yard: Yard) -> None:
    yard.add("stable")
    yard.doit("build")
    library = next(yard.artifact("stable").glob("*.abi3.so"))
    assert _exported(library) == {f"PyInit_{yard.metadata('stable')['id']}"}


def test_compile_commands_name_the_authors_files(yard: Yard) -> None:
    folder = yard.add("stable")
    yard.doit("build")
    commands = json.loads((yard.root / "build" / "compile_commands.json").read_text())
    files = {command["file"] for command in commands}
    assert {str(folder / "component/component.cpp"), str(folder / "torch-ext/binding.cpp")} <= files
    assert all(Path(file).exists() for file in files)


def test_400_sources(yard: Yard) -> None:
    folder = yard.add("answer")
    # Long names: together they are far over what one argument of a program may hold.
    names = [f"value/{'generated_' * 18}{index:03}.cpp" for index in range(400)]
    for index, name in enumerate(names):
        (folder / name).write_text(f"int generated_{index}() {{ return {index}; }}\n")
    calls = " + ".join(f"generated_{index}()" for index in range(400))
    declarations = "".join(f"int generated_{index}();\n" for index in range(400))
    (folder / "value/value.cpp").write_text(f"{declarations}int value() {{ return {calls}; }}\n")
    toml = folder / "build.toml"
    listed = ", ".join(f'"{name}"' for name in names)
    toml.write_text(toml.read_text().replace('"value/value.cpp"', f'"value/value.cpp", {listed}'))
    result = yard.doit("build")
    assert result.status == 0, result.out
    assert yard.answer() == sum(range(400))
    before = yard.objects("answer")
    (folder / names[7]).write_text("int generated_7() { return 1007; }\n")
    assert yard.doit("build").status == 0
    changed = {name for name, time in yard.objects("answer").items() if before[name] != time}
    assert changed == {f"src/{names[7]}.o"}
    assert yard.answer() == sum(range(400)) + 1000


def test_kernels_and_contents_live_in_one_process(make_yard: Callable[[str], Yard], tmp_path: Path) -> None:
    yard = make_yard("yard")
    yard.add("stable")
    yard.add("answer")
    assert yard.doit("build").status == 0
    old = tmp_path / "old" / _STABLE
    shutil.copytree(yard.artifact("stable"), old)
    (yard.root / "kernels" / "stable" / "component" / "component.cpp").write_text("int component() { return 3; }\n")
    assert yard.doit("build").status == 0
    paths = [str(path) for path in (old, yard.artifact("stable"), yard.artifact("answer"))]
    names = yard.call(
        "from pathlib import Path; from kernels import get_local_kernel; "
        f"print(' '.join(get_local_kernel(Path(p)).__name__ for p in {paths!r}))"
    ).split()
    assert len(set(names)) == 3


def test_loads_as_users_load_it(yard: Yard, tmp_path: Path) -> None:
    yard.add("answer")
    assert yard.doit("build").status == 0
    repository = tmp_path / "copied" / "repository"
    shutil.copytree(yard.root / "build" / "kernels" / "answer", repository)
    by_path = "from pathlib import Path; from kernels import get_local_kernel; "
    backend = "backend='cpu'"
    for folder in (repository, repository / "build", repository / "build" / yard.artifact("answer").name):
        assert yard.call(f"{by_path}print(get_local_kernel(Path({str(folder)!r}), {backend}).answer())") == "111"
    by_name = f"from kernels import get_kernel; print(get_kernel('org/answer', version=1, {backend}).answer())"
    assert yard.call(by_name, LOCAL_KERNELS=f"org/answer={repository}") == "111"


def _dynamic(library: Path, tag: str) -> set[str]:
    """The values of one tag of the dynamic section, such as the libraries that are NEEDED."""
    with library.open("rb") as file:
        section = ELFFile(file).get_section_by_name(".dynamic")
        assert isinstance(section, DynamicSection)
        return {getattr(entry, tag.lower()) for entry in section.iter_tags(f"DT_{tag}")}


def _exported(library: Path) -> set[str]:
    with library.open("rb") as file:
        section = ELFFile(file).get_section_by_name(".dynsym")
        assert isinstance(section, SymbolTableSection)
        return {symbol.name for symbol in section.iter_symbols() if symbol["st_shndx"] != "SHN_UNDEF"} - {""}
