"""Describes the signed bodies: fixed length, little-endian integers, zero padding (docs/bodies.md)."""

from collections.abc import Callable, Sequence
from typing import Any

from .encoding import from_base58, from_hex, sha256, u64_le, u64_of

SIDES = ("buy", "sell")
TYPES = ("limit", "ioc", "fok")
RESHAPE_NOTES_MAX = 4

Part = Callable[[Any], bytes]


def _ascii(width: int) -> Part:
    def encode(value: str) -> bytes:
        data = value.encode("ascii")
        if len(data) > width or any(not 32 <= byte < 127 for byte in data):
            raise ValueError(f"expected at most {width} printable ASCII characters")
        return data.ljust(width, b"\0")

    return encode


def _fixed(width: int) -> Part:
    def encode(value: bytes) -> bytes:
        if len(value) != width:
            raise ValueError(f"expected {width} bytes")
        return bytes(value)

    return encode


def _word(words: Sequence[str]) -> Part:
    return lambda value: bytes([words.index(value)])


def _slots(inner: Part, width: int) -> Part:
    def encode(values: Sequence[Any]) -> bytes:
        if not 1 <= len(values) <= RESHAPE_NOTES_MAX:
            raise ValueError("expected 1 to 4 values")
        return b"".join(map(inner, values)).ljust(RESHAPE_NOTES_MAX * width, b"\0")

    return encode


_KEY = _fixed(32)
LAYOUTS: dict[str, tuple[str, tuple[tuple[str, Part | int], ...]]] = {
    "place": (
        "tacit/place/v1",
        (
            ("venue", _KEY),
            ("order_id", _fixed(16)),
            ("trading_key", _KEY),
            ("symbol", _ascii(16)),
            ("side", _word(SIDES)),
            ("type", _word(TYPES)),
            ("", 6),
            ("amount", u64_le),
            ("price_limit", u64_le),
            ("min_fill", u64_le),
            ("expiry_slot", u64_le),
            ("nonce", u64_le),
            ("collateral_commitment", _KEY),
            ("anchor_pool_hash", _KEY),
        ),
    ),
    "cancel": (
        "tacit/cancel/v1",
        (("venue", _KEY), ("order_id", _fixed(16)), ("trading_key", _KEY), ("cancel_nonce", u64_le)),
    ),
    "cancel_all": (
        "tacit/cancelall1",
        (("venue", _KEY), ("symbol", _ascii(16)), ("trading_key", _KEY), ("cancel_nonce", u64_le)),
    ),
    "dead_man": (
        "tacit/deadman/v1",
        (("venue", _KEY), ("trading_key", _KEY), ("cancel_nonce", u64_le), ("timeout_slots", u64_le)),
    ),
    "withdraw": (
        "tacit/withdraw1",
        (
            ("venue", _KEY),
            ("trading_key", _KEY),
            ("commitment", _KEY),
            ("destination", _KEY),
            ("amount", u64_le),
            ("nonce", u64_le),
            ("expiry_slot", u64_le),
            ("change_anchor", _KEY),
        ),
    ),
    "reshape": (
        "tacit/reshape/v1",
        (
            ("venue", _KEY),
            ("trading_key", _KEY),
            ("inputs", _slots(_KEY, 32)),
            ("amounts", _slots(u64_le, 8)),
            ("anchor", _KEY),
            ("nonce", u64_le),
            ("expiry_slot", u64_le),
        ),
    ),
    "statement": ("tacit/statement1", (("venue", _KEY), ("statement_key", _KEY), ("epoch", u64_le))),
    "binding": (
        "tacit/binding/v1",
        (
            ("venue", _KEY),
            ("nonce", _KEY),
            ("spki_sha256", _KEY),
            ("instance_id", _fixed(20)),
            ("epoch", u64_le),
            ("slot", u64_le),
        ),
    ),
    "receipt": (
        "tacit/receipt/v1",
        (("venue", _KEY), ("epoch", u64_le), ("seq", u64_le), ("head", _KEY), ("root", _KEY)),
    ),
    "reference_price": (
        "tacit/refprice1",
        (
            ("venue", _KEY),
            ("symbol", _ascii(16)),
            ("price", u64_le),
            ("publish_unix_ms", u64_le),
            ("source", _ascii(16)),
        ),
    ),
}


def encode_body(name: str, **fields: Any) -> bytes:
    """
    Bytes of a body, which an Ed25519 signature covers as they are. Keys, ids and hashes are bytes, integers are int.
    Raises ValueError when the layout cannot express a value, TypeError for other fields than the layout's.
    """
    domain, layout = LAYOUTS[name]
    if set(fields) != {field for field, _ in layout if field}:
        raise TypeError(f"the fields of a {name} body are others")
    if name == "reshape":
        _require_reshape(fields["inputs"], fields["amounts"])
    parts = [_ascii(16)(domain)]
    for field, part in layout:
        parts.append(bytes(part) if isinstance(part, int) else part(fields[field]))
    return b"".join(parts)


def _require_reshape(inputs: Sequence[bytes], amounts: Sequence[int]) -> None:
    ascending = all(a < b for a, b in zip(inputs, inputs[1:]))
    if not ascending or not all(any(one) for one in inputs) or 0 in amounts or len(inputs) == len(amounts) == 1:
        raise ValueError("not a merge or split")


def anchor_pool_hash(anchors: Sequence[bytes]) -> bytes:
    """SHA-256("tacit/anchors/v1" and the anchors in order): fill j of the order uses anchor j mod count."""
    return sha256(b"tacit/anchors/v1", *anchors)


def venue_id(genesis_hash: bytes, program_id: bytes, config_account: bytes, generation: int) -> bytes:
    """The 32 bytes that bind every body to one cluster, deployment and generation."""
    return sha256(b"tacit/venue/v1", genesis_hash, program_id, config_account, u64_le(generation))


def account_id_of(account_key: bytes) -> str:
    """The account of a 32-byte account key, hex."""
    return sha256(b"tacit/account/v1", account_key).hex()


def body_id(body: bytes) -> str:
    """The id of a withdrawal or reshape: the first 16 bytes of SHA-256 of its body, hex."""
    return sha256(body)[:16].hex()


_HEX16, _HEX32 = ("order_id",), ("collateral_commitment", "commitment", "change_anchor", "anchor")
_U64 = ("amount", "price_limit", "min_fill", "nonce", "cancel_nonce")
_NOT_SIGNED = ("signature", "opening", "openings", "continuation_anchors")


def body_of_request(name: str, venue: bytes, request: dict[str, Any], order_id: str | None = None) -> bytes:
    """The body that the request's signature covers; `order_id` is the one in the path of a cancel."""
    given = {"symbol": ""} if name == "cancel_all" else {"min_fill": "0"} if name == "place" else {}
    fields: dict[str, Any] = {"venue": venue}
    for field, value in {**given, **request}.items():
        if field in _HEX16 + _HEX32:
            value = from_hex(value, 16 if field in _HEX16 else 32)
        elif field in ("trading_key", "destination"):
            value = from_base58(value)
        elif field in _U64:
            value = u64_of(value)
        elif field == "inputs":
            value = [from_hex(one, 32) for one in value]
        elif field == "amounts":
            value = [u64_of(one) for one in value]
        if field not in _NOT_SIGNED:
            fields[field] = value
    if name == "place":
        fields["anchor_pool_hash"] = anchor_pool_hash([from_hex(a, 32) for a in request["continuation_anchors"]])
    if order_id is not None:
        fields["order_id"] = from_hex(order_id, 16)
    return encode_body(name, **fields)


def command_bytes(name: str, venue: bytes, request: dict[str, Any], order_id: str | None = None) -> bytes:
    """Body and signature of a command, the pairs in a row for a modify: the leaf that its receipt proves."""
    if name == "modify":
        new = request["replacement"]
        cancel = {"trading_key": new["trading_key"], "cancel_nonce": request["cancel_nonce"]}
        signed = body_of_request("cancel", venue, cancel, order_id) + from_hex(request["cancel_signature"], 64)
        return signed + command_bytes("place", venue, new)
    return body_of_request(name, venue, request, order_id) + from_hex(request["signature"], 64)
