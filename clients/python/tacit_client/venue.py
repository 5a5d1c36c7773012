"""Calls the venue over connections whose TLS key is pinned, with a token that it renews."""

import contextlib
import http.client
import json
import os
import ssl
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from .bodies import venue_id
from .encoding import count_of, from_base58, from_hex, member, parse_json, sha256
from .errors import BindingRefused, MalformedAnswer, PinMismatch, VenueProblem, WrongAccount
from .receipts import VenueIdentity, identity_of

_IDLE_MAX_S = 4.0
"""An idle connection may have been closed by the venue."""
_RENEW_AT = 0.8
"""Share of a token's life after which the next call logs in again."""
_GENERATION_MAX = 1_000
"""A vault is restored rarely; the notes of each generation are derived in turn."""
_ANSWER_BYTES_MAX = 64 * 2**20
_LEFT = {"lease_lost", "outcome_unknown"}
"""Another node may lead."""
_ENDS = {"/orders/cancel-all", "/orders/dead-man"}
_DEAD_TOKEN = {"token_invalid", "token_expired", "token_revoked"}


def spki_sha256_of(certificate_der: bytes) -> bytes:
    """SHA-256 of a certificate's public key, as bindings state it."""
    key = x509.load_der_x509_certificate(certificate_der).public_key()
    return sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo))


def pinned_context(spki_sha256: bytes, certificate: str | None = None) -> ssl.SSLContext:
    """
    TLS that ends the handshake with PinMismatch, before anything is sent, unless the key is the pinned one. `certificate` is
    the text of the only one to trust.
    """

    class PinnedSocket(ssl.SSLSocket):
        deadline: float | None = None
        """On the monotonic clock. A time limit of a socket bounds each read, and an answer may take any number of them."""

        def recv_into(self, *args: Any) -> int:
            if self.deadline is not None:
                left = self.deadline - time.monotonic()
                if left <= 0:
                    raise TimeoutError("the answer took too long")
                self.settimeout(left)
            return super().recv_into(*args)

        def do_handshake(self, block: bool = False) -> None:
            try:
                super().do_handshake(block)
            except ssl.SSLCertVerificationError as error:
                self.close()
                raise PinMismatch("the certificate of this address is not the trusted one") from error
            if spki_sha256_of(self.getpeercert(True) or b"") != spki_sha256:
                self.close()
                raise PinMismatch("the TLS key of this address is not the pinned one")

    context = ssl.create_default_context(cadata=certificate)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    if certificate is not None:
        # A certificate that signs itself has no issuer to name; its exact key is pinned.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.sslsocket_class = PinnedSocket
    return context


class Venue:
    """
    One venue, reached over pinned TLS. Its binding is verified when it is opened: the settlement key certifies a
    statement key, which signs a fresh nonce and this TLS key. The quote behind the settlement key is judged by
    `tacit verify`; give the `tee_pubkey` and the TLS key that it accepted.
    """

    def __init__(
        self,
        url: str,
        login: dict[str, str],
        *,
        certificate: str | None = None,
        spki_sha256: str | None = None,
        tee_pubkey: str | None = None,
        leader_pubkey: str | None = None,
        timeout_s: float = 10.0,
    ):
        """
        `url` is the https origin, `login` a login file's content with `account_id`; `certificate` the path of the only
        certificate to trust, or `spki_sha256` the hex digest of the attested TLS key under the system's roots, with the
        `tee_pubkey` beside it, and where that node follows another one `leader_pubkey`, which was accepted with it too. `timeout_s` bounds a whole answer. Raises BindingRefused, PinMismatch, VenueProblem, OSError.
        """
        if (certificate is None) == (spki_sha256 is None):
            raise ValueError("either a certificate or the digest of a TLS key is pinned")
        if spki_sha256 is not None and tee_pubkey is None:
            raise ValueError("an attested TLS key is given with the settlement key that was accepted with it")
        if leader_pubkey is not None and tee_pubkey is None:
            raise ValueError("the key of the leading node is given with that of the one that follows it")
        parts = urlsplit(url)
        if parts.scheme != "https" or parts.hostname is None:
            raise ValueError("a venue is reached over https")
        self.host, self.port = parts.hostname, parts.port or 443
        self._certificate, self._pem = certificate, ""
        self.spki = b"" if spki_sha256 is None else from_hex(spki_sha256, 32)
        self._context = None if spki_sha256 is None else pinned_context(self.spki)
        self.timeout_s, self._login = timeout_s, login
        self._lock = threading.RLock()
        self._connection: http.client.HTTPSConnection | None = None
        self._used = self._renew_at = 0.0
        self._token: str | None = None
        self._identities: dict[int, VenueIdentity] = {}
        self._tee_pubkey, self._leader_pubkey = tee_pubkey, leader_pubkey
        self._follows = False
        self._unjudged = False
        """Another node may lead, which could not be judged yet."""
        self.info: dict[str, Any] = {}
        try:
            self.identify()
        except BaseException:
            self.close()
            raise

    @classmethod
    def laptop(cls, data_dir: str, login: dict[str, str] | None = None) -> "Venue":
        """The venue that `start` runs on this machine, with its demo account unless a login is given."""
        facts = json.loads(Path(data_dir, "laptop.json").read_text())
        demo = login or json.loads(Path(data_dir, "demo-login.json").read_text())["login"]
        return cls(facts["url"], demo, certificate=facts["certificate"])

    @property
    def context(self) -> ssl.SSLContext:
        """The pin of new connections. A certificate's file is read again: `start` makes a new one for each run."""
        pem = Path(self._certificate).read_text() if self._certificate else ""
        if self._context is None or pem != self._pem:
            self._pem, self.spki = pem, spki_sha256_of(ssl.PEM_cert_to_DER_cert(pem))
            self._context = pinned_context(self.spki, pem)
        return self._context

    @property
    def venue_id(self) -> bytes:
        return from_hex(self.info["venue"], 32)

    def identify(self) -> VenueIdentity:
        """
        Verifies the binding of the present epoch. A node that follows binds this TLS key, and shows the leading one, which
        signs receipts. Raises BindingRefused, also when another venue answers.
        """
        nonce = os.urandom(32)
        info, attestation = self.get("/info"), self.get("/attestation", nonce=nonce.hex())
        node = self._judged(info, self._tee_pubkey)
        identity = identity_of(attestation, info, nonce, self.spki)
        if node == 0:
            nonce = os.urandom(32)
            leader = self.get("/attestation/leader", nonce=nonce.hex())
            shown, info = info, member(leader, "info", dict)
            # A node is judged by its own key: that of the leading one is another, unless none was judged.
            if self._judged(info, self._leader_pubkey, self._tee_pubkey is None) == 0 or info.get("venue") != shown.get("venue"):
                raise BindingRefused("the node shows no leading one of its venue")
            identity = identity_of(member(leader, "attestation", dict), info, nonce, None)
        known = self._identities.get(identity.epoch, identity)
        if known != identity or identity.epoch < max(self._identities, default=0):
            raise BindingRefused("an earlier epoch of the venue, or another with its number, answers at this address")
        self.info, self._follows = info, node == 0
        self._identities[identity.epoch] = identity
        return identity

    def _judged(self, info: dict[str, Any], key: str | None, any_key: bool = True) -> int:
        """The epoch of a node, 0 of one that follows. Raises BindingRefused."""
        generation = count_of(info, "generation", _GENERATION_MAX)
        parts = [from_base58(member(info, name, str)) for name in ("genesis_hash", "program_id", "config_account")]
        if venue_id(*parts, generation).hex() != info.get("venue"):
            raise BindingRefused("the venue's id is not that of its chain, program and generation")
        # Each start of a node has another settlement key: the one that was given was judged, and no other.
        is_judged = key == member(info, "tee_pubkey", str) if key is not None else any_key
        if not is_judged or (self.info and info.get("venue") != self.info["venue"]):
            raise BindingRefused("another venue or settlement key answers at this address")
        return count_of(info, "epoch")

    @property
    def epoch(self) -> int:
        """The newest one verified."""
        return max(self._identities)

    @property
    def judged(self) -> dict[str, str]:
        """Of a call of the account: a node that follows passes nothing on to another leading node than this one."""
        return {"x-leader-epoch": str(self.epoch)} if self._follows else {}

    def moved(self) -> bool:
        """Whether another node leads behind this one; it is verified then. Raises BindingRefused."""
        before = self.epoch
        if self._follows:
            self._unjudged = True
            with contextlib.suppress(VenueProblem, OSError, ValueError):
                self.identify()
                self._unjudged = False
        return self.epoch != before

    def identity(self, epoch: int) -> VenueIdentity | None:
        """The signer of receipts of an epoch; None for one before this venue was opened."""
        if epoch > self.epoch:
            self.identify()
        return self._identities.get(epoch)

    def token(self) -> str:
        """A current token. Raises WrongAccount, VenueProblem."""
        with self._lock:
            if self._token is None or time.monotonic() > self._renew_at:
                asked = {name: self._login[name] for name in ("api_key", "api_secret", "passphrase")}
                answer = self._call("POST", "/auth/token", asked, None)
                if member(answer, "account_id", str) != self._login["account_id"]:
                    raise WrongAccount("the venue logs this credential in to another account")
                life_s, self._token = count_of(answer, "expires_in"), member(answer, "access_token", str)
                self._renew_at = time.monotonic() + life_s * _RENEW_AT
            return self._token

    def forget(self, token: str) -> None:
        """Discards a token, unless a newer one has replaced it."""
        with self._lock:
            if self._token == token:
                self._token = None

    def get(self, path: str, **query: Any) -> Any:
        """A public resource. Raises VenueProblem, MalformedAnswer, OSError."""
        return self._call("GET", f"{path}?{urlencode(query)}" if query else path, None, None)

    def own(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        """
        A call of the account. Logs in once more when the venue has forgotten the token, and verifies the next leading node
        behind one that follows: both changed nothing. Raises VenueProblem, BindingRefused; any other error leaves the outcome
        of a command open.
        """
        target = f"{path}?{urlencode(query)}" if query else path
        token = self.token()
        try:
            return self._call(method, target, body, token)
        except VenueProblem as problem:
            if problem.code in _DEAD_TOKEN:
                self.forget(token)
            elif problem.code not in _LEFT:
                raise
            # A command of open outcome is settled at the node that leads by now.
            elif not self.moved() or problem.applied != "no":
                raise
        return self._call(method, target, body, self.token())

    def _call(self, method: str, target: str, body: Any, token: str | None) -> Any:
        headers = {"accept": "application/json"}
        if token is not None:
            # Requests that only end orders, and show none, go to any leading node while the next one cannot be judged.
            ends = self._unjudged and (method == "DELETE" or target in _ENDS)
            headers.update({} if ends else self.judged, authorization=f"Bearer {token}")
        if body is not None:
            headers["content-type"] = "application/json"
        with self._lock:
            if self._connection is None or time.monotonic() - self._used > _IDLE_MAX_S:
                self.close()
                self._connection = http.client.HTTPSConnection(
                    self.host, self.port, timeout=self.timeout_s, context=self.context
                )
            try:
                if self._connection.sock is None:
                    self._connection.connect()
                self._connection.sock.settimeout(self.timeout_s)
                self._connection.sock.deadline = time.monotonic() + self.timeout_s
                self._connection.request(method, target, None if body is None else json.dumps(body), headers)
                response = self._connection.getresponse()
                text, status = response.read(_ANSWER_BYTES_MAX), response.status
                answer = parse_json(text)
                if not isinstance(answer, (dict, list)):
                    raise MalformedAnswer("the answer is neither an object nor a list")
            except http.client.HTTPException as error:
                self.close()
                raise ConnectionError("the connection to the venue was lost") from error
            except BaseException:
                self.close()
                raise
            self._used = time.monotonic()
        if status >= 400:
            member(answer, "code", str)
            raise VenueProblem({**answer, "status": status})
        # A redirect leads to another address than the one that was verified.
        if not 200 <= status < 300:
            raise MalformedAnswer(f"the venue answered with status {status}")
        return answer

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None
