"""Signing where somebody vouches for us, and what is said where nobody does."""

from __future__ import annotations

from pathlib import Path

import pytest
from sigstore.oidc import IdentityError

from buildlib.publish import sign
from buildlib.tasks import Session
from tests.integration.conftest import Yard
from tests.integration.publish.conftest import PREFIX, REPO, VARIANT, Publish
from tests.integration.publish.hub_server import Hub


def signed(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("KERNELYARD_CACHE", str(yard.cache))
    session = Session.open(yard.root)
    specs = [spec for spec in session.plan.specs if spec.kernel.key == "answer"]
    return list(sign.sign_all(specs, session.workspace))


def test_a_signature_is_of_metadata_and_is_published(
    built: Yard, hub: Hub, publish: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bytes] = []

    def signer(content: bytes) -> bytes:
        asked.append(content)
        return b"a bundle"

    monkeypatch.setattr(sign, "signer", lambda: signer)
    assert signed(built, monkeypatch) == [f"signed     answer:{VARIANT}"]
    assert asked == [(built.artifact("answer") / "metadata.json").read_bytes()]
    publish(built)
    assert hub.files(REPO, "v1")[PREFIX + "metadata.json.sigstore"].content == b"a bundle"


def test_an_artifact_that_has_not_passed_its_checks_is_not_signed(built: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sign, "signer", lambda: lambda _: b"a bundle")
    (built.artifact("answer") / "data.json").write_text("altered")
    assert signed(built, monkeypatch) == [f"skipped    answer:{VARIANT}: has not passed its checks"]
    assert not (built.artifact("answer") / "metadata.json.sigstore").exists()


def test_a_ci_system_that_gives_no_identity_is_quoted(built: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    def detect() -> str | None:
        raise IdentityError("missing permission\n  id-token")

    monkeypatch.setattr(sign, "detect_credential", detect)
    assert signed(built, monkeypatch) == [
        f"skipped    answer:{VARIANT}: the CI system gives out no identity (missing permission id-token)"
    ]


def test_a_file_that_is_no_signature_is_told_from_a_good_artifact(built: Yard) -> None:
    signature = built.artifact("answer") / "metadata.json.sigstore"
    for content in ("", "{}", "[]", '{"mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json"}'):
        signature.write_text(content)
        verified = built.doit("verify", "answer")
        assert verified.status == 1
        assert "the signature is not valid (metadata.json.sigstore is not a bundle of sigstore)" in verified.out
    signature.unlink()
    signature.mkdir()
    assert "the signature is not valid ([Errno 21]" in built.doit("verify", "answer").out


def test_a_folder_without_artifacts_is_not_called_good(built: Yard, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    verified = built.doit("verify", str(tmp_path / "empty"), "answer")
    assert verified.status == 1
    assert verified.out.splitlines()[1] == f"BAD        {tmp_path}/empty: holds no artifact"
