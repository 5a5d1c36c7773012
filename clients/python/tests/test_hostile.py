"""Attacks on the package by a venue, a network and another program that lie: each is a named error, and changes nothing."""

import json
import os
import subprocess
import sys
import tempfile
import threading
import unittest
from decimal import Decimal
from pathlib import Path

from liar import BASE, INSTRUMENT, LOGIN, LOT, QUOTE, TICK, VENUE, Liar, funded_wallet, http

from tacit_client import (
    BindingRefused,
    InexactValue,
    OutcomeUnknown,
    PinMismatch,
    ReceiptRefused,
    Session,
    TacitError,
    Venue,
    VenueProblem,
    Wallet,
    WalletMismatch,
    WalletOutdated,
    parse_amount,
)
from tacit_client.absorb import absorb_event
from tacit_client.bodies import command_bytes
from tacit_client.encoding import from_base58, sha256, to_base58
from tacit_client.notes import commitment_of, derive_anchor, output_blinding

NOT_JSON = {
    "equal keys": b'{"slot": 1, "slot": 900000000}',
    "NaN": b'{"slot": NaN}',
    "infinity": b'{"slot": -Infinity}',
    "a fraction without end": b'{"slot": 1e999999999}',
    "an integer that no number holds": b'{"slot": 9007199254740993}',
    "an integer of 5,000 digits": b'{"slot": ' + b"9" * 5000 + b"}",
    "depth": b'{"slot": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "a text": b'"slot"',
    "null": b"null",
    "nothing": b"",
    "markup": b"<html>",
    "no UTF-8": b'{"slot": "\xff"}',
}


class Hostile(unittest.TestCase):
    def setUp(self):
        self.liar = Liar()
        self.addCleanup(self.liar.close)

    def session(self) -> Session:
        # The stream is refused in each test: the tests attack answers.
        opened = Session(self.venue(), funded_wallet(), patience_s=0.12)
        self.addCleanup(opened.close)
        return opened

    def venue(self, **options) -> Venue:
        opened = self.liar.venue(**options)
        self.addCleanup(opened.close)
        return opened

    def test_answers_that_are_not_what_they_seem(self):
        venue = self.venue()
        for name, text in NOT_JSON.items():
            for status in (200, 502):
                with self.subTest(name, status=status):
                    self.liar.lies["GET /time"] = http(text, status)
                    with self.assertRaises(ValueError) as raised:
                        venue.get("/time")
                    self.assertIsInstance(raised.exception, TacitError)
        for problem in ({}, [], {"code": 7}):
            self.liar.lies["GET /time"] = http(problem, 502)
            with self.assertRaises(ValueError):
                venue.get("/time")

    def test_a_redirect_is_no_answer_and_is_not_followed(self):
        venue = self.venue()
        for status in (301, 302, 307, 308, 304):
            self.liar.lies["GET /time"] = http({"slot": 5}, status, f"location: {self.liar.url}/elsewhere\r\n")
            with self.assertRaises(ValueError):
                venue.get("/time")
        self.assertNotIn("GET /elsewhere", [call for call, _ in self.liar.asked])

    def test_whatever_answers_an_order_it_is_never_lost_and_never_two(self):
        session = self.session()
        for name, text in NOT_JSON.items():
            for status in (200, 500):
                with self.subTest(name, status=status):
                    self.liar.asked.clear()
                    self.liar.lies["POST /orders"] = http(text, status)
                    with self.assertRaises(OutcomeUnknown) as raised:
                        session.place("SOL-USDC", "sell", LOT, TICK)
                    with self.assertRaises(OutcomeUnknown):
                        session.settle(raised.exception.command_id)
                    sent = [json.dumps(body) for call, body in self.liar.asked if call == "POST /orders"]
                    self.assertGreater(len(sent), 1)
                    self.assertEqual(len(set(sent)), 1)
                    (kept,) = session.open_requests
                    self.assertEqual((kept["id"], json.dumps(kept["request"])), (raised.exception.command_id, sent[0]))
                    # Taken back by hand: the next attack needs the note.
                    session._refused(kept)

    def test_an_answer_without_a_true_receipt_is_refused(self):
        session = self.session()
        lies = {
            "no receipt": lambda _: {"order_id": "00" * 16},
            "null": lambda _: {"receipt": None},
            "a text": lambda _: {"receipt": "x"},
            "an epoch that has ended": lambda command: {"receipt": self.liar.receipt(command, 0)},
            "an epoch to come": lambda command: {"receipt": self.liar.receipt(command, 2**40)},
            "an epoch of text": lambda command: {"receipt": {**self.liar.receipt(command), "epoch": "3"}},
            "another command": lambda command: {"receipt": self.liar.receipt(command + b"\0")},
        }
        for name, lie in lies.items():
            with self.subTest(name):
                self.answer_order(lie)
                with self.assertRaises(ReceiptRefused):
                    session.place("SOL-USDC", "sell", LOT, TICK)
                (kept,) = session.open_requests
                session._refused(kept)
        self.liar.lies["POST /orders"] = http({"code": "order_exists", "applied": "yes"}, 409)
        with self.assertRaises(ReceiptRefused):
            session.place("SOL-USDC", "sell", LOT, TICK)
        session._refused(session.open_requests[0])
        self.answer_order(lambda command: {"receipt": self.liar.receipt(command)})
        self.assertTrue(session.place("SOL-USDC", "sell", LOT, TICK))
        self.assertEqual((session.open_requests, session.receipt_seq), ([], 9))

    def test_commands_of_a_key_are_settled_by_their_nonce_before_a_later_one_is_used(self):
        session = self.session()
        key = to_base58(session.wallet.trading_key(0))
        path, stale = "POST /orders/cancel-all", {"code": "nonce_stale", "applied": "no"}
        self.liar.lies[path] = http(b"")
        with self.assertRaises(OutcomeUnknown) as raised:
            session.cancel_all()
        self.assertEqual(raised.exception.command_id, f"{key}/1")
        # A later nonce that another program used does not show the outcome of this one.
        for nonce_last in ("2", None, 1, "01"):
            self.liar.lies[path] = http({**stale, "nonce_last": nonce_last}, 409)
            with self.assertRaises(OutcomeUnknown):
                session.dead_man(100)
        self.assertNotIn("POST /orders/dead-man", [call for call, _ in self.liar.asked])
        self.assertEqual([sent["id"] for sent in session.open_requests], [f"{key}/1"])
        self.liar.lies[path] = http({**stale, "nonce_last": "1"}, 409)
        # Refused at the first attempt: another program used the nonces up to 7, and the next request has a later one.
        self.liar.lies["POST /orders/dead-man"] = http({**stale, "nonce_last": "7"}, 409)
        self.liar.lies["GET /nonces"] = {"place_nonce": "0", "cancel_nonce": "7"}
        with self.assertRaises(VenueProblem):
            session.dead_man(100)
        self.assertEqual((session.open_requests, session.wallet.state["keys"][0]["cancels"]), ([], 7))

        def taken(body):
            return {"receipt": self.liar.receipt(command_bytes("dead_man", VENUE, body))}

        taken.of_body = True
        self.liar.lies["POST /orders/dead-man"] = taken
        session.dead_man(100)
        self.assertEqual((session.open_requests, self.liar.asked[-1][1]["cancel_nonce"]), ([], "8"))
        for symbol in ("x" * 17, "é"):
            with self.assertRaises(ValueError):
                session.cancel_all(symbol)
        for slots in (-1, 2**64):
            with self.assertRaises(ValueError):
                session.dead_man(slots)
        self.assertEqual((session.open_requests, session.wallet.state["keys"][0]["cancels"]), ([], 8))

    def answer_order(self, lie):
        def answer(body):
            return lie(command_bytes("place", VENUE, body))

        answer.of_body = True
        self.liar.lies["POST /orders"] = answer

    def test_a_connection_that_is_cut_or_drips_leaves_the_outcome_open(self):
        session = self.session()

        def cut(peer):
            peer.sendall(http({"slot": 1})[:-3])
            peer.close()

        def drip(peer):
            peer.sendall(b"HTTP/1.1 200 X\r\ncontent-length: 100000\r\n\r\n")
            while not time_is_over.is_set():
                peer.sendall(b" ")
                time_is_over.wait(0.05)

        time_is_over = threading.Event()
        self.addCleanup(time_is_over.set)
        for attack in (cut, drip):
            with self.subTest(attack.__name__):
                self.liar.lies["POST /orders"] = attack
                with self.assertRaises(OutcomeUnknown):
                    session.place("SOL-USDC", "sell", LOT, TICK)
                session._refused(session.open_requests[0])

    def test_pins(self):
        other = Liar()
        self.addCleanup(other.close)
        with self.assertRaises(PinMismatch):
            Venue(other.url, LOGIN, certificate=self.liar.certificate)
        self.assertEqual(other.asked, [])
        with self.assertRaises(ValueError):
            Venue(self.liar.url, LOGIN, spki_sha256=self.liar.spki.hex())
        for wrong in ("", "00" * 31, "zz" * 32, self.liar.spki.hex().upper()):
            with self.assertRaises(ValueError):
                Venue(self.liar.url, LOGIN, spki_sha256=wrong, tee_pubkey=self.liar.info()["tee_pubkey"])
        with self.assertRaises(BindingRefused):
            self.venue(tee_pubkey=BASE)
        venue = self.venue()
        self.liar.epoch = 2
        with self.assertRaises(BindingRefused):
            venue.identify()
        self.liar.epoch, key, self.liar.statement_seed = 3, self.liar.info()["tee_pubkey"], sha256(b"another")
        with self.assertRaises(BindingRefused):
            venue.identify()
        # A start of the venue has another settlement key: it is taken only where none was judged.
        judged = self.venue(tee_pubkey=key)
        self.liar.epoch, self.liar.settlement_seed = 4, sha256(b"another")
        self.assertEqual(venue.identify().epoch, 4)
        with self.assertRaises(BindingRefused):
            judged.identify()

    def test_a_binding_of_any_other_form_is_refused(self):
        for lie in ({}, [], {"binding": None}, {"binding": {}}, {"binding": []}):
            self.liar.lies["GET /attestation"] = lie
            with self.assertRaises(BindingRefused):
                self.liar.venue()

    def test_terms_that_no_instrument_has_sign_nothing(self):
        session = self.session()
        for lie in (
            {"base_decimals": 10**9},
            {"base_decimals": True},
            {"base_decimals": "9"},
            {"fee_bps": 10_001},
            {"fee_bps": -1},
            {"lot_size": "0"},
            {"lot_size": 1000},
            {"tick_size": "1e3"},
            {"max_amount": str(2**64)},
            {"symbol": "OTHER"},
            {"base_mint": QUOTE},
            {"quote_mint": "x"},
        ):
            with self.subTest(lie):
                session._instruments.clear()
                self.liar.lies["GET /instruments/SOL-USDC"] = {**INSTRUMENT, **lie}
                with self.assertRaises(ValueError) as raised:
                    session.place("SOL-USDC", "buy", LOT, TICK)
                self.assertNotIsInstance(raised.exception, InexactValue)
                self.assertEqual((session.open_requests, session.wallet.state["keys"][0]["commands"]), ([], 0))
        for lie in ({}, {"slot": "5"}, {"slot": -1}, {"slot": True}, {"slot": None}):
            self.liar.lies.clear()
            self.liar.lies["GET /time"] = lie
            with self.assertRaises(ValueError):
                session.place("SOL-USDC", "buy", LOT, TICK)
            self.assertEqual(session.open_requests, [])

    def test_nonces_that_no_wallet_can_have_used(self):
        for nonces in ({"place_nonce": str(2**60), "cancel_nonce": "0"}, {"place_nonce": "0", "cancel_nonce": str(2**64 - 1)}):
            self.liar.lies["GET /nonces"] = nonces
            wallet = funded_wallet()
            with self.assertRaises(WalletMismatch):
                Session(self.venue(), wallet)
            self.assertEqual(wallet.state["keys"][0]["commands"], 0)
        for nonces in ({}, {"place_nonce": 1, "cancel_nonce": "0"}, {"place_nonce": "-1", "cancel_nonce": "0"}):
            self.liar.lies["GET /nonces"] = nonces
            with self.assertRaises(ValueError):
                Session(self.venue(), funded_wallet())

    def test_a_generation_that_the_venue_id_does_not_hold_is_refused(self):
        self.liar.generation = 5
        self.assertRaises(BindingRefused, self.session)

    def test_retry_after_of_any_form_is_no_fault(self):
        session = self.session()
        for after in ("1", -5, 1.5, True, None, [], 2**50):
            problem = {"code": "rate_limited", "applied": "no", "retry_after_ms": after}
            self.liar.lies["POST /orders"] = http(problem, 429)
            with self.assertRaises(VenueProblem):
                session.place("SOL-USDC", "sell", LOT, TICK)
            self.assertEqual(session.open_requests, [])

    def test_numbers_that_are_none(self):
        for value in ("NaN", "Infinity", "-1", "1e3", "", " 1", "1_000", "١", "0x10", "1" * 60, "0." + "1" * 60):
            with self.assertRaises(InexactValue):
                parse_amount(value, 9)
        for value in ("NaN", "sNaN", "Infinity", "-1", "1E+999999999", "1E-999999999", "1E+20"):
            with self.assertRaises(InexactValue):
                parse_amount(Decimal(value), 9)
        for value in (1.5, float("nan"), True, None, b"1", 10):
            with self.assertRaises(TypeError):
                parse_amount(value, 9)
        session = self.session()
        for amount in (-LOT, 0, LOT * 10**20, LOT - 1):
            with self.assertRaises(InexactValue):
                session.place("SOL-USDC", "sell", amount, TICK)
        with self.assertRaises((TypeError, InexactValue)):
            session.place("SOL-USDC", "sell", True, TICK)
        for least in (-LOT, 1, 2 * LOT, "0.0000001"):
            with self.assertRaises(InexactValue):
                session.place("SOL-USDC", "sell", LOT, TICK, min_fill=least)


class Events(unittest.TestCase):
    """An order that fills, then statements that a venue may make about it."""

    def setUp(self):
        self.wallet = funded_wallet()
        terms = {"side": "sell", "amount": LOT, "price_limit": 10**9, "expiry_slot": 5}
        request = self.wallet.prepare_place(VENUE, INSTRUMENT, **terms)
        self.order_id, self.seq, self.generation = request["order_id"], 0, 0

    def absorb(self, kind, **data):
        event = {"seq": self.seq + 1, "kind": kind, "data": {"order_id": self.order_id, **data}}
        absorb_event(self.wallet, self.generation, event)
        self.seq += 1

    def fill(self):
        wallet, order = self.wallet, self.wallet.order(self.order_id)

        def commitment(mint, amount, role):
            anchor = derive_anchor(wallet.seed, 0, 0)
            blinding = output_blinding(anchor, bytes.fromhex(order["order_id"]), int(order["nonce"]), 0, role)
            return commitment_of(wallet.trading_key(0), from_base58(mint), amount, blinding).hex()

        return {
            **{"fill_index": 0, "side": "sell", "amount": str(LOT), "price": str(10**9), "quote_amount": str(LOT), "fee": "500"},
            "proceeds_commitment": commitment(QUOTE, LOT - 500, 0),
            "change_commitment": commitment(BASE, 10**12 - LOT, 1),
        }

    def test_a_fill_of_another_form_changes_nothing(self):
        before = json.dumps(self.wallet.state)
        for lie in (
            {"amount": LOT},
            {"amount": "1_000_000"},
            {"amount": " 1000000"},
            {"fee": "-1"},
            {"fee": "501"},
            {"price": "1000000001.0"},
            {"quote_amount": "1e3"},
            {"fill_index": True},
            {"fill_index": -1},
            {"fill_index": Decimal("0.5")},
            {"proceeds_commitment": None},
            {"change_commitment": "00" * 32},
        ):
            with self.subTest(lie), self.assertRaises(WalletMismatch):
                self.absorb("fill.matched", **{**self.fill(), **lie})
            self.assertEqual(json.dumps(self.wallet.state), before)
        self.absorb("fill.matched", **self.fill())
        self.assertEqual(self.wallet.balance(QUOTE), 10**12 + LOT - 500)

    def test_a_void_fill_takes_its_own_notes_and_no_others(self):
        fill = self.fill()
        self.absorb("fill.matched", **fill)
        other = next(note for note in self.wallet.state["notes"] if note["mint"] == QUOTE and note["origin"] == "deposit")
        with self.assertRaises(WalletMismatch):
            self.absorb("fill.voided", **{**fill, "fee": "1000000"})
        self.absorb("fill.voided", **{**fill, "proceeds_commitment": other["commitment"]})
        self.assertEqual((self.wallet.balance(QUOTE), self.wallet.balance(BASE)), (10**12, 10**12))
        self.assertIs(self.wallet.note(other["commitment"]), other)
        self.assertEqual(self.wallet.fees(QUOTE), 0)
        with self.assertRaises(WalletMismatch):
            self.absorb("fill.voided", **fill)

    def test_a_venue_that_was_restored_meets_no_wallet_of_before(self):
        before, self.generation = json.dumps(self.wallet.state), 1
        self.assertRaises(WalletOutdated, lambda: self.absorb("fill.matched", **self.fill()))
        self.assertEqual(json.dumps(self.wallet.state), before)

    def test_the_end_of_an_order_has_an_amount(self):
        for amount in (None, 0, "NaN", "-1", ["0"], True):
            with self.assertRaises(WalletMismatch):
                self.absorb("order.cancelled", filled_amount=amount)
        self.assertTrue(self.wallet.order(self.order_id)["open"])
        self.absorb("order.cancelled", filled_amount="0")
        self.assertEqual(len(self.wallet.free_notes(BASE)), 1)

    def test_a_withdrawal_and_a_reshape_pay_what_was_signed(self):
        note = self.wallet.free_notes(QUOTE)[0]
        paid, _ = self.wallet.prepare_withdrawal(VENUE, note, BASE, 400, 5)
        told = {"withdrawal_id": paid, "commitment": note["commitment"], "status": "submitted", "amount": "400", "fee": "5"}
        before = json.dumps(self.wallet.state)
        for lie in (
            {"amount": "300"},
            {"fee": str(10**12)},
            {"fee": "-5"},
            {},
            {"change_commitment": "11" * 32},
            {"commitment": self.wallet.order(self.order_id)["collateral"]},
            {"status": "refunded", "change_commitment": "11" * 32, "refund_commitment": "x"},
        ):
            with self.subTest(lie), self.assertRaises(WalletMismatch):
                self.absorb("withdrawal.submitted", **{**told, **lie})
            self.assertEqual(json.dumps(self.wallet.state), before)
        self.absorb("withdrawal.voided", **{**told, "status": "voided"})
        self.assertEqual(note["state"], "free")
        with self.assertRaises(ValueError):
            self.wallet.prepare_reshape(VENUE, [note], [1, 2], 5)
        split, _ = self.wallet.prepare_reshape(VENUE, [note], [10**12 - 1, 1], 5)
        told = {"reshape_id": split, "status": "accepted"}
        for outputs in ([], [{"commitment": "11" * 32}], [{"commitment": "11" * 32}] * 2, None, [None, None]):
            with self.assertRaises(WalletMismatch):
                self.absorb("reshape.accepted", **told, outputs=outputs)
        self.assertEqual(self.wallet.balance(QUOTE), 10**12)


class Files(unittest.TestCase):
    def setUp(self):
        self.path = os.path.join(tempfile.mkdtemp(), "wallet.json")
        wallet = funded_wallet()
        content = {"version": 1, "seed": wallet.seed.hex(), "state": wallet.state}
        Path(self.path).write_text(json.dumps(content))
        os.chmod(self.path, 0o600)

    def test_one_program_at_a_time(self):
        first = Wallet.load(self.path)
        again = "import sys; from tacit_client import Wallet; Wallet.load(sys.argv[1])"

        def second():
            return subprocess.run([sys.executable, "-P", "-c", again, self.path], capture_output=True, text=True)

        self.assertIn("WalletInUse", second().stderr)
        first.close()
        self.assertEqual(second().stderr, "")

    def test_a_file_that_others_can_read_or_lead_elsewhere(self):
        os.chmod(self.path, 0o644)
        with self.assertRaises(ValueError):
            Wallet.load(self.path)
        os.chmod(self.path, 0o600)
        link = f"{self.path}.link"
        os.symlink(self.path, link)
        with self.assertRaises(ValueError):
            Wallet.load(link)
        # A file at the name of the next file is neither followed nor kept.
        prey = f"{self.path}.prey"
        Path(prey).write_text("prey")
        os.symlink(prey, f"{self.path}.new")
        wallet = Wallet.load(self.path)
        wallet.save()
        self.assertEqual(Path(prey).read_text(), "prey")
        Path(f"{self.path}.new").write_text("left behind")
        os.chmod(f"{self.path}.new", 0o666)
        wallet.save()
        self.assertEqual(os.stat(self.path).st_mode & 0o777, 0o600)

    def test_what_was_not_saved_was_not_sent(self):
        liar = Liar()
        self.addCleanup(liar.close)
        wallet = Wallet.load(self.path)
        session = Session(liar.venue(), wallet)
        before = json.dumps(wallet.state)
        write, wallet.file.write = wallet.file.write, lambda *_: (_ for _ in ()).throw(OSError("no space"))
        with self.assertRaises(OSError):
            session.place("SOL-USDC", "sell", LOT, TICK)
        self.assertEqual(json.dumps(wallet.state), before)
        self.assertNotIn("POST /orders", [call for call, _ in liar.asked])
        wallet.file.write = write
        session.close()

    def test_a_session_that_cannot_open_keeps_nothing(self):
        liar = Liar()
        self.addCleanup(liar.close)
        liar.lies["POST /orders"] = http(b"")

        def opened():
            return Session(liar.venue(), Wallet.load(self.path), patience_s=0.1)

        with opened() as session, self.assertRaises(OutcomeUnknown):
            session.place("SOL-USDC", "sell", LOT, TICK)
        before = threading.active_count()
        # The request is still open each time, and no abandoned session locks the wallet.
        for _ in range(2):
            with self.assertRaises(OutcomeUnknown):
                opened()
        liar.lies["GET /nonces"] = {}
        for _ in range(2):
            with self.assertRaises(ValueError):
                opened()
        self.assertLessEqual(threading.active_count(), before)
        Wallet.load(self.path).close()

    def test_no_wallet(self):
        for content in ("", "[]", "null", "{}", '{"version": 2}', '{"version": 1, "seed": "00"}', '{"version": 3}', '{"version": 3, "sealed": {}}'):
            Path(self.path).write_text(content)
            with self.assertRaises(ValueError):
                Wallet.load(self.path, "password")


if __name__ == "__main__":
    unittest.main()
