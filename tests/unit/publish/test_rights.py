"""What `whoami` proves about a token, and what it does not."""

from __future__ import annotations

from typing import Any

import pytest

from buildlib.publish.rights import rights


def who(role: str, *, fine: dict[str, Any] | None = None, org_role: str = "write", name: str = "me") -> dict[str, Any]:
    token = {"role": role, **({"fineGrained": fine} if fine is not None else {})}
    return {
        "name": name,
        "orgs": [{"name": "org", "roleInOrg": org_role}],
        "auth": {"type": "access_token", "accessToken": token},
    }


def scope(name: str, *permissions: str) -> dict[str, Any]:
    return {"scoped": [{"entity": {"type": "org", "name": name}, "permissions": list(permissions)}], "global": []}


@pytest.mark.parametrize(
    ("told", "may"),
    [
        (who("read"), False),
        (who("write"), True),
        (who("write", org_role="admin"), True),
        (who("write", org_role="read"), False),
        # A contributor may write to what they made themselves.
        (who("write", org_role="contributor"), None),
        (who("write", name="org"), True),
        (who("fineGrained", fine=scope("org", "repo.content.read", "repo.write")), True),
        (who("fineGrained", fine=scope("org/kernel", "repo.write")), True),
        (who("fineGrained", fine=scope("org", "repo.content.read")), False),
        (who("fineGrained", fine=scope("other", "repo.write")), False),
        (who("fineGrained", fine={}), None),
        (who("something new"), None),
        ({"name": "me"}, None),
        ({"name": "me", "auth": None}, None),
    ],
)
def test_rights(told: dict[str, Any], may: bool | None) -> None:  # noqa: FBT001
    assert rights(told, "org/kernel").may is may


def test_a_stranger_is_told_what_to_ask_for() -> None:
    assert rights(who("write"), "elsewhere/kernel").why == (
        "me is not a member of elsewhere; ask to join it, or publish elsewhere with --repo-prefix"
    )
