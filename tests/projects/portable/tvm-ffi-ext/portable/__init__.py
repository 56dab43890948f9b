from ._ops import ops

PARTS = [
    "exceptions",
    "files",
    "mathematics",
    "number_texts",
    "openmp",
    "parsing",
    "shared_pointers",
    "streams",
    "thread_locals",
    "threads",
    "timed_waits",
]


def works(part: str) -> bool:
    return getattr(ops, part)() == 1
