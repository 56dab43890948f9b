"""The one place that reads the environment, and what a child process gets to see of it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

import msgspec

from buildlib.errors import ToolchainError

# A compiler must see nothing that could change its output unseen: CXXFLAGS, CPATH, LIBRARY_PATH, CMAKE_*,
# TORCH_CUDA_ARCH_LIST and the like stay out because only these names pass.
_PASSED = (
    "HOME", "LANG", "LOGNAME", "PATH", "TEMP", "TMP", "TMPDIR", "TZ", "USER",
    "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "SSL_CERT_FILE",
    "COVERAGE_PROCESS_START", "COVERAGE_PROCESS_CONFIG",
)  # fmt: skip
# Where Rust's tools keep things and how they reach a registry; its packages are pinned by content, whichever it is.
# Nothing that changes what rustc makes of them: RUSTFLAGS, CARGO_BUILD_*, CARGO_PROFILE_* and the like stay out.
_RUST = ("CARGO_HOME", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN")
_RUST_PREFIXES = ("CARGO_HTTP_", "CARGO_NET_", "CARGO_REGISTRIES_", "CARGO_REGISTRY_")

_INDEX = "KERNELYARD_INDEX_"
# What says how pip reaches an index; its other variables would change where packages go.
_PIP = frozenset(
    f"PIP_{name}"
    for name in (
        "CACHE_DIR", "CERT", "CLIENT_CERT", "CONFIG_FILE", "DEFAULT_TIMEOUT", "EXTRA_INDEX_URL", "FIND_LINKS",
        "INDEX_URL", "KEYRING_PROVIDER", "NO_CACHE_DIR", "NO_INDEX", "PROXY", "TRUSTED_HOST",
    )
)  # fmt: skip


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What the user's environment asks for."""

    cache: Path
    cargo_home: Path = Path("~/.cargo")
    max_jobs: int | None = None
    cxx: str | None = None
    cuda_home: Path | None = None
    cutlass: Path | None = None
    # The compiler of cuda-oxide that is plugged into rustc.
    oxide_backend: Path | None = None
    on_ci: bool = False
    # pip's own variables.
    pip: dict[str, str] = {}
    # The URLs of extra package indexes, by the variable that names each.
    indexes: dict[str, str] = {}
    passed: dict[str, str] = {}
    # For Rust's tools alone.
    rust: dict[str, str] = {}


def read(environ: Mapping[str, str] = os.environ) -> Settings:
    """The settings in `environ`: the builder's, pip's, CUDA's, and the places and registries of Rust's tools.

    Raises:
        ToolchainError: MAX_JOBS is no number of jobs.
    """
    home = environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    jobs = environ.get("MAX_JOBS", "")
    return Settings(
        cache=Path(environ.get("KERNELYARD_CACHE") or os.path.join(home, "kernelyard")),
        cargo_home=Path(environ.get("CARGO_HOME") or os.path.join(os.path.expanduser("~"), ".cargo")),
        max_jobs=_number_of_jobs(jobs) if jobs else None,
        cxx=environ.get("CXX") or None,
        cuda_home=Path(cuda) if (cuda := environ.get("CUDA_HOME")) else None,
        cutlass=Path(root) if (root := environ.get("CUTLASS_SRC_DIR") or environ.get("CUTLASS_DIR")) else None,
        oxide_backend=Path(backend) if (backend := environ.get("CUDA_OXIDE_BACKEND")) else None,
        on_ci=environ.get("CI", "") not in {"", "0", "false"},
        pip={name: value for name, value in environ.items() if name in _PIP},
        indexes={name: value for name, value in environ.items() if name.startswith(_INDEX) and value},
        passed={name: environ[name] for name in _PASSED if name in environ},
        rust={name: value for name, value in environ.items() if name in _RUST or name.startswith(_RUST_PREFIXES)},
    )


def _number_of_jobs(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise ToolchainError(f"MAX_JOBS: {text!r} is no number of jobs; set it to 1 or more, or unset it")
    return int(text)


def index_variable(name: str) -> str:
    """The variable by which a user says where an extra package index is, by the index's name in the data files."""
    return _INDEX + re.sub(r"\W", "_", name).upper()


def child(settings: Settings, **extra: str) -> dict[str, str]:
    """The environment of a compiler or a build tool: the passed names, messages in English, and `extra`."""
    return {**settings.passed, "LC_ALL": "C.UTF-8", **extra}


def path_with(settings: Settings, *programs: str) -> str:
    """PATH with the folders of some programs first, and each folder once: the same in a shell where they are first."""
    folders = [os.path.dirname(program) for program in programs]
    return os.pathsep.join(dict.fromkeys([*folders, *settings.passed.get("PATH", os.defpath).split(os.pathsep)]))


def home_of(settings: Settings, tool: str) -> Path:
    """The folder in which `cargo` or `rustup` keeps what it downloads."""
    given = settings.rust.get(f"{tool.upper()}_HOME")
    return Path(given) if given else Path(settings.passed.get("HOME", ""), f".{tool}")
