"""rustc and cargo of this machine, found once and remembered.

Where rustup manages them, the programs on PATH are its own: they choose a toolchain by folder and environment, and may
install one. So the toolchain is looked up once, and its own programs are called from then on.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
from collections.abc import Iterable
from pathlib import Path

import msgspec

from buildlib import environment, process
from buildlib.environment import Settings
from buildlib.files import write
from buildlib.variant import Version


class Rust(msgspec.Struct, frozen=True, kw_only=True):
    """A Rust toolchain: the paths of its programs, the version and commit of rustc, and the triple of this machine.

    `instead_of` is the version that published builds are made with, where this is another.
    """

    cargo: str
    rustc: str
    version: str
    commit: str
    host: str
    instead_of: str | None = None

    @property
    def identity(self) -> str:
        return f"rustc {self.version} {self.commit} {self.host}"


class Requirements(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """toolchains/rust.toml: the oldest rustc, the one of published builds, and how to get one."""

    minimum: str
    published: str
    install: str


class _Remembered(msgspec.Struct, frozen=True):
    """What was found, and the state of its rustc by which it is still true."""

    rust: Rust
    state: str


def probe(settings: Settings, root: Path, required: Requirements, channels: Iterable[str]) -> dict[str, Rust | str]:
    """The toolchain for each channel that a kernel asks for, or why there is none; the empty channel is the default.

    The default is RUSTUP_TOOLCHAIN, else the version of published builds where rustup has it, else what `rustc` is.
    """
    return {channel: _Probe(settings, root, required).find(channel) for channel in sorted(channels)}


class _Probe:
    def __init__(self, settings: Settings, root: Path, required: Requirements) -> None:
        self._settings = settings
        self._root = root
        self._required = required
        self._path = settings.passed.get("PATH")
        self._rustup = environment.home_of(settings, "rustup")

    def find(self, channel: str) -> Rust | str:
        rustc, cargo = (shutil.which(name, path=self._path) for name in ("rustc", "cargo"))
        if rustc is None or cargo is None:
            return f"{'rustc' if rustc is None else 'cargo'} is not on this machine; {self._required.install}"
        if Path(rustc).with_name("rustup").exists():
            return self._of_rustup(rustc, channel)
        rust = self._remembered((rustc,), Path(rustc), Path(cargo))
        if rust is None:
            return f"{rustc} does not answer as rustc does; {self._required.install}"
        if channel and not f"{rust.version}.".startswith(f"{channel}."):
            return (
                f"rust-toolchain.toml asks for {channel}, and {rustc} is {rust.version}; "
                "install rustup, which can have several"
            )
        # A toolchain that a kernel names is its author's choice.
        return rust if channel else self._new_enough(rust)

    def _of_rustup(self, proxy: str, channel: str) -> Rust | str:
        wanted = channel or self._settings.rust.get("RUSTUP_TOOLCHAIN", "")
        folder = self._installed(wanted or self._required.published)
        if folder is None and wanted:
            asks = "rust-toolchain.toml asks" if channel else "RUSTUP_TOOLCHAIN asks"
            return f"{asks} for {wanted}, which is not installed; run 'rustup toolchain install {wanted}'"
        if folder is None:
            # What rustup's own rules say for the checkout; these files decide about it.
            rules = [self._root / name for name in ("rust-toolchain.toml", "rust-toolchain")]
            states = [_state(path) for path in (Path(proxy), self._rustup / "settings.toml", *rules)]
            rust = self._remembered(("rustup", proxy, str(self._root), *states), None, None)
        else:
            rust = self._remembered((str(folder),), folder / "bin/rustc", folder / "bin/cargo")
        if rust is None or not os.path.isfile(rust.cargo):
            return f"rustup has no toolchain with cargo for this checkout; {self._required.install}"
        return rust if channel else self._new_enough(rust)

    def _installed(self, channel: str) -> Path | None:
        """The folder of a toolchain that rustup has installed; none is ever installed from here."""
        # After the channel comes the machine; a date would make it another channel.
        named = re.compile(rf"{re.escape(channel)}(-(?!\d{{4}}-)\S+)?")
        folders = sorted(self._rustup.glob(f"toolchains/{channel}*"))
        return next((folder for folder in folders if named.fullmatch(folder.name) and folder.is_dir()), None)

    def _new_enough(self, rust: Rust) -> Rust | str:
        if Version.parse(rust.version) < Version.parse(self._required.minimum):
            return f"{rust.rustc} is {rust.version}, older than {self._required.minimum}; {self._required.install}"
        if rust.version == self._required.published:
            return rust
        return msgspec.structs.replace(rust, instead_of=self._required.published)

    def _remembered(self, key: tuple[str, ...], rustc: Path | None, cargo: Path | None) -> Rust | None:
        """The toolchain of a rustc, asked once for each content of its file; of no rustc, what rustup chooses."""
        digest = hashlib.sha256(repr(key).encode()).hexdigest()
        record = self._settings.cache / "probes" / f"rust-{digest[:16]}.json"
        try:
            remembered = msgspec.json.decode(record.read_bytes(), type=_Remembered)
            if remembered.state == _state(Path(remembered.rust.rustc)):
                return remembered.rust
        except (OSError, msgspec.DecodeError):
            pass  # Not asked yet, or the record is from another version: ask.
        if rustc is None:
            sysroot = process.output(["rustc", "--print", "sysroot"], env=self._env(), cwd=self._root)
            if sysroot is None:
                return None
            rustc, cargo = (Path(sysroot.strip()) / "bin" / name for name in ("rustc", "cargo"))
        rust = self._ask(rustc, cargo)
        if rust is not None:
            # A cache that cannot be written costs the question at the next run, and nothing else.
            with contextlib.suppress(OSError):
                write(record, msgspec.json.encode(_Remembered(rust, _state(rustc))))
        return rust

    def _ask(self, rustc: Path, cargo: Path | None) -> Rust | None:
        said = process.output([str(rustc), "-vV"], env=self._env())
        found = dict(re.findall(r"^(release|commit-hash|host): (\S+)$", said or "", re.MULTILINE))
        if not {"release", "host"} <= found.keys():
            return None
        return Rust(
            cargo=str(cargo),
            rustc=str(rustc),
            version=found["release"],
            # Two builds of one version may differ, as a distribution's own does; "unknown" is what rustc says then.
            commit=found.get("commit-hash", "unknown")[:9],
            host=found["host"],
        )

    def _env(self) -> dict[str, str]:
        return environment.child(self._settings, **self._settings.rust, RUSTUP_AUTO_INSTALL="0")


def _state(path: Path) -> str:
    """What changes when a file does."""
    try:
        stat = path.stat()
    except OSError:
        return "missing"
    return f"{stat.st_size} {stat.st_mtime_ns} {stat.st_ino}"
