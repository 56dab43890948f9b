"""Run by load.py in a process of its own: `<artifact> <id> <root of the checkout>`."""

import sys
from pathlib import Path


def main(artifact: Path, extension_id: str, root: Path) -> None:
    # An editable install of the builder puts the checkout on the path; a user's machine has none.
    sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != root]
    # Only now: the path above decides what is found.
    from kernels import get_kernel, get_local_kernel  # noqa: PLC0415

    by_path = get_local_kernel(artifact)
    by_name = get_kernel("kernelyard/check", version=1)
    if by_path.__name__ != extension_id or by_name is not by_path:
        raise SystemExit(f"loaded as {by_path.__name__} and {by_name.__name__}, not as {extension_id}")


main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]).resolve())
