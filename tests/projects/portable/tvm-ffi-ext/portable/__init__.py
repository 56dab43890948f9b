from ._ops import ops

PARTS = (
    "exceptions threads shared_pointers files number_texts streams thread_locals openmp timed_waits mathematics parsing"
).split()


def works(part: str) -> bool:
    return getattr(ops, part)() == 1
