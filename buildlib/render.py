"""Stage 5: a build spec → the files that CMake, the compiler and Python read.

The text of a rendered file depends on the spec alone: no time, no absolute path, and one order.
"""

from __future__ import annotations

import json
import posixpath
import re
import traceback
from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING

import msgspec

from buildlib import capability
from buildlib import variant as variants
from buildlib.config.model import CppCuda, RustCpu, RustCuda, Torch, TvmFfi
from buildlib.digest import TEMPLATES, family
from buildlib.editor import OF_CUDA
from buildlib.errors import PublishError, StepError
from buildlib.inputs import IMPLICIT_INCLUDES, Inputs, is_compiled
from buildlib.plan import BuildSpec
from buildlib.variant import Backend, TorchNoarchVariant, TorchStableAbiVariant, TorchVariant, Version

if TYPE_CHECKING:
    import jinja2

# The name that sources are compiled with in place of the extension's own; see templates/torch/registration.h.j2.
_PLACEHOLDER = "kernelyard_op_namespace"
_NAME_HEADER = "gen/extension_name.h"
# CPython's stable ABI of the oldest Python that an artifact must load in, 3.9.
_LIMITED_API = "0x03090000"
# Instruction sets of x86 processors. Kernels give a component to each, and guard its sources for other processors; the
# compilers of those refuse the flag itself.
_X86_FLAG = re.compile(r"-m(?:aes|amx|avx|bmi|f16c|fma|gfni|lzcnt|mmx|pclmul|popcnt|sha|sse|vaes|vpclmul)[\w.-]*")
# torch's headers need C++20 from here on.
_TORCH_CXX20 = Version(2, 12)
# The first CUDA whose compiler knows the option -static-global-template-stub.
_TEMPLATE_STUB = Version(12, 8)
# The first CUDA whose front end was seen to take another path for the source; see the template.
_SOURCE_PATH = Version(13, 0)
# What nvcc takes for each capability that it compiles at a time, in bytes: of a source with torch's headers, and of one
# with those of a stable ABI.
_NVCC_WITH_TORCH, _NVCC = 2_800_000_000, 500_000_000
_CXX_SUFFIXES = frozenset({".c", ".cc", ".cpp", ".cxx", ".c++"})


class Unit(msgspec.Struct, frozen=True, kw_only=True):
    """A translation unit: its path below the kernel's folder, and what only it is compiled with."""

    path: str
    includes: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    # The CUDA capabilities that a .cu file is compiled for.
    archs: tuple[str, ...] = ()

    @property
    def object(self) -> str:
        """Where a .cu file's object goes: each into a folder of its own, in which nvcc also has its temporary files."""
        return f"cuda/{self.path}/object.o"

    @property
    def is_plain(self) -> bool:
        """Whether nvcc would hand the path on as it is: it takes some characters apart."""
        return re.fullmatch(r"[\w./+-]+", self.path) is not None

    @property
    def gencode(self) -> tuple[str, ...]:
        return tuple(flag for arch in self.archs for flag in capability.flags(arch))


def project(spec: BuildSpec, inputs: Inputs) -> dict[str, str]:
    """The CMake project of a spec: text by path below its work folder, the same for every content of the sources."""
    units = _units(spec, inputs)
    cuda_units = [unit for unit in units if unit.archs]
    values: dict[str, object] = {
        "name": spec.name,
        "project": spec.kernel.general.module,
        "languages": ["CXX", *(["C"] if any(unit.path.endswith(".c") for unit in units) else [])],
        "cxx_standard": _cxx_standard(spec),
        "definitions": _definitions(spec),
        "implicit_includes": IMPLICIT_INCLUDES,
        # A target must have a source; an extension that is all Rust has none of its author's.
        "generated": ["extension.cpp"] if family(spec) == "torch" else [] if units else ["empty.cpp"],
        "rust": spec.crates is not None,
        "units": [unit for unit in units if not unit.archs],
        "cuda_units": cuda_units,
        "nvcc_options": _nvcc_options(spec),
        "host_options": _host_options(spec),
        "hides_path": _hides_path(spec),
        "nvcc_memory": _NVCC_WITH_TORCH if isinstance(spec.variant, TorchVariant) else _NVCC,
    }
    rendered = {
        "CMakeLists.txt": text("common/CMakeLists.txt.j2", values),
        "gen/exports.map": text(f"{family(spec)}/exports.map.j2", {}),
    }
    if family(spec) == "torch":
        rendered["gen/torch-ext/registration.h"] = text("torch/registration.h.j2", {})
        rendered["gen/extension.cpp"] = text("torch/extension.cpp.j2", {})
    if cuda_units:
        rendered[OF_CUDA] = _for_editors(spec, cuda_units)
    if family(spec) != "torch" and not units:
        rendered["gen/empty.cpp"] = text("tvm_ffi/empty.cpp.j2", {})
    return rendered


def extension_name(spec: BuildSpec, extension_id: str) -> dict[str, str]:
    """The only generated source that follows the content of the kernel."""
    macro = "TVM_FFI_EXTENSION_NAME" if family(spec) == "tvm_ffi" else "TORCH_EXTENSION_NAME"
    return {_NAME_HEADER: text("common/extension_name.h.j2", {"macro": macro, "id": extension_id})}


def ops_module(spec: BuildSpec, extension_id: str) -> str:
    """`_ops.py`, by which the kernel's Python package reaches its operators."""
    return text(f"{family(spec)}/_ops.py.j2", {"id": extension_id})


def card(source: str | None, where: str, values: Mapping[str, object]) -> str:
    """A kernel's card, from the text of its CARD.md, or from the default one where that is None.

    The text is rendered by the rules that upstream renders it by, so that the same CARD.md works with both. A card that
    does not show `variants` itself gets the table of them at its end.

    Raises:
        PublishError: the text is not a template, names something that is not in `values`, or fails on it.
    """
    import jinja2  # noqa: PLC0415 - as in _environment
    from jinja2 import meta, sandbox  # noqa: PLC0415

    environment = sandbox.ImmutableSandboxedEnvironment(
        undefined=jinja2.StrictUndefined, autoescape=False, keep_trailing_newline=True
    )
    table = (TEMPLATES / "card" / "variants.md.j2").read_text(encoding="utf-8")
    text = (TEMPLATES / "card" / "CARD.md.j2").read_text(encoding="utf-8") if source is None else source
    try:
        shows_variants = "variants" in meta.find_undeclared_variables(environment.parse(text))
        shown = environment.from_string(text).render(values)
    except jinja2.TemplateSyntaxError as error:
        raise PublishError(f"{where}:{error.lineno}: {error.message}; correct it") from None
    except jinja2.TemplateError as error:
        raise PublishError(f"{where}: {error.message}; a card may use {', '.join(sorted(values))}") from None
    except Exception as error:  # noqa: BLE001 - the author's own expressions can fail in any way
        raise PublishError(f"{where}:{_line(error)}: {type(error).__name__}: {error}; correct it") from None
    parts = [shown] if shows_variants else [shown, environment.from_string(table).render(values)]
    return "\n\n".join(part.rstrip() for part in parts) + "\n"


def _line(error: Exception) -> int:
    """The line of the template that an error came from; Jinja makes it look like one of Python's."""
    frames = traceback.extract_tb(error.__traceback__)
    return next((frame.lineno or 1 for frame in reversed(frames) if frame.filename == "<template>"), 1)


class _Group(msgspec.Struct, frozen=True, kw_only=True):
    """The sources of one table of build.toml, `where`, and what they are compiled with."""

    where: str
    src: tuple[str, ...]
    include: tuple[str, ...]
    cxx_flags: tuple[str, ...]
    cuda_flags: tuple[str, ...] = ()
    archs: tuple[str, ...] = ()


def _units(spec: BuildSpec, inputs: Inputs) -> list[Unit]:
    """The translation units in declared order.

    A source listed by several components is compiled once, with their include folders and flags joined in that order.
    """
    includes: dict[str, list[str]] = {}
    flags: dict[str, list[str]] = {}
    archs: dict[str, set[str]] = {}
    for group in _groups(spec):
        for path in dict.fromkeys(filter(is_compiled, group.src)):
            suffix = posixpath.splitext(path)[1].lower()
            if suffix not in _CXX_SUFFIXES and not (suffix == ".cu" and group.archs):
                raise StepError(
                    f"kernels/{spec.kernel.key}/build.toml: {group.where} src: {path!r} is not a C or C++ source; "
                    "list it in a component of its own backend"
                )
            known = includes.setdefault(path, [])
            known += (folder for folder in group.include if folder not in known)
            # Each language has its flags; a C source takes none, as upstream.
            of_language = {".c": (), ".cu": group.cuda_flags}.get(suffix, group.cxx_flags)
            flags.setdefault(path, []).extend(_for_platform(spec, of_language))
            archs.setdefault(path, set()).update(group.archs if suffix == ".cu" else ())
    return [
        Unit(
            path=path,
            includes=tuple(includes[path]),
            options=(*_name_options(spec, path, inputs), *flags[path]),
            archs=capability.in_order(archs[path]),
        )
        for path in includes
    ]


def _groups(spec: BuildSpec) -> Iterator[_Group]:
    framework = spec.kernel.framework
    if isinstance(framework, Torch | TvmFfi):
        yield _Group(
            where=f"[{family(spec).replace('_', '-')}]",
            src=framework.src,
            include=framework.include,
            cxx_flags=framework.cxx_flags,
            archs=spec.archs.get("", ()),
        )
    for component in spec.components:
        if isinstance(component, RustCpu | RustCuda):
            continue
        yield _Group(
            where=f"[kernel.{component.name}]",
            src=component.src,
            include=component.include,
            cxx_flags=component.cxx_flags,
            cuda_flags=_known_flags(spec, component) if isinstance(component, CppCuda) else (),
            archs=spec.archs.get(component.name, ()),
        )


def _known_flags(spec: BuildSpec, component: CppCuda) -> tuple[str, ...]:
    """A component's flags for nvcc, less one that older compilers refuse and that changes nothing for them."""
    assert spec.toolchain is not None
    assert spec.toolchain.cuda is not None
    if spec.toolchain.cuda.version >= _TEMPLATE_STUB:
        return component.cuda_flags
    return tuple(flag for flag in component.cuda_flags if not flag.startswith("-static-global-template-stub"))


def _nvcc_options(spec: BuildSpec) -> tuple[str, ...]:
    """What torch compiles its own CUDA sources with, less the macros that take the operators of half away."""
    return ("--expt-relaxed-constexpr", "-DENABLE_FP8") if family(spec) == "torch" else ()


def _for_editors(spec: BuildSpec, units: list[Unit]) -> str:
    """How a language server, which knows clang's options and not nvcc's, reads .cu files: as nvcc's host compiler does.

    Like nvcc's own commands these are relative to the build folder, and lack what depends on this machine.
    """
    assert spec.toolchain is not None
    assert spec.toolchain.cuda is not None
    version = spec.toolchain.cuda.version
    common = [
        f"-std=c++{_cxx_standard(spec)}", "-D__CUDACC__", "-D__NVCC__", f"-D__CUDACC_VER_MAJOR__={version.major}",
        f"-D__CUDACC_VER_MINOR__={version.minor}", *(f"-D{each}" for each in _definitions(spec)),
    ]  # fmt: skip
    folders = ["-I../gen/torch-ext", *(f"-I../src/{folder}" for folder in IMPLICIT_INCLUDES)]
    commands = {}
    for unit in units:
        own = (option for option in unit.options if option.startswith(("-D", "-U")))
        name = unit.options[:2] if unit.options[:1] == ("-include",) else ()
        commands[unit.path] = [*common, *(f"-I../src/{folder}" for folder in unit.includes), *folders, *name, *own]
    return json.dumps(commands, indent=1) + "\n"


def _hides_path(spec: BuildSpec) -> bool:
    """Whether the compiler is one that is known to accept another path of the source than its own."""
    assert spec.toolchain is not None
    return spec.toolchain.cuda is not None and spec.toolchain.cuda.version >= _SOURCE_PATH


def _host_options(spec: BuildSpec) -> tuple[str, ...]:
    """What nvcc hands to the host compiler; the same as for C++ sources."""
    assert spec.toolchain is not None
    options = ("-fPIC", f"-ffile-prefix-map=../src={spec.kernel.general.module}")
    # clang neither has such symbols nor knows the option.
    return (*options, "-fno-gnu-unique") if spec.toolchain.compiler.family == "gcc" else options


def _for_platform(spec: BuildSpec, flags: tuple[str, ...]) -> Iterator[str]:
    assert not isinstance(spec.variant, TorchNoarchVariant)
    x86 = spec.variant.platform.cpu == "x86_64"
    return (flag for flag in flags if x86 or not _X86_FLAG.fullmatch(flag))


def _name_options(spec: BuildSpec, path: str, inputs: Inputs) -> tuple[str, ...]:
    if path in inputs.spell_name:
        return ("-include", f"../{_NAME_HEADER}")
    return (f"-DTORCH_EXTENSION_NAME={_PLACEHOLDER}",) if family(spec) == "torch" else ()


def _definitions(spec: BuildSpec) -> list[str]:
    definitions = [f"{variants.backend(spec.variant).upper()}_KERNEL"]
    if family(spec) == "torch" and variants.backend(spec.variant) is Backend.CUDA:
        definitions.append("USE_CUDA=1")
    if family(spec) == "torch":
        definitions.append(f"Py_LIMITED_API={_LIMITED_API}")
    if isinstance(spec.variant, TorchStableAbiVariant):
        # torch's own encoding of a version: one byte each for major and minor, from the top of 64 bits.
        abi = spec.variant.abi
        definitions.append(f"TORCH_TARGET_VERSION=0x{abi.major << 56 | abi.minor << 48:016x}")
    return definitions


def _cxx_standard(spec: BuildSpec) -> int:
    assert spec.toolchain is not None
    version = Version.parse(spec.toolchain.libraries[0].version)
    return 17 if family(spec) == "torch" and version < _TORCH_CXX20 else 20


def workflow(template: str, values: dict[str, object]) -> str:
    """A file of templates/ci. Its marks are `[[ ]]` and `[% %]`, because workflows use `{{ }}` themselves."""
    return _workflows().get_template(template).render(values)


@cache
def _workflows() -> jinja2.Environment:
    return _environment().overlay(
        variable_start_string="[[",
        variable_end_string="]]",
        block_start_string="[%",
        block_end_string="%]",
        comment_start_string="[#",
        comment_end_string="#]",
    )


@cache
def _environment() -> jinja2.Environment:
    # Imported here because it takes a third of the time in which `doit list` must answer.
    import jinja2  # noqa: PLC0415

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        undefined=jinja2.StrictUndefined,
        autoescape=False,  # noqa: S701 - the output is CMake, C++ and Python, not HTML
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"cmake": _cmake, "genex": _genex, "toml": _toml, "rust": _rust}
    return environment


def text(template: str, values: dict[str, object]) -> str:
    """What a template gives with these values."""
    return _environment().get_template(template).render(values)


def _rust(value: bool | int | str) -> str:  # noqa: FBT001 - a filter
    """A value as a Rust literal; what JSON writes is one, but for characters beyond the basic plane."""
    return json.dumps(value, ensure_ascii=False)


def _cmake(text: str) -> str:
    """`text` as it must stand between the quotes of a CMake argument."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$")


def _genex(text: str) -> str:
    """`text` such that CMake neither splits it as a list nor takes part of it for a generator expression."""
    if text.count("[") != text.count("]"):
        raise StepError(f"flag {text!r}: CMake cannot pass on a bracket without its other half; define it in a header")
    return text.replace(";", "\\;").replace("$<", "$<1:$><")


def _toml(value: object) -> str:
    """A string, or a list of strings, as TOML writes it, which for these is as JSON does."""
    return json.dumps(value, ensure_ascii=False)
