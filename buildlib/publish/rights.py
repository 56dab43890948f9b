"""What the Hub says about a token, read before hours are spent on builds that it could not publish. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

_WRITES = frozenset({"repo.write"})
_CREATES = frozenset({"admin", "write"})


class Rights(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a token may write to a repository: None where only the Hub can tell; and why not."""

    may: bool | None
    why: str = ""


def rights(who: Mapping[str, Any], repo_id: str) -> Rights:
    """Read the answer of `whoami`. An unknown form of it proves nothing."""
    token = (who.get("auth") or {}).get("accessToken") or {}
    role = token.get("role")
    owner = repo_id.partition("/")[0]
    if role == "read":
        return Rights(may=False, why="the token may only read; make one of the kind 'write'")
    if role == "fineGrained":
        return _fine_grained(token.get("fineGrained") or {}, repo_id)
    if role != "write":
        return Rights(may=None)
    return _membership(who, owner)


def _membership(who: Mapping[str, Any], owner: str) -> Rights:
    if who.get("name") == owner:
        return Rights(may=True)
    organisations: Sequence[Mapping[str, Any]] = who.get("orgs") or ()
    for organisation in organisations:
        if organisation.get("name") == owner:
            role = organisation.get("roleInOrg")
            if role == "read":
                why = (
                    f"{who.get('name')} may only read in {owner}; ask an administrator of {owner} for the role 'write'"
                )
                return Rights(may=False, why=why)
            return Rights(may=True if role in _CREATES else None)
    why = f"{who.get('name')} is not a member of {owner}; ask to join it, or publish elsewhere with --repo-prefix"
    return Rights(may=False, why=why)


def _fine_grained(granted: Mapping[str, Any], repo_id: str) -> Rights:
    """A token with rights of its own for each owner or repository."""
    owner = repo_id.partition("/")[0]
    scopes: Sequence[Mapping[str, Any]] = granted.get("scoped") or ()
    for scope in scopes:
        name = (scope.get("entity") or {}).get("name")
        if name in {owner, repo_id} and not _WRITES.isdisjoint(scope.get("permissions") or ()):
            return Rights(may=True)
    why = f"the token has no right 'repo.write' for {owner} or {repo_id}; add it in the token's settings"
    return Rights(may=False, why=why) if "scoped" in granted else Rights(may=None)
