"""Encodes bytes as the wire does: base58, lowercase hex and decimal 64-bit integers; reads exactly one spelling of each."""

import hashlib
import json
import re
from decimal import Decimal
from typing import Any, TypeVar

from .errors import MalformedAnswer

U64_MAX = 2**64 - 1
JSON_INTEGER_MAX = 2**53 - 1
_FRACTION_LENGTH_MAX = 40
Kind = TypeVar("Kind")
_ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_VALUE_OF = {letter: value for value, letter in enumerate(_ALPHABET)}


def sha256(*parts: bytes) -> bytes:
    """SHA-256 of the parts in a row."""
    return hashlib.sha256(b"".join(parts)).digest()


def u64_le(value: int) -> bytes:
    """8 bytes, little-endian. Raises ValueError outside 64 bits."""
    if not 0 <= value <= U64_MAX:
        raise ValueError("expected an unsigned integer of 64 bits")
    return value.to_bytes(8, "little")


def from_hex(text: str, width: int) -> bytes:
    """Bytes of lowercase hex. Raises ValueError for another width or spelling."""
    if not isinstance(text, str) or not re.fullmatch(f"[0-9a-f]{{{2 * width}}}", text):
        raise ValueError(f"expected {2 * width} lowercase hex digits")
    return bytes.fromhex(text)


def to_base58(data: bytes) -> str:
    number = int.from_bytes(data, "big")
    text = ""
    while number:
        number, digit = divmod(number, 58)
        text = _ALPHABET[digit] + text
    return "1" * (len(data) - len(data.lstrip(b"\0"))) + text


def from_base58(text: str, width: int = 32) -> bytes:
    """Bytes of a key or address. Raises ValueError for another width or spelling."""
    number = 0
    # The longest text is bounded, since the work grows with its square.
    if not isinstance(text, str) or len(text) > 2 * width or any(letter not in _VALUE_OF for letter in text):
        raise ValueError(f"expected base58 of {width} bytes")
    for letter in text:
        number = number * 58 + _VALUE_OF[letter]
    if number < 256**width:
        data = number.to_bytes(width, "big")
        if to_base58(data) == text:
            return data
    raise ValueError(f"expected base58 of {width} bytes")


def u64_of(text: str) -> int:
    """The value of a canonical decimal string. Raises ValueError for a sign, leading zero, exponent or overflow."""
    if not isinstance(text, str) or not re.fullmatch("0|[1-9][0-9]{0,19}", text, re.ASCII) or int(text) > U64_MAX:
        raise ValueError("expected a decimal string of at most 64 bits")
    return int(text)


def parse_json(text: str | bytes) -> Any:
    """The value of a text of the venue. Raises MalformedAnswer for JSON that two parsers read differently: equal
    keys, NaN, integers that JSON numbers do not represent exactly, depth."""
    try:
        return json.loads(
            text, object_pairs_hook=_members, parse_int=_integer, parse_float=_fraction, parse_constant=_no_constant
        )
    except (RecursionError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise MalformedAnswer("the answer is not JSON") from error


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise MalformedAnswer("the answer names a field twice")
    return members


def _integer(text: str) -> int:
    if len(text) > len(str(JSON_INTEGER_MAX)) + 1 or abs(int(text)) > JSON_INTEGER_MAX:
        raise MalformedAnswer("the answer has an integer that JSON does not hold exactly")
    return int(text)


def _fraction(text: str) -> Decimal:
    value = Decimal(text)
    if len(text) > _FRACTION_LENGTH_MAX or not -_FRACTION_LENGTH_MAX < value.adjusted() < _FRACTION_LENGTH_MAX:
        raise MalformedAnswer("the answer has a number out of any range")
    return value


def _no_constant(_: str) -> Any:
    raise MalformedAnswer("the answer has a number that is none")


def member(answer: Any, name: str, kind: type[Kind]) -> Kind:
    """A member of an object in an answer. Raises MalformedAnswer when it is absent or of another type."""
    value = answer.get(name) if isinstance(answer, dict) else None
    # A bool is an int to Python, and to no other side.
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise MalformedAnswer(f"the answer has no {name} of its type")
    return value


def count_of(answer: Any, name: str, most: int = JSON_INTEGER_MAX) -> int:
    """An integer from 0 to `most` in an answer. Raises MalformedAnswer."""
    value = member(answer, name, int)
    if not 0 <= value <= most:
        raise MalformedAnswer(f"the {name} of the answer is out of its range")
    return value


def amount_of(answer: Any, name: str) -> int:
    """A decimal text of 64 bits in an answer. Raises MalformedAnswer."""
    try:
        return u64_of(member(answer, name, str))
    except ValueError as error:
        raise MalformedAnswer(f"the {name} of the answer is no amount") from error
