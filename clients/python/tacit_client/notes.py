"""Hashes notes, checks their place in the trees, and derives everything of a wallet from its one seed."""

from collections.abc import Callable, Sequence

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from .encoding import sha256, u64_le
from .poseidon import FIELD_MODULUS, poseidon

TREE_DEPTH = 40
ANCHORS_PER_COMMAND = 16


def note_inner(owner: bytes, blinding: bytes) -> bytes:
    """Poseidon(1, owner_hi, owner_lo, blinding). The owner is a trading key."""
    return poseidon(1, owner[:16], owner[16:], blinding)


def settlement_commitment(mint: bytes, amount: int, inner: bytes) -> bytes:
    """Poseidon(2, mint_hi, mint_lo, amount, inner). The amount is in base units of the mint."""
    return poseidon(2, mint[:16], mint[16:], amount, inner)


def commitment_of(owner: bytes, mint: bytes, amount: int, blinding: bytes, leaf_index: int | None = None) -> bytes:
    """The commitment of an opening: deposit form exactly when `leaf_index` is given."""
    inner = note_inner(owner, blinding)
    if leaf_index is not None:
        inner = poseidon(6, inner, leaf_index)
    return settlement_commitment(mint, amount, inner)


def nullifier_of(commitment: bytes, blinding: bytes) -> bytes:
    """Poseidon(3, commitment, blinding)."""
    return poseidon(3, commitment, blinding)


def output_blinding(anchor: bytes, order_id: bytes, nonce: int, generation: int, index_role: int) -> bytes:
    """
    Poseidon(4, anchor, order_id * 2^64 + nonce, generation * 2^32 + index_role); `index_role` = 2j + role of fill j,
    role 0 proceeds, 1 change. A withdrawal or reshape has an order id of zeros.
    """
    return poseidon(4, anchor, int.from_bytes(order_id, "big") << 64 | nonce, generation << 32 | index_role)


def encode_memo(blinding: bytes, amount: int) -> bytes:
    """The 16 bytes on chain by which a wallet finds an output again: a tag, then the amount, masked."""
    digest = sha256(b"tacit/memo/v1", blinding)
    mask = int.from_bytes(digest[8:16], "little")
    return digest[:8] + u64_le(amount ^ mask)


def decode_memo(memo: bytes, blinding: bytes) -> int | None:
    """The amount in a memo of this blinding; None when the tag belongs to another one."""
    digest = sha256(b"tacit/memo/v1", blinding)
    if len(memo) != 16 or memo[:8] != digest[:8]:
        return None
    return int.from_bytes(memo[8:], "little") ^ int.from_bytes(digest[8:16], "little")


def spent_log_leaf(batch: int, nullifiers: Sequence[bytes]) -> bytes:
    """The leaf of a settlement batch in the spent log; `nullifiers` are all of the batch, ascending."""
    return sha256(b"tacit/spent/v1", u64_le(batch), *nullifiers)


def spent_node(left: bytes, right: bytes) -> bytes:
    return sha256(b"\1", left, right)


def root_from_path(
    leaf: bytes, index: int, siblings: Sequence[bytes], node: Callable[[bytes, bytes], bytes] = poseidon
) -> bytes:
    """The root a leaf leads to through its 40 siblings, from the leaf upwards; of the note tree unless `node` differs."""
    if len(siblings) != TREE_DEPTH:
        raise ValueError("expected 40 siblings")
    for sibling in siblings:
        leaf = node(sibling, leaf) if index & 1 else node(leaf, sibling)
        index >>= 1
    return leaf


def _derived(seed: bytes, label: str, index: int, width: int) -> bytes:
    if len(seed) != 32:
        raise ValueError("a seed has 32 bytes")
    info = label.encode() + u64_le(index)
    return HKDF(algorithm=SHA256(), length=width, salt=b"tacit/wallet/v1", info=info).derive(seed)


def _placed(key_index: int, x: int) -> int:
    if not 0 <= x < 2**32:
        raise ValueError("index is outside a key")
    return key_index * 2**32 + x


def _element(data: bytes) -> bytes:
    return (int.from_bytes(data, "big") % FIELD_MODULUS).to_bytes(32, "big")


def derive_trading_key(seed: bytes, key_index: int) -> bytes:
    """Ed25519 seed of a trading key."""
    return _derived(seed, "trading-key", key_index, 32)


def derive_account_key(seed: bytes) -> bytes:
    """Ed25519 seed of the account key."""
    return _derived(seed, "account-key", 0, 32)


def derive_deposit_blinding(seed: bytes, key_index: int, x: int) -> bytes:
    """Blinding of deposit x of a key."""
    return _element(_derived(seed, "deposit-blinding", _placed(key_index, x), 48))


def derive_anchor(seed: bytes, key_index: int, x: int) -> bytes:
    """Anchor x of a key; command n takes x = 16n + i."""
    return _element(_derived(seed, "anchor", _placed(key_index, x), 48))


def derive_order_id(seed: bytes, key_index: int, n: int) -> bytes:
    """Order id of command n of a key, 16 bytes."""
    return _derived(seed, "order-id", _placed(key_index, n), 16)


def public_key_of(seed: bytes) -> bytes:
    """Raw 32-byte Ed25519 key of a 32-byte seed."""
    return Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()


def sign(seed: bytes, body: bytes) -> bytes:
    """64-byte Ed25519 signature over exactly `body`."""
    return Ed25519PrivateKey.from_private_bytes(seed).sign(body)
