"""One checkout in one run: where things are, and what is known about files and processes."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from functools import cached_property
from pathlib import Path

from buildlib import environment, provenance
from buildlib import variant as variants
from buildlib.config.model import Kernel
from buildlib.editor import write_compile_commands
from buildlib.environment import Settings
from buildlib.files import FileCache
from buildlib.inputs import Inputs
from buildlib.jobs import JobServer, open_server
from buildlib.plan import BuildSpec
from buildlib.process import Processes
from buildlib.rust.crates import Crates
from buildlib.rust.workspace import CargoWorkspace
from buildlib.sources import Sources
from buildlib.times import Times
from buildlib.variant import Variant


class Workspace:
    """The root of a checkout, its `build/` folder, and the state that the steps of a run share."""

    def __init__(self, root: Path, settings: Settings) -> None:
        self.root = root
        self.settings = settings
        self.build = root / "build"
        self.processes = Processes()
        self._lock = threading.Lock()
        self._cache: FileCache | None = None
        self._sources: Sources | None = None
        self._jobs: JobServer | None = None
        self.times = Times(self.build / "times.json")
        # What holds this checkout's lock, for the programs that write into its folders to hold as well.
        self.held: tuple[int, ...] = ()
        # Set when a project was configured, so that the files made from all projects are written once, at the end.
        self.configured = False
        # Takes what a long step has to say of its progress: what it works on, and a text.
        self.notify: Callable[[str, str], None] = lambda _what, _text: None
        # Why a spec could not be built in this run, by its name; what comes after the build is then skipped as well.
        self.unavailable: dict[str, str] = {}
        # Of every kernel with components in Rust, whether it is built in this run or not.
        self.crates: tuple[Crates, ...] = ()
        self._cargo: dict[Path, CargoWorkspace] = {}
        self._cargo_lock = threading.Lock()

    @property
    def cache(self) -> FileCache:
        """What is known about files; read when it is first asked for."""
        with self._lock:
            if self._cache is None:
                self._cache = FileCache(self.build / "files.msgpack")
            return self._cache

    @property
    def sources(self) -> Sources:
        """What the sources of kernels are in this checkout."""
        cache = self.cache
        with self._lock:
            if self._sources is None:
                self._sources = Sources(cache, self._lock_file)
            return self._sources

    @property
    def jobs(self) -> JobServer:
        """The budget of parallel jobs; made when it is first asked for."""
        with self._lock:
            if self._jobs is None:
                self._jobs = open_server(self.settings)
            return self._jobs

    def work(self, spec: BuildSpec) -> Path:
        """Where a spec's project is rendered and compiled."""
        return self.build / "work" / spec.kernel.key / variants.name(spec.variant)

    def artifact(self, spec: BuildSpec) -> Path:
        """The folder of a spec's artifact: `build/kernels/<kernel>/build/<variant>`."""
        return self.variant(spec.kernel.key, spec.variant)

    def variant(self, kernel: str, variant: Variant) -> Path:
        """The folder where the artifact of a kernel's variant is, or would be."""
        return self.build / "kernels" / kernel / "build" / variants.name(variant)

    def artifacts(self, kernel: Kernel) -> Path:
        """The folder that the `kernels` client loads a kernel from."""
        return self.build / "kernels" / kernel.key

    def log(self, stage: str, spec: BuildSpec) -> Path:
        return self.build / "logs" / spec.kernel.key / variants.name(spec.variant) / f"{stage}.log"

    def report(self, stage: str, spec: BuildSpec) -> Path:
        return self.build / "reports" / spec.kernel.key / variants.name(spec.variant) / f"{stage}.json"

    def shown(self, path: Path) -> str:
        """A path as messages show it."""
        return str(path.relative_to(self.root)) if path.is_relative_to(self.root) else str(path)

    def inputs(self, spec: BuildSpec) -> Inputs:
        """The inputs of a spec."""
        return self.sources.inputs(spec)

    @cached_property
    def shared_cargo(self) -> CargoWorkspace:
        """The Cargo workspace of all kernels that bring none."""
        members = [crates for crates in self.crates if crates.own is None]
        log = self.build / "logs" / "cargo.log"
        return CargoWorkspace(self.build / "cargo", members, self.root / "Cargo.lock", log, self)

    def cargo(self, spec: BuildSpec) -> CargoWorkspace:
        """The Cargo workspace that a spec's crates are built in."""
        with self._cargo_lock:
            if spec.crates is None or spec.crates.own is None:
                return self.shared_cargo
            folder = self.work(spec) / "cargo"
            if folder not in self._cargo:
                pins = spec.crates.kernel / spec.crates.own / "Cargo.lock"
                self._cargo[folder] = CargoWorkspace(folder, [spec.crates], pins, self.log("build", spec), self)
            return self._cargo[folder]

    def pins(self, spec: BuildSpec) -> dict[str, str]:
        """By path, as inputs are: a digest of what the repository's Cargo.lock pins for a spec."""
        return self.sources.pins(spec)

    def _lock_file(self) -> bytes | None:
        pins = self.root / "Cargo.lock"
        return pins.read_bytes() if pins.exists() else None

    def digest(self, spec: BuildSpec) -> str:
        """The digest of a spec with the files as they are now."""
        return self.sources.digest(spec)

    @cached_property
    def changed_kernels(self) -> frozenset[str] | None:
        """The kernels whose folders differ from the last commit, or None outside of git; asked once in a run."""
        return provenance.changed(self.root / "kernels", environment.child(self.settings))

    def look_again(self, kernel: Kernel) -> None:
        """Forget what was seen of a kernel's files: they may have been edited since."""
        self.cache.forget(kernel.folder)
        self.sources.forget(kernel)

    def close(self) -> None:
        """End what still runs, and store what was learnt."""
        self.processes.stop()
        if self.configured:
            # For editors: a full disk must not turn a finished run into a failed one.
            with contextlib.suppress(OSError):
                write_compile_commands(self.root)
        if self._jobs is not None:
            self._jobs.close()
        if self._cache is not None:
            self._cache.save()
        self.times.save()
