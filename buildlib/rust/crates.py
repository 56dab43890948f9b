"""A kernel → its crates, loaded together with build.toml. Reads manifests and runs nothing."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec

from buildlib.config.model import BACKENDS, Dsl, Kernel, RustCpu, RustCuda, TvmFfi
from buildlib.errors import ConfigError
from buildlib.rust import manifest
from buildlib.rust.manifest import Crate, Document
from buildlib.variant import Backend

# The folder beside the kernels with the crates that they share.
SHARED = "_rust"
# Where host crates in upstream's layout of cuda-oxide include PTX from, below the kernel's folder.
PTX_FOLDER = "kernels-ptx"
# The shared crate with which the device crate of a cutile component says what is compiled.
TILE = "kernelyard-tile"
_CHANNEL = re.compile(r"[\w.-]+")
_TOOLCHAIN_FILES = ("rust-toolchain.toml", "rust-toolchain")


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """What one or more components of an extension are made of: a crate, with the features that they ask for."""

    crate: Crate
    features: tuple[str, ...] = ()


class Device(msgspec.Struct, frozen=True, kw_only=True):
    """The device code of one rust-cuda component: its crate, and the host crate that embeds what it is compiled to.

    `root` is the folder of its Cargo workspace where that is no business of the host's: with cuda-oxide.
    """

    component: str
    dsl: Dsl
    crate: Crate
    host: Crate
    root: str | None = None


class Crates(msgspec.Struct, frozen=True, kw_only=True):
    """The Rust half of a kernel, whose folder is `kernel`; `src` is what its components list in build.toml, by backend.

    `edges` are the folders of the crates that each depends on by path. `own` is the root folder, relative to the
    kernel's, of a Cargo workspace that the kernel brings with its Cargo.lock; None for a kernel in the workspace that
    all share. `channel` is what its rust-toolchain.toml asks for, or empty.
    """

    kernel: Path
    crates: tuple[Crate, ...]
    edges: dict[str, tuple[str, ...]] = {}
    extensions: dict[Backend, tuple[Part, ...]]
    devices: tuple[Device, ...] = ()
    src: dict[Backend, tuple[str, ...]] = {}
    own: str | None = None
    channel: str = ""

    @property
    def key(self) -> str:
        """The name of the kernel's folder."""
        return self.kernel.name

    @property
    def shared(self) -> tuple[str, ...]:
        """The folders, relative to the kernel's, of the crates that it shares with others."""
        return tuple(crate.folder for crate in self.crates if crate.is_shared)

    def reach(self, *folders: str) -> tuple[Crate, ...]:
        """The crates in some folders, and all that they depend on by path, in the order of `crates`."""
        waiting, reached = list(folders), set[str]()
        while waiting:
            folder = waiting.pop()
            if folder not in reached:
                reached.add(folder)
                waiting += self.edges.get(folder, ())
        return tuple(crate for crate in self.crates if crate.folder in reached)

    def of(self, backend: Backend) -> Crates:
        """What is left where only one backend's extension is built."""
        parts = self.extensions[backend]
        devices = self.devices if backend is Backend.CUDA else ()
        folders = {part.crate.folder for part in parts} | {device.crate.folder for device in devices}
        # What members take from the root of the kernel's own workspace.
        folders |= {self.own} if self.own is not None else set()
        return msgspec.structs.replace(
            self,
            crates=self.reach(*folders),
            extensions={backend: parts},
            devices=devices,
            src={backend: self.src[backend]},
        )


def is_in_tiles(crate: Crate, crates: Crates) -> bool:
    """Whether a crate is over those of cutile, which only compile with CUDA's headers."""
    return any(reached.name == TILE for reached in crates.reach(crate.folder))


def load(kernel: Kernel) -> Crates | None:
    """The crates of a kernel's Rust components and all that they reach by path; None where it has no such component.

    Raises:
        ConfigError: a manifest, or what build.toml says about it, is wrong; the message names the file.
    """
    components = [component for component in kernel.components if isinstance(component, RustCpu | RustCuda)]
    if not components:
        return None
    shown = f"kernels/{kernel.key}"
    if not isinstance(kernel.framework, TvmFfi):
        where = f"[kernel.{components[0].name}] language"
        raise ConfigError(f"{shown}/build.toml: {where}: Rust needs the framework [tvm-ffi]; use it instead")
    reading = _Reading(kernel.folder, shown)
    folders = [posixpath.dirname(component.cargo_manifest) for component in components]
    beside = {
        part.name: _device_folder(part, kernel.folder, shown) for part in components if isinstance(part, RustCuda)
    }
    own = _own_root(kernel.folder, folders, shown)
    members = [
        beside[part.name] for part in components if isinstance(part, RustCuda) and part.dsl is not Dsl.CUDA_OXIDE
    ]
    crates = tuple(reading.reach([*folders, *members], own=own))
    by_folder = {crate.folder: crate for crate in crates}
    extensions: dict[Backend, dict[str, Part]] = {}
    src: dict[Backend, tuple[str, ...]] = {}
    for component, folder in zip(components, folders, strict=True):
        backend = BACKENDS[type(component)]
        parts = extensions.setdefault(backend, {})
        # Two components of one crate are one dependency, with the features of both.
        features = parts[folder].features if folder in parts else ()
        features = tuple(dict.fromkeys((*features, *component.features)))
        parts[folder] = Part(crate=by_folder[folder], features=features)
        src[backend] = tuple(dict.fromkeys((*src.get(backend, ()), *component.src)))
    found = Crates(
        kernel=kernel.folder,
        crates=crates,
        edges=reading.edges,
        src=src,
        extensions={backend: tuple(parts.values()) for backend, parts in extensions.items()},
        devices=tuple(
            _oxide_device(
                part, beside[part.name], by_folder[posixpath.dirname(part.cargo_manifest)], kernel.folder, shown
            )
            if part.dsl is Dsl.CUDA_OXIDE
            else Device(
                component=part.name,
                dsl=part.dsl,
                crate=by_folder[beside[part.name]],
                host=by_folder[posixpath.dirname(part.cargo_manifest)],
            )
            for part in components
            if isinstance(part, RustCuda)
        ),
        own=own,
        channel=_channel(kernel.folder, folders, shown),
    )
    _check_devices(found, shown)
    return found


def _oxide_device(component: RustCuda, folder: str, host: Crate, kernel: Path, shown: str) -> Device:
    """The device crate of a component of cuda-oxide, which no workspace that all share can have as a member.

    It depends on crates of cuda-oxide's repository, which only the pinned nightly compiles.
    """
    root = _nearest(kernel, folder, _is_root)
    where = f"{shown}/{posixpath.join(folder, 'Cargo.toml')}"
    if root is None:
        raise ConfigError(
            f"{where}: [workspace]: with cuda-oxide the device crate is in a workspace of its own, or of the kernel's; "
            "add an empty [workspace], and run 'cargo generate-lockfile' there"
        )
    crate = manifest.crate(manifest.read(kernel / folder / "Cargo.toml", where), folder, where)
    return Device(component=component.name, dsl=component.dsl, crate=crate, host=host, root=root)


def _device_folder(component: RustCuda, kernel: Path, shown: str) -> str:
    manifest_path = component.device_manifest or "device/Cargo.toml"
    if not (kernel / manifest_path).is_file():
        where = f"{shown}/build.toml: [kernel.{component.name}]"
        raise ConfigError(
            f"{where}: {manifest_path} does not exist; write the device code as a library crate there, "
            "or name its Cargo.toml in device-manifest"
        )
    return posixpath.dirname(manifest_path)


def _check_devices(crates: Crates, shown: str) -> None:
    hosts: dict[str, str] = {}
    for device in crates.devices:
        where = f"{shown}/build.toml: [kernel.{device.component}]"
        if device.crate.folder == device.host.folder:
            raise ConfigError(f"{where} device-manifest: the host crate itself; device code needs a crate of its own")
        other = hosts.setdefault(device.host.name, device.component)
        if other != device.component:
            raise ConfigError(
                f"{where} cargo-manifest: {device.host.name!r} is the host crate of [kernel.{other}] too; "
                "it can embed the image of one component, so give each a host crate, or make them one component"
            )
        reached = {crate.name for crate in crates.reach(device.crate.folder)}
        if device.dsl is Dsl.CUTILE and TILE not in reached:
            raise ConfigError(
                f"{shown}/{device.crate.manifest}: [dependencies]: {TILE} is missing; "
                "with it a device crate says what of it is compiled"
            )


def load_all(kernels: Iterable[Kernel]) -> tuple[dict[str, Crates], dict[str, str]]:
    """By the kernel's key: the crates of each kernel that is in Rust, and what is wrong with those of the others."""
    loaded, wrong = {}, {}
    for kernel in kernels:
        try:
            if found := load(kernel):
                loaded[kernel.key] = found
        except ConfigError as error:
            wrong[kernel.key] = str(error)
    wrong |= clashes(loaded.values())
    return {key: crates for key, crates in loaded.items() if key not in wrong}, wrong


def clashes(loaded: Iterable[Crates]) -> Iterator[tuple[str, str]]:
    """Key and message for each kernel in the shared workspace with a crate of a name that another crate there has."""
    where: dict[str, dict[str, set[str]]] = {}
    for crates in loaded:
        for crate in crates.crates if crates.own is None else ():
            path = posixpath.normpath(posixpath.join("kernels", crates.key, crate.manifest))
            where.setdefault(crate.name, {}).setdefault(path, set()).add(crates.key)
    for name, paths in where.items():
        for path, keys in paths.items() if len(paths) > 1 else ():
            others = ", ".join(other for other in paths if other != path)
            message = f"{path}: [package] name: {name!r} is also the name of {others}; rename one"
            # A crate that kernels share is not at fault: who has another of its name is.
            if not path.startswith(f"kernels/{SHARED}/"):
                yield from ((key, message) for key in sorted(keys))


class _Reading:
    """Reads the manifests of one kernel."""

    def __init__(self, folder: Path, shown: str) -> None:
        self._folder = folder
        self._shown = shown
        # By the folder of each crate that was read: those of the crates that it depends on by path.
        self.edges: dict[str, tuple[str, ...]] = {}

    def reach(self, folders: list[str], *, own: str | None) -> Iterator[Crate]:
        """The crates in `folders`, then those that they depend on by path, directly or not."""
        waiting, seen = list(dict.fromkeys(folders)), set[str]()
        if own is not None:
            # What members of the kernel's own workspace take from its root.
            offered = tuple(self._beside(manifest.read(self._folder / own / "Cargo.toml", self._show(own)), own))
            waiting += offered
            self.edges[own] = offered
        while waiting:
            folder = waiting.pop(0)
            if folder in seen:
                continue
            seen.add(folder)
            shown = self._show(folder)
            document = manifest.read(self._folder / folder / "Cargo.toml", shown)
            crate = manifest.crate(document, folder, shown)
            if folder in folders:
                manifest.check_library(document, self._folder / folder, shown)
            if own is None or folder.startswith("../"):
                manifest.check_member(document, shown)
            beside = tuple(self._beside(document, folder))
            waiting += beside
            self.edges[folder] = tuple(dict.fromkeys((*self.edges.get(folder, ()), *beside)))
            yield crate

    def _beside(self, document: Document, folder: str) -> Iterator[str]:
        """The folders of the dependencies by path, each inside the kernel's folder or among the shared crates."""
        shown = self._show(folder)
        for name, path in manifest.path_dependencies(document):
            beside = posixpath.normpath(posixpath.join(folder, path))
            beside = "" if beside == "." else beside
            is_shared = re.fullmatch(rf"\.\./{SHARED}/[^/]+", beside)
            if path.startswith("/") or (beside.startswith("..") and not is_shared):
                raise ConfigError(
                    f"{shown}: dependency {name!r}: {path!r} is outside of the kernel's folder; "
                    f"move the crate into it, or to kernels/{SHARED} where several kernels share it"
                )
            if not (self._folder / beside / "Cargo.toml").is_file():
                raise ConfigError(f"{shown}: dependency {name!r}: there is no {path}/Cargo.toml; correct the path")
            yield beside

    def _show(self, folder: str) -> str:
        return posixpath.normpath(posixpath.join(self._shown, folder, "Cargo.toml"))


def _own_root(kernel: Path, folders: list[str], shown: str) -> str | None:
    """The root of the workspace that a kernel brings: the nearest manifest above its crates with a Cargo.lock."""
    roots = {_nearest(kernel, folder, _is_root) for folder in folders}
    if len(roots) > 1:
        raise ConfigError(f"{shown}: its Rust components are in several workspaces; make them members of one")
    return roots.pop()


def _is_root(folder: Path) -> bool:
    return (folder / "Cargo.lock").is_file() and (folder / "Cargo.toml").is_file()


def _channel(kernel: Path, folders: list[str], shown: str) -> str:
    """The toolchain that a kernel asks for, by the file that rustup would find from its crates' folders."""
    channels = set()
    for folder in folders:
        found = _nearest(kernel, folder, lambda above: _toolchain_file(above) is not None)
        file = _toolchain_file(kernel / found) if found is not None else None
        channels.add(_read_channel(file, f"{shown}/{file.relative_to(kernel).as_posix()}") if file else "")
    if len(channels) > 1:
        raise ConfigError(f"{shown}: its Rust components ask for several toolchains; keep one rust-toolchain.toml")
    return channels.pop()


def _toolchain_file(folder: Path) -> Path | None:
    return next((folder / name for name in _TOOLCHAIN_FILES if (folder / name).is_file()), None)


def _read_channel(path: Path, shown: str) -> str:
    content = path.read_bytes()
    bare = content.decode("utf-8", "replace").strip()
    if path.suffix == "" and _CHANNEL.fullmatch(bare):
        return bare
    table = manifest.parse(content, shown).get("toolchain")
    channel = table.get("channel") if isinstance(table, dict) else None
    if not isinstance(channel, str) or not _CHANNEL.fullmatch(channel):
        raise ConfigError(f'{shown}: [toolchain] channel: missing; name one, for instance channel = "1.95.0"')
    return channel


def _nearest(kernel: Path, folder: str, test: Callable[[Path], bool]) -> str | None:
    """The nearest folder at or above `folder`, within the kernel's, that passes a test."""
    while not test(kernel / folder):
        if not folder:
            return None
        folder = posixpath.dirname(folder)
    return folder
