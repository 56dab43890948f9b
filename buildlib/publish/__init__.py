"""Stage 8: artifacts → commits at a destination, of exactly what the destination lacks.

`plan` decides, and knows only trees and digests; `carry_out` reads, decides, commits and looks again; `stage` does so
for all kernels; `hub` and `folder` are the destinations. What is published already is asked of the destination alone,
never of git or of local state. So the answer to every accident (someone else's commit, a lost answer, a run that was
killed) is the same: read again, decide again.
"""

from __future__ import annotations

import msgspec


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What the user asked for on the command line."""

    to: str
    dry_run: bool = False
    create_pr: bool = False
    allow_dirty: bool = False
    private: bool = False
    repo_prefix: str = ""
    output_json: str = ""
