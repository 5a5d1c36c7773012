"""Verifies the venue's signatures: the statement key of an epoch, the binding of a TLS key, receipts of commands."""

from dataclasses import dataclass
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from .bodies import encode_body
from .encoding import JSON_INTEGER_MAX, from_base58, from_hex, sha256
from .errors import BindingRefused, ReceiptRefused

RECEIPT_PATH_MAX = 32
"""Nodes of the longest path: bounds the work of a check."""
NONCE_PATH_MAX = 64


@dataclass(frozen=True)
class VenueIdentity:
    """The signer of a venue's receipts for one epoch; a restarted venue has another one."""

    venue: bytes
    statement_key: bytes
    epoch: int


def is_signed(signature: bytes, body: bytes, key: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, body)
        return True
    except (InvalidSignature, ValueError):
        return False


def quoted_nonce(nonce: bytes, path: list[bytes]) -> bytes:
    """
    The nonce that an answer to many callers carries: siblings lead to it from this one. No hash that was made before this
    nonce was chosen can be reached from it.
    """
    for sibling in path:
        nonce = sha256(b"tacit/nonces/v1", *sorted((nonce, sibling)))
    return nonce


def identity_of(
    attestation: dict[str, Any], info: dict[str, Any], nonce: bytes, spki_sha256: bytes | None
) -> VenueIdentity:
    """
    The identity that the settlement key certifies and that signs this nonce, or one that callers share, and the TLS key of
    this connection. The attestation's quote is not judged: `tacit verify` does that, and its `tee_pubkey` is the one to
    compare. Without `spki_sha256` the node is one that no connection ends at: the leading one, behind one that follows.
    Raises BindingRefused naming the first check that fails.
    """
    try:
        binding, path = attestation["binding"], attestation.get("nonce_path", [])
        if not isinstance(path, list) or len(path) > NONCE_PATH_MAX:
            raise ValueError("the path of a nonce has another form")
        body, statement = from_hex(binding["body"], 148), from_hex(binding["certificate"], 88)
        key, settlement_key = from_base58(binding["statement_key"]), from_base58(info["tee_pubkey"])
        venue, epoch = from_hex(info["venue"], 32), int(info["epoch"])
        signature, certified = from_hex(binding["signature"], 64), from_hex(binding["certificate_signature"], 64)
        slot = int.from_bytes(body[140:148], "little")
        expected = encode_body("statement", venue=venue, statement_key=key, epoch=epoch)
        bound = encode_body(
            "binding",
            venue=venue,
            nonce=quoted_nonce(nonce, [from_hex(one, 32) for one in path]),
            spki_sha256=body[80:112] if spki_sha256 is None else spki_sha256,
            instance_id=from_hex(info["instance_id"], 20) if info["instance_id"] else bytes(20),
            epoch=epoch,
            slot=slot,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise BindingRefused("the binding is malformed") from error
    if statement != expected or not is_signed(certified, statement, settlement_key):
        raise BindingRefused("the settlement key does not certify this statement key, venue and epoch")
    if body != bound or not is_signed(signature, body, key):
        raise BindingRefused("the statement key does not bind this nonce, instance and TLS key")
    return VenueIdentity(venue, key, epoch)


def verify_receipt(receipt: dict[str, Any], identity: VenueIdentity, command: bytes, after_seq: int = 0) -> None:
    """Verifies that the venue, in this epoch, has signed that `command` is in its journal. `command` is the result
    of `command_bytes`; `after_seq` the journal seq of a receipt seen before the command was first sent. Raises
    ReceiptRefused naming the first check that fails: form, epoch, signature, membership, seq."""
    if not isinstance(receipt, dict):
        raise ReceiptRefused("there is no receipt")
    epoch, seq, index, path = (receipt.get(name) for name in ("epoch", "seq", "index", "path"))
    for value in (epoch, seq, index):
        if type(value) is not int or not 0 <= value <= JSON_INTEGER_MAX:
            raise ReceiptRefused("the receipt has a malformed number")
    if not isinstance(path, list) or len(path) > RECEIPT_PATH_MAX or index >= 2**RECEIPT_PATH_MAX:
        raise ReceiptRefused("the receipt has no well formed path")
    try:
        head, root = from_hex(receipt.get("head"), 32), from_hex(receipt.get("root"), 32)
        nodes, signature = [from_hex(node, 32) for node in path], from_hex(receipt.get("signature"), 64)
    except ValueError as error:
        raise ReceiptRefused("the receipt has a malformed hash") from error
    if epoch == 0:
        raise ReceiptRefused("epoch 0 is of no node that leads")
    if epoch != identity.epoch:
        raise ReceiptRefused(f"the receipt is of epoch {epoch}, not {identity.epoch}")
    body = encode_body("receipt", venue=identity.venue, epoch=epoch, seq=seq, head=head, root=root)
    if not is_signed(signature, body, identity.statement_key):
        raise ReceiptRefused("the receipt is not signed by the statement key of this venue")
    if not is_in_receipt(sha256(b"\0", command), index, nodes, root):
        raise ReceiptRefused("the command is not in the group of the receipt")
    if seq <= after_seq:
        raise ReceiptRefused(f"the receipt is of journal seq {seq}, not after {after_seq}")


def is_in_receipt(leaf: bytes, index: int, path: list[bytes], root: bytes) -> bool:
    """
    True when `leaf` is number `index` of a receipt's group (RFC 6962). The number of leaves is not part of a receipt:
    each set bit of the index has a sibling on the left, and the lowest clear bits, as many as nodes remain, one on the right.
    """
    last, right, bit = index, len(path) - index.bit_count(), 1
    if right < 0:
        return False
    while right > 0:
        if not last & bit:
            last, right = last | bit, right - 1
        bit <<= 1
    node = index
    for sibling in path:
        if node & 1 or node == last:
            leaf = sha256(b"\1", sibling, leaf)
            # A last node without a right sibling moves up unhashed.
            while node and not node & 1:
                node, last = node >> 1, last >> 1
        else:
            leaf = sha256(b"\1", leaf, sibling)
        node, last = node >> 1, last >> 1
    return last == 0 and leaf == root
