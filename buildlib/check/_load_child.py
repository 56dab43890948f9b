"""Run by load.py in a process of its own: `<artifact> <id> <root of the checkout> <file to make when it is loaded>`."""

import sys
import traceback
from pathlib import Path


def main(artifact: Path, extension_id: str, root: Path, loaded: Path) -> None:
    # An editable install of the builder puts the checkout on the path; a user's machine has none.
    sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != root]
    # Only now: the path above decides what is found.
    from kernels import get_kernel, get_local_kernel  # noqa: PLC0415

    try:
        by_path = get_local_kernel(artifact)
        by_name = get_kernel("kernelyard/check", version=1)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the kernel's
        _tell(error, artifact)
        raise SystemExit(1) from None
    if by_path.__name__ != extension_id or by_name is not by_path:
        raise SystemExit(f"loaded as {by_path.__name__} and {by_name.__name__}, not as {extension_id}")
    loaded.touch()


def _tell(error: BaseException, artifact: Path) -> None:
    """Print a traceback from the kernel's own first line on: how the client came there helps nobody."""
    told = traceback.TracebackException.from_exception(error)
    own = [index for index, frame in enumerate(told.stack) if Path(frame.filename).is_relative_to(artifact)]
    told.stack[:] = told.stack[own[0] :] if own else []
    sys.stderr.write("".join(told.format()))


main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]).resolve(), Path(sys.argv[4]))
