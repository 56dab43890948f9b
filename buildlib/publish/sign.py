"""Signatures: metadata.json.sigstore, a bundle of the sigstore project, as the client's `verify-signature` reads it.

A signature is of metadata.json, which holds the digest of every other file. Signing needs an identity that somebody
vouches for, which in CI is the job's own; verifying needs no network.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import msgspec
from sigstore.errors import Error as SigstoreError
from sigstore.models import Bundle, ClientTrustConfig, InvalidBundle
from sigstore.oidc import IdentityError, IdentityToken, detect_credential
from sigstore.sign import SigningContext
from sigstore.verify import Verifier
from sigstore.verify.policy import Identity, UnsafeNoOp, VerificationPolicy

from buildlib import check, package
from buildlib.errors import PublishError
from buildlib.files import FileCache, write
from buildlib.package import METADATA, SIGNATURE
from buildlib.plan import BuildSpec
from buildlib.workspace import Workspace

Signer = Callable[[bytes], bytes]


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be said about an artifact, and whether it is what it says it is."""

    line: str
    good: bool


def signer() -> Signer | str:
    """A function that signs, or why there is none: nobody vouches for whoever runs this."""
    try:
        token = detect_credential()
    except IdentityError as error:
        return f"the CI system gives out no identity ({' '.join(str(error).split())})"
    if token is None:
        return "no identity here to sign with; in GitHub Actions, give the job the permission 'id-token: write'"
    context = SigningContext.from_trust_config(ClientTrustConfig.production())
    identity = IdentityToken(token)

    def sign(content: bytes) -> bytes:
        with context.signer(identity) as with_identity:
            return with_identity.sign_artifact(content).to_json().encode("utf-8")

    return sign


def sign_all(specs: Iterable[BuildSpec], workspace: Workspace) -> Iterator[str]:
    """Sign the artifacts that passed their checks and have no signature yet; yield a line for each.

    Raises:
        PublishError: the services that signing needs do not answer as they should.
    """
    try:
        found = signer()
        for spec in specs:
            yield f"{_sign(spec, workspace, found)}"
    except (SigstoreError, OSError) as error:
        raise PublishError(f"signing: {' '.join(str(error).split())}; try again later") from None


def _sign(spec: BuildSpec, workspace: Workspace, sign: Signer | str) -> str:
    folder = workspace.artifact(spec)
    if not check.up_to_date(spec, workspace):
        return f"skipped    {spec.name}: has not passed its checks"
    content = (folder / METADATA).read_bytes()
    if _matches(folder / SIGNATURE, content):
        return f"up to date {spec.name}"
    if isinstance(sign, str):
        return f"skipped    {spec.name}: {sign}"
    write(folder / SIGNATURE, sign(content))
    return f"signed     {spec.name}"


def _matches(bundle: Path, content: bytes) -> bool:
    """Whether a signature is there, and of this content, whoever made it."""
    try:
        return isinstance(_verify(bundle.read_bytes(), content, UnsafeNoOp()), str)
    except (OSError, InvalidBundle, SigstoreError):
        return False


def verify_all(
    built: Sequence[Path], folders: Sequence[Path], workspace: Workspace, identity: str, issuer: str
) -> list[Verdict]:
    """Verify built artifacts, and all that are somewhere below other folders.

    Signatures must be of `identity`, vouched for by `issuer`; with no identity, whoever signed is named.
    """
    inside = {folder: [path.parent for path in sorted(folder.rglob(METADATA))] for folder in folders}
    policy = Identity(identity=identity, issuer=issuer) if identity else UnsafeNoOp()
    # It would say on every use that it works offline, as it was told to.
    logging.getLogger("sigstore").setLevel(logging.ERROR)
    # That nothing was found wrong with nothing would be taken for good news.
    empty = (Verdict(line=f"BAD        {each}: holds no artifact", good=False) for each in folders if not inside[each])
    artifacts = (*built, *itertools.chain.from_iterable(inside.values()))
    found = (_verdict(each, workspace.shown(each), workspace.cache, policy, identity) for each in artifacts)
    return [*found, *empty]


def _verdict(folder: Path, shown: str, cache: FileCache, policy: VerificationPolicy, identity: str) -> Verdict:
    metadata = package.read(folder)
    if metadata is None:
        return Verdict(line=f"BAD        {shown}: no {METADATA} that can be read", good=False)
    if problems := package.damage(folder, metadata, cache):
        return Verdict(line=f"BAD        {shown}: {'; '.join(problems)}", good=False)
    if not (folder / SIGNATURE).exists():
        good = not identity
        return Verdict(line=f"{'good' if good else 'BAD':<10} {shown}: whole; not signed", good=good)
    try:
        who = _verify((folder / SIGNATURE).read_bytes(), (folder / METADATA).read_bytes(), policy)
    except (OSError, InvalidBundle, SigstoreError) as error:
        return Verdict(line=f"BAD        {shown}: the signature is not valid ({_one_line(error)})", good=False)
    return Verdict(line=f"good       {shown}: whole; signed by {who}", good=True)


def _verify(bundle: bytes, content: bytes, policy: VerificationPolicy) -> str:
    """The signer of `content`.

    Raises:
        InvalidBundle: the bundle is none.
        SigstoreError: it is not a valid signature of this content by the signer that the policy wants.
    """
    try:
        parsed = Bundle.from_json(bundle)
    except (ValueError, InvalidBundle):
        # What the library says is about its own classes.
        raise InvalidBundle(f"{SIGNATURE} is not a bundle of sigstore") from None
    Verifier.production(offline=True).verify_artifact(content, parsed, policy)
    return ", ".join(_names(parsed))


def _names(bundle: Bundle) -> list[str]:
    from cryptography.x509 import SubjectAlternativeName  # noqa: PLC0415 - beside its only use

    extension = bundle.signing_certificate.extensions.get_extension_for_class(SubjectAlternativeName)
    return [str(name.value) for name in extension.value]


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
