"""Computes every vector of test/vectors that concerns a trader; the TypeScript tests compute the same files."""

import json
import os
import unittest
from decimal import Decimal
from pathlib import Path

from tacit_client import bodies, notes, receipts, statistics
from tacit_client.encoding import from_base58, from_hex, sha256, to_base58, u64_of
from tacit_client.errors import ReceiptRefused, StatisticsRefused
from tacit_client.poseidon import poseidon

VECTORS = Path(os.environ.get("TACIT_VECTORS") or Path(__file__).parents[3] / "test" / "vectors")
TEXTS = {"symbol", "side", "type", "source"}


def read(name):
    return json.loads((VECTORS / f"{name}.json").read_text())


def value_of(field, value):
    if field in TEXTS:
        return value
    if field == "amounts":
        return [u64_of(one) for one in value]
    if field == "inputs":
        return [bytes.fromhex(one) for one in value]
    # Every hash and key of the vectors is at least 16 bytes, every decimal at most 20 digits.
    return bytes.fromhex(value) if len(value) >= 32 else u64_of(value)


class Vectors(unittest.TestCase):
    def test_bodies(self):
        cases = read("bodies")
        self.assertEqual({case["name"] for case in cases}, set(bodies.LAYOUTS))
        for case in cases:
            fields = {field: value_of(field, value) for field, value in case["fields"].items()}
            body = bodies.encode_body(case["name"], **fields)
            self.assertEqual(body.hex(), case["body"])
            seed = bytes.fromhex(case["seed"])
            self.assertEqual(notes.sign(seed, body).hex(), case["signature"])
            self.assertTrue(receipts.is_signed(bytes.fromhex(case["signature"]), body, notes.public_key_of(seed)))
            self.assertFalse(receipts.is_signed(bytes.fromhex(case["signature"]), body + b"\0", notes.public_key_of(seed)))

    def test_anchors_and_venue(self):
        anchors = read("anchors")
        self.assertEqual(bodies.anchor_pool_hash([bytes.fromhex(a) for a in anchors["anchors"]]).hex(), anchors["pool_hash"])
        venue = read("venue")
        parts = [bytes.fromhex(venue[name]) for name in ("genesis_hash", "program_id", "config_account")]
        self.assertEqual(bodies.venue_id(*parts, venue["generation"]).hex(), venue["venue"])

    def test_notes(self):
        case = read("notes")
        owner, mint, blinding = (bytes.fromhex(case[name]) for name in ("owner", "mint", "blinding"))
        amount = int(case["amount"])
        self.assertEqual(notes.note_inner(owner, blinding).hex(), case["inner"])
        settled = notes.commitment_of(owner, mint, amount, blinding)
        self.assertEqual(settled.hex(), case["settlement_commitment"])
        deposited = notes.commitment_of(owner, mint, amount, blinding, case["leaf_index"])
        self.assertEqual(deposited.hex(), case["deposit_commitment"])
        nullifiers = {notes.nullifier_of(one, blinding).hex() for one in (settled, deposited)}
        self.assertIn(case["nullifier"], nullifiers)
        made = case["output_blinding"]
        given = (bytes.fromhex(made["anchor"]), bytes.fromhex(made["order_id"]), int(made["nonce"]))
        self.assertEqual(notes.output_blinding(*given, made["generation"], made["index_role"]).hex(), made["blinding"])
        fee = case["fee_blinding"]
        place = fee["generation"] << 32 | 2 * fee["mint_index"]
        self.assertEqual(poseidon(4, bytes.fromhex(fee["fee_anchor"]), fee["day"], place).hex(), fee["blinding"])
        self.assertEqual(notes.encode_memo(blinding, amount).hex(), case["memo"])
        self.assertEqual(notes.decode_memo(bytes.fromhex(case["memo"]), blinding), amount)
        self.assertIsNone(notes.decode_memo(bytes(16), blinding))

    def test_wallet(self):
        wallet = read("wallet")
        seed = bytes.fromhex(wallet["seed"])
        for case in wallet["cases"]:
            k, x = case["key_index"], case["x"]
            self.assertEqual(notes.derive_trading_key(seed, k).hex(), case["trading_key_seed"])
            self.assertEqual(notes.public_key_of(notes.derive_trading_key(seed, k)).hex(), case["trading_key"])
            self.assertEqual(notes.derive_deposit_blinding(seed, k, x).hex(), case["deposit_blinding"])
            self.assertEqual(notes.derive_anchor(seed, k, x).hex(), case["anchor"])
            self.assertEqual(notes.derive_order_id(seed, k, x).hex(), case["order_id"])

    def test_trees(self):
        trees = read("trees")
        tree = trees["note_tree"]
        siblings = [bytes.fromhex(one) for one in tree["siblings_of_leaf_2"]]
        self.assertEqual(notes.root_from_path(bytes.fromhex(tree["leaves"][2]), 2, siblings).hex(), tree["roots"][-1])
        log = trees["spent_log"]
        leaves = [notes.spent_log_leaf(n + 1, list(map(bytes.fromhex, batch))) for n, batch in enumerate(log["batches"])]
        self.assertEqual([leaf.hex() for leaf in leaves], log["leaves"])
        siblings = [bytes.fromhex(one) for one in log["siblings_of_batch_2"]]
        self.assertEqual(notes.root_from_path(leaves[1], 1, siblings, notes.spent_node).hex(), log["roots"][-1])

    def test_receipts(self):
        tree = read("receipt_tree")
        root = bytes.fromhex(tree["root"])
        identity = receipts.VenueIdentity(bytes(32), notes.public_key_of(bytes(32)), 3)
        head = bytes(31) + b"\1"
        signed = bodies.encode_body("receipt", venue=bytes(32), epoch=3, seq=9, head=head, root=root)
        common = {"epoch": 3, "seq": 9, "head": head.hex(), "root": root.hex(), "signature": notes.sign(bytes(32), signed).hex()}
        commands = [bytes.fromhex(one) for one in tree["commands"]]
        for index, (command, path) in enumerate(zip(commands, tree["paths"])):
            receipt = {**common, "index": index, "path": path}
            receipts.verify_receipt(receipt, identity, command, 8)
            false = [
                ({**receipt, "epoch": 2}, command, 0),
                ({**receipt, "head": root.hex()}, command, 0),
                ({**receipt, "path": path[1:]}, command, 0),
                ({**receipt, "index": 2**40}, command, 0),
                ({**receipt, "index": True}, command, 0),
                (receipt, command + b"\0", 0),
                (receipt, command, 9),
            ]
            for changed, of, after in false:
                with self.assertRaises(ReceiptRefused):
                    receipts.verify_receipt(changed, identity, of, after)

    def test_joint_nonce(self):
        case = read("joint_nonce")
        for nonce, path in zip(case["nonces"], case["paths"]):
            self.assertEqual(receipts.quoted_nonce(from_hex(nonce, 32), [from_hex(one, 32) for one in path]).hex(), case["quoted"])

    def test_statistics(self):
        given = read("statistics")
        symbol, period = given["symbol"], given["period"]
        identity = receipts.VenueIdentity(bytes.fromhex(given["venue"]), notes.public_key_of(bytes(32)), 3)
        for case in given["rows"]:
            body = statistics.row_body(identity.venue, symbol, period, case["row"])
            self.assertEqual((body.hex(), sha256(body).hex()), (case["body"], case["row"]["hash"]))
        row = given["rows"][0]["row"]
        signature = notes.sign(bytes(32), bytes.fromhex(given["rows"][0]["body"])).hex()
        page = {"symbol": symbol, "period": period, "items": [row], "signed": {"signature": signature}}
        self.assertEqual(statistics.verify_statistics(page, symbol, period, identity), [row])
        self.assertEqual(statistics.verify_statistics({**page, "items": []}, symbol, period, identity), [])
        before = {"start_unix_s": row["start_unix_s"] - 3600, "hash": "ab" * 32}
        false = [
            ({**page, "symbol": "OTHER"}, None),
            ({**page, "signed": None}, None),
            ({**page, "signed": {"signature": "00" * 64}}, None),
            ({**page, "items": [{**row, "close": "1"}]}, None),
            ({**page, "items": [{**row, "auctions": None}]}, None),
            ({**page, "items": [{**row, "start_unix_s": row["start_unix_s"] + 1}]}, None),
            (page, before),
            (page, {**before, "start_unix_s": row["start_unix_s"]}),
            # The same number in another spelling has the same hash: the returned text would not be the signed one.
            *(({**page, "items": [{**row, "close": lie}]}, None) for lie in (int(row["close"]), f" {row['close']}", Decimal(f"{row['close']}.9"), [], None)),
            *(({**page, "items": [{**row, "start_unix_s": lie}]}, None) for lie in ("x", None, -3600, 3600 * 2**70)),
            *(({**page, "items": lie}, None) for lie in (None, {}, [None], "x")),
            *(({**page, "signed": lie}, None) for lie in ([], "x", {"signature": 5}, {"signature": signature.upper()})),
            *(({**page, "items": [{one: row[one] for one in row if one != name}]}, None) for name in row),
            *(({one: page[one] for one in page if one != name}, None) for name in page),
            ([], None),
        ]
        for changed, last in false:
            with self.subTest(changed), self.assertRaises(StatisticsRefused):
                statistics.verify_statistics(changed, symbol, period, identity, last)

    def test_texts_have_one_spelling(self):
        for data in (bytes(32), bytes(31) + b"\1", bytes(range(32)), b"\xff" * 32):
            self.assertEqual(from_base58(to_base58(data)), data)
            for other in ("1" + to_base58(data), to_base58(data) + "0", to_base58(data[1:]), "z" * 44):
                with self.assertRaises(ValueError):
                    from_base58(other)
        for wrong in ("-1", "01", "1e3", "", str(2**64), "١"):
            with self.assertRaises(ValueError):
                u64_of(wrong)
        with self.assertRaises(ValueError):
            from_hex("AB" * 32, 32)
        self.assertEqual(sha256(b"a", b"b"), sha256(b"ab"))


if __name__ == "__main__":
    unittest.main()
