"""The host side of Rust kernels for CUDA, against a stand-in for the driver."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from elftools.elf.elffile import ELFFile

from tests.integration.conftest import needs_cargo
from tests.integration.cuda.driver import Driver, Fault, Gpu, Machine
from tests.integration.cuda.handmade import FATBINS, KERNELS, Host

pytestmark = needs_cargo


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Host:
    return Host.build(tmp_path_factory.mktemp("host"))


# --- what is embedded ---


def test_the_image_is_in_the_section_of_fatbins_and_no_driver_is_linked(host: Host) -> None:
    with host.library.open("rb") as file:
        sections: Callable[[str], Any] = ELFFile(file).get_section_by_name
        section, dynamic = sections(".nv_fatbin"), sections(".dynamic")
        assert section.data() == b"".join(FATBINS)
        assert section["sh_addralign"] >= 16
        needed = [tag.needed for tag in dynamic.iter_tags("DT_NEEDED")]
    assert not any("cuda" in name for name in needed)


def test_the_driver_is_not_touched_by_importing(host: Host) -> None:
    assert host.run("").record.calls == ()


# --- a launch ---


def test_a_launch_has_the_grid_the_arguments_and_the_stream_of_its_caller(host: Host) -> None:
    run = host.run(
        "with tvm_ffi.use_raw_stream(tvm_ffi.device('cuda:0'), 0x1234):\n    print(scale(factor=2.5, grid=(7, 2, 3)))\n"
        "print(scale())\nprint(out.ctypes.data, x.ctypes.data)"
    )
    tuned, _, addresses = run.out.splitlines()
    assert tuned == "128"
    first, second = run.record.launches
    assert (first.entry, first.grid, first.block, first.shared) == ("scale_f16_64", (7, 2, 3), (1, 1, 1), 0)
    assert (first.stream, second.stream) == (0x1234, 0)
    assert first.arguments == (
        *(struct.pack("<Q", int(address)) for address in addresses.split()),
        struct.pack("<i", 6),
        struct.pack("<q", -1),
        struct.pack("<f", 2.5),
        struct.pack("<d", 2.5),
    )


def test_each_fatbin_is_loaded_once(host: Host) -> None:
    run = host.run(
        "for d in (64, 128, 64, 128):\n    scale(d)\nfor name in ('plain', 'other'):\n    ops.plain(name, wide, 32, 0)"
    )
    assert run.record.loads == [FATBINS[0], FATBINS[1], FATBINS[3]]
    launched = [(launch.entry, launch.library) for launch in run.record.launches]
    assert launched == [("scale_f16_64", 0), ("scale_f16_128", 1)] * 2 + [("plain", 2), ("other", 2)]
    assert all(call.options == 0 for call in run.record.named("cuLibraryLoadData"))


def test_the_first_calls_of_several_threads_load_once(host: Host) -> None:
    run = host.run(
        "barrier = threading.Barrier(8)\n"
        "def call():\n    barrier.wait()\n    scale()\n"
        "threads = [threading.Thread(target=call) for _ in range(8)]\n"
        "for thread in threads: thread.start()\nfor thread in threads: thread.join()"
    )
    assert len(run.record.loads) == 1
    assert len(run.record.launches) == 8
    assert len(run.record.named("cuInit")) == len(run.record.named("cuDevicePrimaryCtxRetain")) == 1


def test_later_launches_ask_the_driver_for_little(host: Host) -> None:
    names = host.run("for _ in range(3):\n    scale()").record.names()
    # No context is current in this thread, so that of the device is made so for each.
    assert names[-8:] == ["cuCtxGetCurrent", "cuCtxPushCurrent_v2", "cuLaunchKernel", "cuCtxPopCurrent_v2"] * 2


@pytest.mark.parametrize("grid", [(0, 1, 1), (1, 0, 1), (1, 1, 0)])
def test_nothing_is_launched_for_nothing(host: Host, grid: tuple[int, int, int]) -> None:
    run = host.run(f"print(scale(grid={grid}))")
    assert run.out == "128"
    assert run.record.named("cuLaunchKernel") == []


def test_an_empty_tensor_is_no_error(host: Host) -> None:
    run = host.run(
        "empty = cuda_tensor(np.zeros((0, 3), np.float16))\nprint(scale(out=empty, x=empty, grid=(0, 1, 1)))"
    )
    assert run.out == "128"


# --- several devices ---

_TWO = Machine(gpus=(Gpu("8.0", 166_912), Gpu("9.0")), kernels=KERNELS)
_DRIVER = "cuda = ctypes.CDLL('libcuda.so.1'); cuda.cuInit(0)\n"


def test_each_device_runs_its_own_code_in_its_own_context(host: Host) -> None:
    run = host.run(
        f"{_DRIVER}cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)\n"
        "cuda.cuCtxPushCurrent_v2(context)\n"
        "for device in (0, 1, 1, 0):\n"
        "    stream = tvm_ffi.use_raw_stream(tvm_ffi.device(f'cuda:{device}'), 100 + device)\n"
        "    with stream:\n        print(scale(out=cuda_tensor(out, device), x=cuda_tensor(x, device)))\n"
        "cuda.cuCtxGetCurrent(ctypes.byref(context))",
        _TWO,
    )
    assert run.out.split() == ["64", "128", "128", "64"]
    assert [(launch.device, launch.stream) for launch in run.record.launches] == [
        (0, 100),
        (1, 101),
        (1, 101),
        (0, 100),
    ]
    assert len(run.record.loads) == 1
    # What was current is current again, and was left alone where it was right.
    assert run.record.calls[-1].context == 0
    # One to load, and two to launch.
    assert [call.context for call in run.record.named("cuCtxPushCurrent_v2")][1:] == [1, 1, 1]
    assert [call.context for call in run.record.named("cuCtxPopCurrent_v2")] == [0, 0, 0]


def test_a_context_of_the_caller_on_the_same_device_is_kept(host: Host) -> None:
    run = host.run(f"{_DRIVER}cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0)\nscale()\nscale()")
    assert [launch.primary for launch in run.record.launches] == [False, False]
    assert "cuCtxPushCurrent_v2" not in run.record.names()


def test_tensors_on_two_devices(host: Host) -> None:
    run = host.run("say(scale, x=cuda_tensor(x, 1))", _TWO)
    assert run.out == "ValueError: x: is on device cuda:1; must be on cuda:0, the device of out"


def test_a_device_that_is_not_there(host: Host) -> None:
    run = host.run("say(scale, out=cuda_tensor(out, 1), x=cuda_tensor(x, 1))")
    assert run.out == "RuntimeError: cuda:1: is none of the 1 devices that the driver has"


# --- the code that the driver chooses ---


@pytest.mark.parametrize(
    ("capability", "tuned"), [("8.0", 64), ("8.9", 64), ("9.0", 128), ("12.0", 256), ("12.1", 256), ("13.0", 256)]
)
def test_tuned_numbers_are_those_of_the_code_that_runs(host: Host, capability: str, tuned: int) -> None:
    assert host.run("print(scale())", Machine(gpus=(Gpu(capability),), kernels=KERNELS)).out == str(tuned)


@pytest.mark.parametrize("capability", ["7.5", "9.1", "10.0"])
def test_a_capability_that_the_image_lacks(host: Host, capability: str) -> None:
    run = host.run("say(scale)", Machine(gpus=(Gpu(capability),), kernels=KERNELS))
    assert run.out == (
        f"RuntimeError: scale_f16_64 on cuda:0: has no code for capability {capability}; "
        "there is 8.0, 9.0 alone and 12.0 or newer"
    )
    assert "cuLibraryLoadData" not in run.record.names()


def test_code_that_the_table_does_not_know(host: Host) -> None:
    strange = tuple(replace(kernel, machine=("8.7",), portable=()) for kernel in KERNELS)
    run = host.run("say(scale)", Machine(gpus=(Gpu("8.9"),), kernels=strange))
    assert run.out == (
        "RuntimeError: scale_f16_64 on cuda:0: the driver chose code for capability 8.7, "
        "and there is only 8.0, 9.0 alone and 12.0 or newer"
    )


def test_a_driver_that_is_forced_to_compile(host: Host) -> None:
    run = host.run("say(scale)\nsay(ops.plain, 'plain', wide, 1, 0)", CUDA_FORCE_PTX_JIT="1")
    refused, launched = run.out.splitlines()
    assert refused == (
        "RuntimeError: scale_f16_64 on cuda:0: CUDA_FORCE_PTX_JIT hides which of several tile sizes its code has; "
        "unset it"
    )
    assert launched == "None"


# --- bad input ---


def test_without_a_driver(host: Host, tmp_path: Path) -> None:
    run = host.run("say(scale)\nsay(scale, x=tvm_ffi.from_dlpack(x))", LD_LIBRARY_PATH=str(tmp_path))
    missing, cpu = run.out.splitlines()
    assert missing == "RuntimeError: CUDA: libcuda.so.1 is not on this machine; install the NVIDIA driver"
    assert cpu == "ValueError: x: is on device cpu:0; must be on a CUDA device"


def test_a_driver_without_what_is_needed(host: Host, tmp_path: Path) -> None:
    run = host.run("say(scale)", driver=Driver.build(tmp_path / "old", "OLD"))
    assert run.out == "RuntimeError: CUDA: the driver lacks cuLibraryLoadData; install one of CUDA 12 or newer"


def test_a_driver_that_is_too_old_for_the_image(host: Host) -> None:
    machine = Machine(version=12_080, kernels=KERNELS)
    run = host.run("say(scale)\nsay(ops.plain, 'plain', wide, 1, 0)", machine)
    refused, launched = run.out.splitlines()
    assert refused == (
        "RuntimeError: scale_f16_64 on cuda:0: the driver is of CUDA 12.8; install one of CUDA 13.0 or newer"
    )
    assert launched == "None"


def test_a_tensor_on_the_cpu(host: Host) -> None:
    run = host.run("say(scale, out=tvm_ffi.from_dlpack(out))")
    assert run.out == "ValueError: out: is on device cpu:0; must be on a CUDA device"
    assert run.record.calls == ()


def test_an_instantiation_that_does_not_exist(host: Host) -> None:
    run = host.run(
        "say(scale, d=65)\nsay(scale, out=wide, x=wide)\n"
        "half = cuda_tensor(np.zeros(6, np.int16), bfloat16=True)\nsay(scale, d=128, out=half, x=half)"
    )
    d, dtype, both = run.out.splitlines()
    there = "there is T = bf16 and f16; D = 64 and 128"
    assert d == f"ValueError: scale: has no instantiation for T = f16 and D = 65; {there}"
    assert dtype == f"TypeError: scale: has no instantiation for T = f32 and D = 64; {there}"
    assert both == (
        "ValueError: scale: has no instantiation for T = bf16 and D = 128; "
        "there is scale_f16_64, scale_f16_128 and scale_bf16_64"
    )


def test_a_grid_that_is_too_large(host: Host) -> None:
    run = host.run("say(scale, grid=(1, 65536, 1))\nsay(scale, grid=(2**31, 1, 1))\nsay(scale, grid=(1001, 1, 1))")
    y, x, check = run.out.splitlines()
    largest = "the largest that the device can have is [2147483647, 65535, 65535]"
    assert y == f"ValueError: scale_f16_64 on cuda:0: its grid is [1, 65536, 1]; {largest}"
    assert x == f"ValueError: scale_f16_64 on cuda:0: its grid is [2147483648, 1, 1]; {largest}"
    assert check == "ValueError: scale_f16_64 on cuda:0: its grid is [1001, 1, 1]: at most 1000 blocks are numbered"
    assert run.record.named("cuLaunchKernel") == []


def test_mistakes_of_the_host_are_errors_too(host: Host) -> None:
    run = host.run("say(ops.mistaken, wide)\nsay(ops.untuned, wide)\nsay(ops.plain, 'none', wide, 1, 0)")
    arguments, tuned, name = run.out.splitlines()
    assert arguments == "TypeError: plain on cuda:0: takes 32 bits as argument 1, and is given an i64"
    assert tuned.startswith("RuntimeError:")
    assert "plain: has no tuned number BM" in tuned
    assert name == "RuntimeError: none: is no entry of the image, which has other, plain and scale"


# --- shared memory ---


def test_shared_memory_above_48_kb_is_asked_for_once(host: Host) -> None:
    sizes = (49_152, 60_000, 50_000, 100_000)
    run = host.run(f"for size in {sizes}:\n    ops.plain('plain', wide, 256, size)")
    assert [launch.shared for launch in run.record.launches] == [*sizes]
    assert {launch.block for launch in run.record.launches} == {(256, 1, 1)}
    assert [call.value for call in run.record.named("cuKernelSetAttribute")] == [60_000, 100_000]


def test_what_the_code_has_by_itself_counts(host: Host) -> None:
    own = tuple(replace(kernel, shared=40_000) for kernel in KERNELS)
    machine = Machine(gpus=(Gpu("8.6", 101_376),), kernels=own)
    run = host.run("for size in (9_000, 10_000, 61_377):\n    say(ops.plain, 'plain', wide, 1, size)", machine)
    assert run.out.splitlines() == [
        "None",
        "None",
        "RuntimeError: plain on cuda:0: needs 101377 bytes of shared memory; the device has 101376 bytes for a block",
    ]
    assert [call.value for call in run.record.named("cuKernelSetAttribute")] == [10_000]


def test_code_with_more_shared_memory_than_the_device_has(host: Host) -> None:
    own = tuple(replace(kernel, shared=150_000) for kernel in KERNELS)
    run = host.run("say(scale)", Machine(gpus=(Gpu("8.6", 101_376),), kernels=own))
    assert run.out == (
        "RuntimeError: scale_f16_64 on cuda:0: needs 150000 bytes of shared memory; "
        "the device has 101376 bytes for a block"
    )


# --- what the driver refuses ---

# Each, but for cuInit, and what it is called for.
_CALLS = {
    "cuDriverGetVersion": "CUDA",
    "cuDeviceGetCount": "CUDA",
    "cuDeviceGet": "cuda:0",
    "cuDeviceGetAttribute": "cuda:0",
    "cuDevicePrimaryCtxRetain": "cuda:0",
    "cuLibraryLoadData": "plain",
    "cuLibraryGetKernel": "plain on cuda:0",
    "cuKernelGetAttribute": "plain on cuda:0",
    "cuKernelSetAttribute": "plain on cuda:0",
    "cuCtxGetCurrent": "plain on cuda:0",
    "cuCtxGetDevice": "plain on cuda:0",
    "cuCtxPushCurrent_v2": "plain on cuda:0",
    "cuCtxPopCurrent_v2": "plain on cuda:0",
    "cuLaunchKernel": "plain on cuda:0",
}
# A context of another device is current, so that contexts are changed.
_ELSEWHERE = f"{_DRIVER}cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 1)\n"


@pytest.mark.parametrize("call", _CALLS)
def test_a_call_that_fails_is_an_exception_and_the_next_one_works(host: Host, call: str) -> None:
    code = (
        f"{_ELSEWHERE}for _ in range(3):\n    say(ops.plain, 'plain', wide, 32, 50_000)\n"
        "cuda.cuCtxGetCurrent(ctypes.byref(context))"
    )
    run = host.run(code, replace(_TWO, faults=(Fault(call, 700),)))
    said = "CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered"
    assert run.out.splitlines() == [f"RuntimeError: {_CALLS[call]}: {call} failed with {said}", "None", "None"]
    assert {launch.device for launch in run.record.launches} == {0}
    # What was current is current again; unless it could not be made so.
    assert run.record.calls[-1].context == (0 if call == "cuCtxPopCurrent_v2" else 1)


def test_a_driver_that_does_not_start(host: Host) -> None:
    run = host.run("say(scale)\nsay(scale)", Machine(kernels=KERNELS, faults=(Fault("cuInit", 100),)))
    refused, launched = run.out.splitlines()
    assert refused == (
        "RuntimeError: CUDA: cuInit failed with CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected"
    )
    assert launched == "128"


def test_each_call_of_the_driver_can_fail(host: Host) -> None:
    names = host.run(f"{_ELSEWHERE}ops.plain('plain', wide, 32, 50_000)", _TWO).record.names()
    assert set(names) == {"cuInit", "cuCtxCreate_v2", *_CALLS}


def test_an_error_that_the_driver_cannot_name(host: Host) -> None:
    run = host.run("say(scale)", Machine(kernels=KERNELS, faults=(Fault("cuLaunchKernel", 4711),)))
    assert run.out == "RuntimeError: scale_f16_64 on cuda:0: cuLaunchKernel failed with error 4711"


def test_an_entry_that_the_image_lost(host: Host) -> None:
    run = host.run("say(scale)", Machine())
    assert run.out == (
        "RuntimeError: scale_f16_64 on cuda:0: cuLibraryGetKernel failed with CUDA_ERROR_NOT_FOUND: "
        "named symbol not found"
    )


# --- its price ---


def test_what_a_launch_costs(host: Host, record_property: Callable[[str, object], None]) -> None:
    code = "print(min(ops.nanoseconds(cuda_tensor(out), cuda_tensor(x), 100_000) for _ in range(5)))"
    run = host.run(code, recorded=False)
    # From the checks of the tensors to the stand-in's return, which is next to nothing. It is reported, not judged.
    record_property("nanoseconds", float(run.out))
    print(f"a launch takes {float(run.out):.0f} ns")
