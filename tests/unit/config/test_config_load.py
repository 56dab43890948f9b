"""Every mistake in a build.toml has its message: where, what is wrong, what to do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from buildlib import config
from buildlib.errors import ConfigError

FILE = Path("kernels/relu/build.toml")

GENERAL = """\
[general]
name = "relu"
version = 1
edition = 6
license = "Apache-2.0"
backends = ["cpu"]
"""
TORCH = "[torch]\n"
CPU = """\
[kernel.on_cpu]
language = "cpp-cpu"
depends = ["torch"]
src = []
"""

Load = Callable[[str], str]


@pytest.fixture
def message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    """The message about a text in `kernels/relu/build.toml`, less the file's name at the start of each line."""
    monkeypatch.chdir(tmp_path)
    FILE.parent.mkdir(parents=True)

    def load(text: str) -> str:
        FILE.write_text(text, encoding="utf-8", newline="")
        with pytest.raises(ConfigError) as raised:
            config.load(FILE)
        lines = str(raised.value).split("\n")
        assert all(line.startswith(f"{FILE}:") for line in lines)
        return "\n".join(line.removeprefix(f"{FILE}:") for line in lines)

    return load


COMPONENT_KEYS = "language, depends, src, include, cxx-flags"
GENERAL_KEYS = (
    "name, version, edition, license, backends, upstream, source, kernel-depends, python-depends, cuda, neuron, tpu, "
    "xpu, hub"
)
LANGUAGES = "cpp-cpu, cpp-cuda, cpp-metal, cpp-rocm, cpp-xpu, rust-cpu, rust-cuda"

PARSING = {
    "a key with a close match": (
        GENERAL.replace("backends", "backend") + TORCH,
        f"6: [general] key 'backend': unknown key; did you mean 'backends'? accepted are {GENERAL_KEYS}",
    ),
    "a key in capitals": (
        GENERAL.replace("license", "LICENSE") + TORCH,
        f"5: [general] key 'LICENSE': unknown key; did you mean 'license'? accepted are {GENERAL_KEYS}",
    ),
    "a key like no other": (
        GENERAL + TORCH + "[general.hub]\nzzz = 1\n",
        "9: [general.hub] key 'zzz': unknown key; accepted are repo-id, branch",
    ),
    "a table like no other": (
        GENERAL + TORCH + "\n[zzz]\n",
        "9: key 'zzz': unknown key; accepted are general, torch, torch-noarch, tvm-ffi, kernel",
    ),
    "a key of another backend": (
        GENERAL + TORCH + CPU + "cuda-flags = []\n",
        f"12: [kernel.on_cpu] key 'cuda-flags': a key for cpp-cuda only; drop it; accepted are {COMPONENT_KEYS}",
    ),
    "a key of two other languages": (
        GENERAL + TORCH + CPU + "cuda-capabilities = []\n",
        (
            "12: [kernel.on_cpu] key 'cuda-capabilities': a key for cpp-cuda and rust-cuda only; drop it; "
            f"accepted are {COMPONENT_KEYS}"
        ),
    ),
    "a missing key": (
        GENERAL.replace("version = 1\n", "") + TORCH,
        "1: [general]: the key 'version' is missing; add version = 1",
    ),
    "a missing key in a list": (
        GENERAL + "kernel-depends = [\n{ version = 1 }\n]\n" + TORCH,
        "8: [general] key 'kernel-depends' item 1: the key 'repo-id' is missing; add repo-id = \"owner/name\"",
    ),
    "no framework": (
        GENERAL,
        "1: the framework is missing; add one of the tables [torch], [torch-noarch], [tvm-ffi]",
    ),
    "two frameworks": (
        GENERAL + TORCH + "[tvm-ffi]\n",
        "8: [tvm-ffi]: a second framework besides [torch]; keep one of the two",
    ),
    "a number for a string": (
        GENERAL.replace('"Apache-2.0"', "2") + TORCH,
        "5: [general] key 'license': a string is expected, not the integer 2; write it as \"Apache-2.0\"",
    ),
    "a string for a list": (
        GENERAL.replace('["cpu"]', '"cpu"') + TORCH,
        "6: [general] key 'backends': a list is expected, not the string 'cpu'; write it as [\"cpu\"]",
    ),
    "a date for a list": (
        GENERAL.replace('["cpu"]', "2026-01-02") + TORCH,
        "6: [general] key 'backends': a list is expected, not a date or a time; write it as [\"cann\"]",
    ),
    "a string for an integer": (
        GENERAL.replace("version = 1", 'version = "1"') + TORCH,
        "3: [general] key 'version': an integer is expected, not the string '1'; write it as 1",
    ),
    "a boolean for an integer": (
        GENERAL.replace("version = 1", "version = true") + TORCH,
        "3: [general] key 'version': an integer is expected, not the boolean true; write it as 1",
    ),
    "a negative integer": (
        GENERAL.replace("version = 1", "version = -1") + TORCH,
        "3: [general] key 'version': -1 is out of range; write an integer from 0 to 9223372036854775807",
    ),
    "a list for a table": (
        GENERAL + "hub = []\n" + TORCH,
        "7: [general] key 'hub': a table is expected, not a list; write it as [general.hub]",
    ),
    "a list for the components": (
        "kernel = []\n" + GENERAL + TORCH,
        "1: key 'kernel': a table of components is expected, not a list; write it as [kernel.<name>]",
    ),
    "a string for a component": (
        GENERAL + TORCH + '[kernel]\nrelu = "x"\n',
        (
            "9: [kernel] key 'relu': a component, which is a table, is expected, not the string 'x'; "
            "write it as [kernel.relu]"
        ),
    ),
    "a wrong item of a list": (
        GENERAL + TORCH + CPU.replace("[]", '[\n"a.cpp",\n2,\n]'),
        "13: [kernel.on_cpu] key 'src' item 2: a path is expected, not the integer 2; write it as \"csrc/relu.cpp\"",
    ),
    "a name with a capital": (
        GENERAL.replace('"relu"', '"Relu"') + TORCH,
        (
            "2: [general] key 'name': 'Relu' is not a kernel name; use two or more of a-z, 0-9 and '-', "
            "a letter first and a letter or a digit last, as in 'flash-attn'"
        ),
    ),
    "a name with a line break": (
        GENERAL.replace('"relu"', '"re\\nlu"') + TORCH,
        (
            "2: [general] key 'name': 're\\nlu' is not a kernel name; use two or more of a-z, 0-9 and '-', "
            "a letter first and a letter or a digit last, as in 'flash-attn'"
        ),
    ),
    "a number for a name": (
        GENERAL.replace('"relu"', "7") + TORCH,
        "2: [general] key 'name': a name is expected, not the integer 7; write it as \"flash-attn\"",
    ),
    "a version that is a number": (
        GENERAL + "[general.cuda]\nminver = 12.8\n" + TORCH,
        (
            "8: [general.cuda] key 'minver': a version, as a string, is expected, not the number 12.8; "
            'write it as "12.8"'
        ),
    ),
    "a version with three numbers": (
        GENERAL + '[general.cuda]\nminver = "12.8.0"\n' + TORCH,
        "8: [general.cuda] key 'minver': '12.8.0' is not a version; write two numbers with a dot, as in \"12.8\"",
    ),
    "a stable ABI that is a number": (
        GENERAL + TORCH + "stable-abi = 2.10\n",
        (
            "8: [torch] key 'stable-abi': a version, or a table of versions by backend, is expected, "
            'not the number 2.1; write it as "2.10"'
        ),
    ),
    "a stable ABI for no backend": (
        GENERAL + TORCH + 'stable-abi.cuda13 = "2.10"\n',
        (
            "8: [torch.stable-abi] key 'cuda13': 'cuda13' is not a backend; did you mean 'cuda'? "
            "choose from cann, cpu, cuda, metal, neuron, rocm, tpu, xpu"
        ),
    ),
    "a backend in capitals": (
        GENERAL.replace('"cpu"', '"CPU"') + TORCH,
        (
            "6: [general] key 'backends' item 1: 'CPU' is not a backend; did you mean 'cpu'? "
            "choose from cann, cpu, cuda, metal, neuron, rocm, tpu, xpu"
        ),
    ),
    "a URL without a scheme": (
        GENERAL + 'upstream = "example.org/a"\n' + TORCH,
        (
            "7: [general] key 'upstream': 'example.org/a' is not a Git URL; write <scheme>://<host>/<path> with one of "
            "https, http, git, ssh, git+ssh, git+https, git+http, or user@host:path"
        ),
    ),
    "a URL that is a table": (
        GENERAL + "upstream = {}\n" + TORCH,
        (
            "7: [general] key 'upstream': a Git URL is expected, not a table; "
            'write it as "https://example.org/project.git"'
        ),
    ),
    "an unknown dependency": (
        GENERAL + TORCH + CPU.replace('"torch"', '"cutlass_4"'),
        (
            "10: [kernel.on_cpu] key 'depends' item 1: 'cutlass_4' is not a dependency; did you mean 'cutlass_4_5'? "
            "choose from torch, cutlass_2_10, cutlass_3_5, cutlass_3_6, cutlass_3_8, cutlass_3_9, cutlass_4_0, "
            "cutlass_4_4, cutlass_4_5, sycl_tla, metal-cpp"
        ),
    ),
    "a dependency with a version and a revision": (
        GENERAL + 'kernel-depends = [{ repo-id = "a/b", version = 1, revision = "main" }]\n' + TORCH,
        "7: [general] key 'kernel-depends' item 1: has 'version' and 'revision'; give exactly one of version, revision",
    ),
    "a dependency with neither": (
        GENERAL + 'kernel-depends = [{ repo-id = "a/b" }]\n' + TORCH,
        "7: [general] key 'kernel-depends' item 1: a key is missing; give exactly one of version, revision",
    ),
    "a component without a language": (
        GENERAL + TORCH + CPU.replace('language = "cpp-cpu"\n', ""),
        f"8: [kernel.on_cpu]: the key 'language' is missing; add it with one of {LANGUAGES}",
    ),
    "an unknown language": (
        GENERAL + TORCH + CPU.replace("cpp-cpu", "c++-cpu"),
        (
            f"9: [kernel.on_cpu] key 'language': 'c++-cpu' is not a language; did you mean 'cpp-cpu'? "
            f"choose from {LANGUAGES}"
        ),
    ),
    "a language that is a number": (
        GENERAL + TORCH + CPU.replace('"cpp-cpu"', "1"),
        "9: [kernel.on_cpu] key 'language': a language is expected, not the integer 1; write it as \"cpp-cpu\"",
    ),
    "an unknown device language": (
        GENERAL + TORCH + '[kernel.a]\nlanguage = "rust-cuda"\ncargo-manifest = "Cargo.toml"\ndsl = "ptx"\n',
        (
            "11: [kernel.a] key 'dsl': 'ptx' is not a device language; did you mean 'nvptx'? "
            "choose from cutile, nvptx, cuda-oxide"
        ),
    ),
    "both spellings of a key": (
        GENERAL + "[torch-noarch]\ncuda_capabilities = []\ncuda-capabilities = []\n",
        "8: [torch-noarch] key 'cuda_capabilities': says the same as 'cuda-capabilities'; keep one of the two",
    ),
    "a name in need of quotes": (
        GENERAL + TORCH + '[kernel."on cpu"]\nlanguage = "cpp-cpu"\ndepends = []\n',
        "8: [kernel.'on cpu']: the key 'src' is missing; add src = [\"csrc/relu.cpp\"]",
    ),
}

EDITIONS = {
    "an edition that there never was": (
        GENERAL.replace("6", "7") + TORCH,
        (
            "4: [general] key 'edition': there is no edition 7 that has this key; "
            "write edition = 6, or drop the key for edition 4"
        ),
    ),
    "an edition that has no such key": (
        GENERAL.replace("6", "4") + TORCH,
        (
            "4: [general] key 'edition': there is no edition 4 that has this key; "
            "write edition = 6, or drop the key for edition 4"
        ),
    ),
    "an edition that is a string": (
        GENERAL.replace("6", '"6"') + TORCH,
        "4: [general] key 'edition': an integer is expected, not the string '6'; write it as 6",
    ),
    "a language in edition 5": (
        GENERAL.replace("6", "5") + TORCH + CPU,
        (
            "9: [kernel.on_cpu] key 'language': a key of edition 6 and later; "
            "set edition = 6 in [general], or write 'backend'"
        ),
    ),
    "a backend in edition 6": (
        GENERAL + TORCH + CPU.replace("language", "backend"),
        f"9: [kernel.on_cpu] key 'backend': no key of edition 6 any more; write 'language' with one of {LANGUAGES}",
    ),
    "a backend besides the language": (
        GENERAL + TORCH + CPU + 'backend = "cpu"\n',
        "12: [kernel.on_cpu] key 'backend': no key of edition 6 any more; write 'language'",
    ),
    "a crate in edition 5": (
        GENERAL.replace("6", "5") + TORCH + '[kernel.a]\nbackend = "cpu"\ncargo-manifest = "Cargo.toml"\n',
        (
            "8: [kernel.a]: the key 'depends' is missing; add depends = [\"torch\"]\n"
            "8: [kernel.a]: the key 'src' is missing; add src = [\"csrc/relu.cpp\"]\n"
            "10: [kernel.a] key 'cargo-manifest': unknown key; "
            "accepted are backend, depends, src, include, cxx-flags"
        ),
    ),
    "a mistake in edition 4": (
        GENERAL.replace("edition = 6\n", "") + TORCH + "minver = 2\n",
        (
            "1: [general]: read as edition 4, because there is no key 'edition'; "
            "when what follows is put right, `doit migrate:relu` rewrites the file to edition 6\n"
            "7: [torch] key 'minver': a version, as a string, is expected, not the integer 2; write it as \"12.8\""
        ),
    ),
    "a key of edition 5 in edition 4": (
        GENERAL.replace("edition = 6\n", "kernel-depends = []\n") + TORCH,
        (
            "1: [general]: read as edition 4, because there is no key 'edition'; "
            "when what follows is put right, `doit migrate:relu` rewrites the file to edition 6\n"
            "4: [general] key 'kernel-depends': a key of edition 5 and later; "
            "set edition = 5 in [general], or drop the key"
        ),
    ),
    "edition 3": (
        GENERAL.replace("edition = 6\n", "").replace("version = 1\n", ""),
        (
            "1: [general]: read as edition 3, which is not built any more, because there is no key 'edition' and "
            "the key 'version' is missing and the framework is missing; run `doit migrate:relu`"
        ),
    ),
    "no edition and no general table": (
        "[torch]\n",
        (
            "1: [general]: read as edition 4, because there is no key 'edition'; "
            "when what follows is put right, `doit migrate:relu` rewrites the file to edition 6\n"
            "1: the key 'general' is missing; add [general]"
        ),
    ),
}

SYNTAX = {
    "a key twice": ("[torch]\nsrc = []\nsrc = []\n", "3:9: this key has a value already; keep one of the two"),
    "a table twice": ("[torch]\n[torch]\n", "2:7: this table is there already; merge the two tables"),
    "an inline table that grows": (
        "[torch]\nstable-abi = { cpu = '2.9' }\n[torch.stable-abi]\n",
        "3:18: this table is there already; merge the two tables",
    ),
    "no value": ("[torch]\nsrc\n", "2:4: a key without a value; write key = value"),
    "a bare string": ("[torch]\nsrc = a\n", "2:7: this is not a value; put strings in quotes"),
    "an open string": ('[torch]\nsrc = "a\n', "2:9: the string is not closed on its line; put a quote at its end"),
    "an open string at the end": ('src = "a', "1:9: the string is not closed; put a quote at its end"),
    "an open list": (
        "[torch]\nsrc = [\n",
        "2:8: the file ends where a value is expected; write the value, and close the brackets that are open",
    ),
    "an open header": ("[torch\n", "1:7: the table's header is not closed; write [table] on a line of its own"),
    "two values": (
        "src = 1 2\n",
        "1:9: something follows the value; write one key to a line, and put strings in quotes",
    ),
    "an unknown escape": (
        'src = "\\d"\n',
        "1:10: a backslash that starts no escape; write \\\\, or put the string in single quotes",
    ),
    "a newer TOML": (
        "hub = {\n a = 1\n}\n",
        "1:8: this cannot start a key; use A-Z, a-z, 0-9, _ and -, or put the key in quotes",
    ),
    "no TOML at all": ("<html>\n", "1:1: this is not TOML; write [table], or key = value"),
    "an integer of too many digits": (
        f"src = {'1' * 5000}\n",
        " this is not TOML; write [table], or key = value",
    ),
    "brackets without an end": (
        "src = " + "[" * 5000,
        " too many brackets within brackets; no key needs more than two",
    ),
}


@pytest.mark.parametrize(("text", "expected"), [*PARSING.values()], ids=[*PARSING])
def test_mistakes(message: Load, text: str, expected: str) -> None:
    assert message(text) == expected


@pytest.mark.parametrize(("text", "expected"), [*EDITIONS.values()], ids=[*EDITIONS])
def test_mistakes_about_editions(message: Load, text: str, expected: str) -> None:
    assert message(text) == expected


@pytest.mark.parametrize(("text", "expected"), [*SYNTAX.values()], ids=[*SYNTAX])
def test_mistakes_in_the_syntax(message: Load, text: str, expected: str) -> None:
    assert message(text) == expected


def test_all_mistakes_are_told_in_the_order_of_the_file(message: Load) -> None:
    text = CPU.replace('"torch"', '"torhc"') + GENERAL.replace("license", "licence") + TORCH + "minver = 1\n"
    assert [line.split(" ")[0] for line in message(text).split("\n")] == ["3:", "9:", "12:"]


def test_file_that_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError) as raised:
        config.load(FILE)
    assert str(raised.value) == f"{FILE}: there is no such file; each folder under kernels/ needs one"


def test_file_that_is_a_folder(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        config.load(tmp_path)
    assert str(raised.value) == f"{tmp_path}: cannot be read (is a directory); make it a readable file"


def test_file_that_is_not_utf_8(tmp_path: Path) -> None:
    file = tmp_path / "build.toml"
    file.write_bytes(b"# a\n# \xe9\n")
    with pytest.raises(ConfigError) as raised:
        config.load(file)
    assert str(raised.value) == f"{file}:2: the byte 0xe9 is not UTF-8; save the file as UTF-8"
