"""Host code, called with tensors "on" a GPU, and what it launches, run by the interpreter of Tile IR.

A process with the stand-in for the driver calls an extension's functions with tensors that claim to be on a CUDA
device (calls.py). This process then puts tensors of its own at the same addresses in the interpreter's memory, and runs
the launch on them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from tests.integration.cuda.driver import Driver, Machine
from tests.integration.cuda.record import Launch
from tests.tile_ir.machine import run
from tests.tile_ir.memory import Memory
from tests.tile_ir.program import Program


@dataclass(frozen=True)
class Call:
    """A call of an extension's function, with tensors in the memory of this process.

    Only those at the positions in `written` may be written to.
    """

    function: str
    arguments: tuple[Any, ...]
    written: tuple[int, ...] = ()

    def memories(self) -> dict[int, torch.UntypedStorage]:
        """The memories that its tensors are views of, by address, each once."""
        tensors = (each for each in self.arguments if isinstance(each, torch.Tensor))
        return {each.untyped_storage().data_ptr(): each.untyped_storage() for each in tensors}

    def described(self) -> Any:
        """What the other process needs to make tensors of the same layout; offsets and strides in bytes."""
        memories = self.memories()
        places = {address: index for index, address in enumerate(memories)}
        sizes = [memory.nbytes() for memory in memories.values()]
        return [self.function, sizes, [_described(each, places) for each in self.arguments]]


@dataclass(frozen=True)
class Result:
    """A tensor that a call returned, new and contiguous."""

    address: int
    shape: tuple[int, ...]
    dtype: torch.dtype


@dataclass(frozen=True)
class Replay:
    """What a call launched and returned, where its memories were, and what it raised."""

    call: Call
    addresses: tuple[int, ...]
    launches: tuple[Launch, ...]
    results: tuple[Result, ...]
    error: str | None

    def run(self, program: Callable[[str], Program]) -> list[torch.Tensor]:
        """Run what was launched, on the call's own tensors; returns what the call returned, filled with NaN before.

        `program` has the Tile IR of each entry that can be launched, by its symbol.
        """
        assert self.error is None, self.error
        memory = Memory()
        written = {self.call.arguments[at].untyped_storage().data_ptr() for at in self.call.written}
        for address, (own, storage) in zip(self.addresses, self.call.memories().items(), strict=True):
            _map(memory, address, storage, " and ".join(self._views(own)), writable=own in written)
        returned = [torch.full(result.shape, torch.nan, dtype=result.dtype) for result in self.results]
        for number, (result, tensor) in enumerate(zip(self.results, returned, strict=True)):
            _map(memory, result.address, tensor.untyped_storage(), f"result {number}", writable=True)
        for launch in self.launches:
            assert (launch.block, launch.shared) == ((1, 1, 1), 0)
            run(program(launch.entry), launch.entry, launch.grid, launch.arguments, memory)
        return returned

    def _views(self, memory: int) -> list[str]:
        tensors = ((at, each) for at, each in enumerate(self.call.arguments) if isinstance(each, torch.Tensor))
        return [f"argument {at}" for at, each in tensors if each.untyped_storage().data_ptr() == memory]


def replay(driver: Driver, library: Path, machine: Machine, calls: Sequence[Call]) -> list[Replay]:
    """Call an extension's functions, one after the other, in a process with the stand-in."""
    written = driver.folder / "calls.json"
    written.write_text(json.dumps([str(library), [call.described() for call in calls]]))
    code = f"import sys\nsys.argv[1:] = [{str(written)!r}]\nfrom tests.integration.cuda.calls import main\nmain()"
    done = driver.run(code, machine)
    assert done.status == 0, done.err
    launches, found, before = done.record.launches, list[Replay](), 0
    for call, said in zip(calls, json.loads(done.out), strict=True):
        made = tuple(launches[before : said["launches"]])
        before = said["launches"]
        results = tuple(
            Result(each["address"], tuple(each["shape"]), getattr(torch, each["dtype"])) for each in said["results"]
        )
        found.append(Replay(call, tuple(said["addresses"]), made, results, said["error"]))
    return found


def _map(memory: Memory, address: int, storage: torch.UntypedStorage, name: str, *, writable: bool) -> None:
    content = torch.empty(0, dtype=torch.uint8).set_(storage).numpy()
    if not writable:
        content.setflags(write=False)
    memory.map(address, content, name)


def _described(argument: Any, places: dict[int, int]) -> Any:
    if not isinstance(argument, torch.Tensor):
        return argument
    size, bfloat16 = argument.element_size(), argument.dtype == torch.bfloat16
    return {
        "memory": places[argument.untyped_storage().data_ptr()],
        "offset": argument.storage_offset() * size,
        "shape": list(argument.shape),
        "strides": [stride * size for stride in argument.stride()],
        "held": "uint16" if bfloat16 else str(argument.dtype).removeprefix("torch."),
        "bfloat16": bfloat16,
    }
