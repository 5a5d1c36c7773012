"""A venue that proves its keys and then gives the answers of a test: real TLS, real signatures, false content."""

import json
import socket
import ssl
import tempfile
import threading
from datetime import datetime, timedelta
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from tacit_client import Venue, Wallet
from tacit_client.bodies import encode_body, venue_id
from tacit_client.encoding import sha256, to_base58
from tacit_client.notes import commitment_of, public_key_of, sign
from tacit_client.receipts import quoted_nonce
from tacit_client.venue import spki_sha256_of

PARTS = {name: sha256(name.encode()) for name in ("genesis_hash", "program_id", "config_account")}
VENUE = venue_id(*PARTS.values(), 0)
BASE, QUOTE = to_base58(sha256(b"base")), to_base58(sha256(b"quote"))
LOGIN = {"api_key": "k", "api_secret": "s", "passphrase": "p", "account_id": "ab" * 32}
LOT, TICK = 10**6, 10**3
INSTRUMENT = {
    **{"symbol": "SOL-USDC", "base_mint": BASE, "quote_mint": QUOTE, "base_decimals": 9, "quote_decimals": 6},
    **{"fee_bps": 5, "lot_size": str(LOT), "tick_size": str(TICK), "min_amount": str(LOT), "max_amount": "1000000000000"},
}


def certificate_files(folder: str) -> tuple[str, str]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    now = datetime(2026, 1, 1)
    builder = builder.serial_number(1).not_valid_before(now).not_valid_after(now + timedelta(days=36_500))
    names = x509.SubjectAlternativeName([x509.DNSName("localhost")])
    made = builder.add_extension(names, False).sign(key, SHA256())
    paths = (str(Path(folder, "cert.pem")), str(Path(folder, "key.pem")))
    Path(paths[0]).write_bytes(made.public_bytes(Encoding.PEM))
    Path(paths[1]).write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return paths


class Liar:
    """`lies` maps "METHOD /path" to raw bytes of an answer, to a value, or to a function of the request's body."""

    def __init__(self):
        self.folder = tempfile.mkdtemp()
        self.certificate, key = certificate_files(self.folder)
        self.spki = spki_sha256_of(ssl.PEM_cert_to_DER_cert(Path(self.certificate).read_text()))
        self.generation = 0
        self.epoch, self.settlement_seed, self.statement_seed = 3, sha256(b"settlement"), sha256(b"statement")
        self.lies, self.asked = {}, []
        # By calls that were answered: the epoch that they named.
        self.judged: list[int] = []
        # Siblings of each nonce, as of callers who ask in the same moment, and the ones shown instead.
        self.siblings, self.shown_path = [], None
        # The node that this one follows.
        self.leader: Liar | None = None
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(self.certificate, key)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.url = f"https://localhost:{self.port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def venue(self, **options) -> Venue:
        return Venue(self.url, LOGIN, certificate=self.certificate, timeout_s=1.0, **options)

    def close(self):
        self._listener.close()

    def _accept(self):
        while True:
            try:
                plain, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(plain,), daemon=True).start()

    def _serve(self, plain):
        try:
            with self._context.wrap_socket(plain, server_side=True) as peer:
                reader = peer.makefile("rb")
                while line := reader.readline():
                    method, target, _ = line.decode().split(" ")
                    length, judged = 0, None
                    while (header := reader.readline().strip()):
                        if header.lower().startswith(b"content-length:"):
                            length = int(header.split(b":")[1])
                        if header.lower().startswith(b"x-leader-epoch:"):
                            judged = int(header.split(b":")[1])
                    body = json.loads(reader.read(length)) if length else None
                    self.asked.append((f"{method} {urlsplit(target).path}", body))
                    answer = self._answer(f"{method} {urlsplit(target).path}", target, body)
                    # As a node that follows answers for another leading one.
                    if judged is not None and self.leader is not None and judged != self.leader.epoch:
                        code, applied = ("outcome_unknown", "unknown") if body else ("lease_lost", "no")
                        answer = http({"code": code, "status": 503, "applied": applied}, 503)
                    elif judged is not None:
                        self.judged.append(judged)
                    if callable(answer):
                        return answer(peer)
                    peer.sendall(answer if isinstance(answer, bytes) else http(answer))
        except (OSError, ValueError):
            pass

    def _answer(self, call, target, body):
        if call in self.lies:
            lie = self.lies[call]
            return lie(body) if callable(lie) and getattr(lie, "of_body", False) else lie
        if call == "GET /info":
            return self.info()
        if call == "GET /attestation":
            return self.attestation(bytes.fromhex(parse_qs(urlsplit(target).query)["nonce"][0]))
        if call == "GET /attestation/leader" and self.leader is not None:
            nonce = bytes.fromhex(parse_qs(urlsplit(target).query)["nonce"][0])
            return {"info": self.leader.info(), "attestation": self.leader.attestation(nonce)}
        return {
            "POST /auth/token": {"access_token": "t", "expires_in": 900, "account_id": LOGIN["account_id"]},
            "GET /instruments/SOL-USDC": INSTRUMENT,
            "GET /time": {"slot": 1000, "unix_ms": 1},
            "GET /nonces": {"place_nonce": "0", "cancel_nonce": "0"},
        }.get(call, http({"code": "route_unknown", "applied": "no"}, 404))

    def info(self):
        key = to_base58(public_key_of(self.settlement_seed))
        parts = {name: to_base58(value) for name, value in PARTS.items()}
        named = {"venue": VENUE.hex(), **parts, "generation": self.generation}
        return {"tee_pubkey": key, **named, "epoch": self.epoch, "instance_id": ""}

    def attestation(self, nonce: bytes):
        key = public_key_of(self.statement_seed)
        statement = encode_body("statement", venue=VENUE, statement_key=key, epoch=self.epoch)
        fields = {"venue": VENUE, "nonce": quoted_nonce(nonce, self.siblings), "spki_sha256": self.spki, "instance_id": bytes(20)}
        body = encode_body("binding", **fields, epoch=self.epoch, slot=7)
        binding = {
            **{"body": body.hex(), "signature": sign(self.statement_seed, body).hex()},
            **{"certificate": statement.hex(), "statement_key": to_base58(key)},
            "certificate_signature": sign(self.settlement_seed, statement).hex(),
        }
        path = [one.hex() for one in self.siblings] if self.shown_path is None else self.shown_path
        return {"binding": binding, "nonce_path": path}

    def receipt(self, command: bytes, epoch: int | None = None) -> dict:
        """A true one of a group of one command."""
        at, root, head = self.epoch if epoch is None else epoch, sha256(b"\0", command), sha256(b"head")
        body = encode_body("receipt", venue=VENUE, epoch=at, seq=9, head=head, root=root)
        signature = sign(self.statement_seed, body).hex()
        return {"epoch": at, "seq": 9, "index": 0, "path": [], "head": head.hex(), "root": root.hex(), "signature": signature}


def http(answer, status: int = 200, more: str = "") -> bytes:
    body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
    head = f"HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n{more}\r\n"
    return head.encode() + body


def funded_wallet(amount: int = 10**12) -> Wallet:
    wallet = Wallet(sha256(b"seed"))
    blinding = sha256(b"blinding")[:31].rjust(32, b"\0")
    for mint, leaf in ((BASE, 0), (QUOTE, 1)):
        wallet.counters(0)
        commitment = commitment_of(wallet.trading_key(0), b"\0" * 32, amount, blinding, leaf)
        note = {"commitment": commitment.hex(), "key_index": 0, "mint": mint, "amount": str(amount)}
        wallet.state["notes"].append({**note, "blinding": blinding.hex(), "leaf_index": leaf, "state": "free", "origin": "deposit"})
    return wallet
