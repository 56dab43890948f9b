"""The plan: what is built, what is skipped, and the words that say why."""

from __future__ import annotations

from pathlib import Path

import pytest

from buildlib import plan as planning
from buildlib.config.model import BackendGeneral, CppXpu, Hub, Kernel, Torch
from buildlib.matrix import Matrix
from buildlib.plan import BuildSpec, Failed, Plan, Skipped
from buildlib.toolchain import Host
from buildlib.variant import Backend, Compute, Platform, Version

from .factories import HOST, MATRIX, cpu, cuda, host, kernel, noarch, plan, row, spec, torch, tvm_ffi

_CPU, _CUDA = Backend.CPU, Backend.CUDA
_BOTH = (_CPU, _CUDA)


def _names(planned: Plan) -> list[str]:
    return [planning.name(entry).partition(":")[2] for entry in planned.entries]


# --- which variants there are ---


@pytest.mark.parametrize(
    ("planned", "names"),
    [
        (kernel(), ["torch213-cxx11-cpu-x86_64-linux"]),
        (kernel(Torch(stable_abi={_CPU: Version(2, 11)})), ["torch-stable-abi211-cpu-x86_64-linux"]),
        (tvm_ffi(), ["tvm-ffi01-cpu-x86_64-linux"]),
        (noarch(backends=_BOTH), ["torch-cpu", "torch-cuda"]),
        (noarch(backends=(Backend.CANN,)), ["torch-npu"]),
        # A backend that no component is for is served by the Python package.
        (kernel(backends=_BOTH), ["torch213-cxx11-cpu-x86_64-linux", "torch-cuda"]),
        (kernel(backends=(Backend.TPU,)), ["torch-tpu"]),
        # A component for a backend that is not declared makes no variant.
        (kernel(None, cpu(), cuda()), ["torch213-cxx11-cpu-x86_64-linux"]),
        # A backend that is declared twice is planned once.
        (noarch(backends=(_CPU, _CPU)), ["torch-cpu"]),
    ],
    ids=["torch", "stable ABI", "tvm-ffi", "noarch", "CANN", "no component", "only Python", "not declared", "twice"],
)
def test_variants_of_a_kernel(planned: Kernel, names: list[str]) -> None:
    assert _names(plan(planned)) == names


def test_a_kernel_of_one_abi_has_one_variant_for_all_torch_releases_from_it_on() -> None:
    abi = Torch(stable_abi={_CPU: Version(2, 12)})
    releases = Matrix(torch=(row("2.11"), row("2.13"), row("2.12"), row("2.14")))
    assert _names(plan(kernel(abi), matrix=releases)) == ["torch-stable-abi212-cpu-x86_64-linux"]


def test_a_stable_abi_variant_for_each_compute_and_platform() -> None:
    abi = Torch(stable_abi=dict.fromkeys(_BOTH, Version(2, 11)))
    rows = Matrix(
        torch=tuple(
            row(release, compute, platform)
            for release in ("2.12", "2.13")
            for platform in (Platform.X86_64_LINUX, Platform.AARCH64_LINUX)
            for compute in ("cpu", "cu130")
        )
    )
    assert sorted(_names(plan(kernel(abi, cpu(), cuda(), backends=_BOTH), matrix=rows))) == [
        "torch-stable-abi211-cpu-aarch64-linux",
        "torch-stable-abi211-cpu-x86_64-linux",
        "torch-stable-abi211-cu130-aarch64-linux",
        "torch-stable-abi211-cu130-x86_64-linux",
    ]


def test_backends_may_differ_in_their_abi() -> None:
    mixed = kernel(Torch(stable_abi={_CPU: Version(2, 11)}), cpu(), cuda(), backends=_BOTH)
    rows = Matrix(torch=(row("2.13"), row("2.13", "cu130")))
    assert _names(plan(mixed, matrix=rows)) == [
        "torch-stable-abi211-cpu-x86_64-linux",
        "torch213-cxx11-cu130-x86_64-linux",
    ]


@pytest.mark.parametrize(
    ("planned", "reason"),
    [
        (
            kernel(Torch(stable_abi={_CPU: Version(9, 9)})),
            "toolchains/variants.toml has no cpu variant for the stable ABI of torch 9.9",
        ),
        (tvm_ffi(backends=(Backend.METAL,)), "toolchains/variants.toml has no metal variant"),
        (
            kernel(None, CppXpu(name="xpu"), backends=(Backend.XPU,)),
            "toolchains/variants.toml has no xpu variant",
        ),
    ],
    ids=["an ABI that no release has", "no tvm-ffi for the backend", "no torch for the backend"],
)
def test_no_declared_backend_is_lost_without_a_word(planned: Kernel, reason: str) -> None:
    # A kernel that the plan does not mention cannot be asked about: `doit build:relu` would not know its name.
    (backend,) = planned.general.backends
    assert plan(planned).entries == (Skipped(kernel="relu", variant=backend, reason=reason),)


# --- why a variant is skipped ---


@pytest.mark.parametrize(
    ("planned", "matrix", "on", "reason"),
    [
        (
            kernel(),
            Matrix(torch=(row("2.13", "cpu", Platform.AARCH64_LINUX),)),
            HOST,
            "for aarch64-linux machines; this one is x86_64-linux",
        ),
        (kernel(), MATRIX, host(platform=None), "for x86_64-linux machines; this one is of an unknown platform"),
        (
            kernel(None, cuda(), backends=(_CUDA,)),
            Matrix(torch=(row("2.13", "cu130"),)),
            HOST,
            "no toolchain for cu130 on this machine",
        ),
        (kernel(), Matrix(torch=(row("2.12"),)), HOST, "needs torch 2.12; this environment has 2.13.0+cpu"),
        (
            kernel(Torch(stable_abi={_CPU: Version(2, 12)})),
            MATRIX,
            host(torch=torch("2.11.0")),
            "needs torch 2.12 or newer; this environment has 2.11.0",
        ),
        (tvm_ffi(), Matrix(tvm_ffi=(row("0.2"),)), HOST, "needs tvm-ffi 0.2; this environment has 0.1.15"),
        (kernel(Torch(minver=Version(2, 14))), MATRIX, HOST, "build.toml asks for [torch] minver 2.14"),
        (kernel(Torch(maxver=Version(2, 12))), MATRIX, HOST, "build.toml asks for [torch] maxver 2.12"),
        (
            kernel(None, cuda(), backends=(_CUDA,), by_backend={_CUDA: BackendGeneral(minver=Version(13, 2))}),
            Matrix(torch=(row("2.13", "cu130"),)),
            HOST,
            "build.toml asks for [general.cuda] minver 13.2",
        ),
        (
            tvm_ffi(cuda(), backends=(_CUDA,), by_backend={_CUDA: BackendGeneral(maxver=Version(12, 8))}),
            Matrix(tvm_ffi=(row("0.1", "cu130"),)),
            HOST,
            "build.toml asks for [general.cuda] maxver 12.8",
        ),
    ],
    ids=[
        "platform",
        "unknown platform",
        "no toolchain",
        "other torch",
        "older torch",
        "other tvm-ffi",
        "torch minver",
        "torch maxver",
        "CUDA minver",
        "CUDA maxver",
    ],
)
def test_skipped_with_the_reason(planned: Kernel, matrix: Matrix, on: Host, reason: str) -> None:
    made = plan(planned, matrix=matrix, on=on)
    assert ([skipped.reason for skipped in made.skipped], made.specs, made.failed) == ([reason], (), ())


@pytest.mark.parametrize(
    "planned",
    [
        kernel(Torch(minver=Version(2, 13), maxver=Version(2, 13))),
        kernel(by_backend={_CPU: BackendGeneral(minver=Version(99, 0))}),
        kernel(by_backend={_CUDA: BackendGeneral(maxver=Version(1, 0))}),
    ],
    ids=["bounds are inclusive", "a backend without versions", "another backend's bounds"],
)
def test_not_skipped(planned: Kernel) -> None:
    assert len(plan(planned).specs) == 1


def test_what_build_toml_asks_for_is_said_before_what_the_machine_lacks() -> None:
    rows = Matrix(torch=(row("2.13", "cu130", Platform.AARCH64_LINUX),))
    asked = kernel(Torch(minver=Version(2, 14)), cuda(), backends=(_CUDA,))
    (skipped,) = plan(asked, matrix=rows).skipped
    assert skipped.reason == "build.toml asks for [torch] minver 2.14"


def test_a_stable_abi_variant_is_made_with_a_release_that_build_toml_allows() -> None:
    # As upstream: the bounds come first, and the newest of what they leave is taken.
    bounded = kernel(Torch(stable_abi={_CPU: Version(2, 11)}, maxver=Version(2, 12)))
    releases = Matrix(torch=(row("2.12"), row("2.13")))
    planned = plan(bounded, matrix=releases, on=host(torch=torch("2.12.1")))
    assert ([each.name for each in planned.specs], planned.skipped) == (
        ["relu:torch-stable-abi211-cpu-x86_64-linux"],
        (),
    )


# --- why a variant, or a kernel, fails ---


@pytest.mark.parametrize(
    ("planned", "on", "message"),
    [
        (kernel(), host(compiler="a C++ compiler is not on this machine"), "a C++ compiler is not on this machine"),
        (kernel(), host(torch="torch is not in this environment"), "torch is not in this environment"),
        (tvm_ffi(), host(tvm_ffi="tvm-ffi is not in this environment"), "tvm-ffi is not in this environment"),
        # Of two things that are missing, the compiler is named: it is the one that cannot be had from pip.
        (kernel(), host(compiler="no compiler", torch="no torch"), "no compiler"),
    ],
    ids=["compiler", "torch", "tvm-ffi", "both"],
)
def test_failed_where_the_machine_lacks_what_every_machine_has(planned: Kernel, on: Host, message: str) -> None:
    made = plan(planned, on=on)
    assert ([failed.message for failed in made.failed], made.specs) == ([f"kernels/relu: {message}"], ())


@pytest.mark.parametrize(
    ("planned", "on"),
    [
        (tvm_ffi(), host(torch="missing")),
        (kernel(), host(tvm_ffi="missing")),
        (noarch(), host(torch="missing", tvm_ffi="missing", compiler="missing")),
    ],
    ids=["tvm-ffi needs no torch", "torch needs no tvm-ffi", "noarch needs nothing"],
)
def test_what_a_kernel_does_not_use_may_be_missing(planned: Kernel, on: Host) -> None:
    assert len(plan(planned, on=on).specs) == 1


def test_kernels_that_did_not_load_are_in_the_plan() -> None:
    broken = Failed(kernel="broken", message="build.toml: no")
    assert planning.plan([kernel()], [broken], MATRIX, HOST).failed == (broken,)


def _published(folder: str, repo_id: str | None, *, version: int = 1, branch: str | None = None) -> Kernel:
    where = Hub(repo_id=repo_id, branch=branch)
    return noarch(folder=Path("/checkout/kernels") / folder, version=version, hub=where)


def test_two_folders_with_one_hub_target_are_both_refused() -> None:
    planned = plan(_published("a", "org/relu"), _published("b", "org/relu"), _published("c", "org/gelu"))
    messages = {failed.kernel: failed.message for failed in planned.failed}
    assert messages == {
        key: f"kernels/{key}/build.toml: [general.hub] repo-id and [general] version: published to org/relu, "
        f"branch v1, as is kernels/{other}; change the repo-id, the version or the branch of one"
        for key, other in (("a", "b"), ("b", "a"))
    }
    assert [each.kernel.key for each in planned.specs] == ["c"]


def test_all_others_are_named_where_three_clash() -> None:
    planned = plan(*(_published(folder, "org/relu") for folder in "abc"))
    assert [failed.message.partition("as is ")[2].partition(";")[0] for failed in planned.failed] == [
        "kernels/b, kernels/c",
        "kernels/a, kernels/c",
        "kernels/a, kernels/b",
    ]


@pytest.mark.parametrize(
    "pair",
    [
        (_published("a", "org/one"), _published("b", "org/two")),
        (_published("a", "org/relu"), _published("b", "org/relu", version=2)),
        (_published("a", "org/relu"), _published("b", "org/relu", branch="next")),
        (_published("a", None), _published("b", None)),
    ],
    ids=["one name, two repositories", "two versions", "another branch", "not published"],
)
def test_folders_that_do_not_clash(pair: tuple[Kernel, Kernel]) -> None:
    planned = plan(*pair)
    assert ([each.kernel.key for each in planned.specs], planned.failed) == (["a", "b"], ())


def test_a_branch_may_be_spelled_or_follow_from_the_version() -> None:
    planned = plan(_published("a", "org/relu", version=2), _published("b", "org/relu", branch="v2"))
    assert [failed.kernel for failed in planned.failed] == ["a", "b"]


# --- what a build spec holds ---


def test_a_spec_has_the_components_of_its_backend_in_their_order() -> None:
    parts = (cpu(name="one"), cuda(), cpu(name="two"), CppXpu(name="xpu"))
    assert [part.name for part in spec(kernel(None, *parts)).components] == ["one", "two"]


@pytest.mark.parametrize(
    ("compute", "taken"),
    [
        ("cu118", ["any"]),
        ("cu126", ["any", "from 12.6"]),
        ("cu128", ["any", "from 12.6", "from 12.8"]),
        ("cu130", ["any", "from 12.6", "from 12.8"]),
    ],
)
def test_a_component_can_ask_for_a_newer_cuda(compute: str, taken: list[str]) -> None:
    parts = (
        cuda(name="any"),
        cuda(name="from 12.6", cuda_minver=Version(12, 6)),
        cuda(name="from 12.8", cuda_minver=Version(12, 8)),
        cpu(),
    )
    # CUDA variants are not built yet, so no plan has these components in it.
    found = planning._components(kernel(None, *parts), Compute.parse(compute))
    assert [part.name for part in found] == taken


@pytest.mark.parametrize(
    ("planned", "libraries"),
    [(kernel(), ["torch", "python"]), (tvm_ffi(), ["tvm-ffi"])],
    ids=["an extension of Python", "a plain library"],
)
def test_libraries(planned: Kernel, libraries: list[str]) -> None:
    toolchain = spec(planned).toolchain
    assert toolchain is not None
    assert [library.name for library in toolchain.libraries] == libraries


def test_a_spec_without_an_extension_has_no_toolchain() -> None:
    bare = spec(noarch())
    assert (bare.toolchain, bare.components) == (None, ())


def test_names_of_entries() -> None:
    variant = spec(kernel()).variant
    entries = (
        spec(kernel(folder=Path("/x/a"))),
        Skipped(kernel="b", variant=variant, reason=""),
        Failed(kernel="c", variant=variant, message=""),
        Failed(kernel="d", message=""),
        Skipped(kernel="e", variant=Backend.METAL, reason=""),
    )
    suffix = "torch213-cxx11-cpu-x86_64-linux"
    assert [planning.name(entry) for entry in entries] == [f"a:{suffix}", f"b:{suffix}", f"c:{suffix}", "d", "e:metal"]


# --- order ---


def test_order_is_that_of_the_kernels_and_of_the_matrix() -> None:
    kernels = [kernel(None, cpu(), cuda(), folder=Path("/x") / key, backends=_BOTH) for key in ("b", "a")]
    rows = Matrix(torch=(row("2.13", "cu130"), row("2.13"), row("2.12", "cu126"), row("2.12")))
    planned = plan(*kernels, matrix=rows)
    assert [each.name for each in planned.specs] == [
        "b:torch213-cxx11-cpu-x86_64-linux",
        "a:torch213-cxx11-cpu-x86_64-linux",
    ]
    assert [planning.name(skipped) for skipped in planned.skipped] == [
        f"{key}:torch{variant}-x86_64-linux"
        for key in ("b", "a")
        for variant in ("213-cxx11-cu130", "212-cxx11-cu126", "212-cxx11-cpu")
    ]


def test_entries_are_specs_then_skipped_then_failed() -> None:
    planned = planning.plan(
        [kernel(None, cpu(), cuda(), backends=_BOTH)],
        [Failed(kernel="broken", message="")],
        Matrix(torch=(row("2.13", "cu130"), row("2.13"))),
        HOST,
    )
    assert [type(entry) for entry in planned.entries] == [BuildSpec, Skipped, Failed]
