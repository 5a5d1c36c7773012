"""A venue that is away for a moment, or reached through a node that follows: its own keys and those of the leading node, which signs receipts."""

import contextlib
import unittest

from liar import Liar, funded_wallet, http

from tacit_client import BindingRefused, ReceiptRefused, Session, Venue, VenueProblem
from tacit_client.encoding import sha256
from tacit_client.receipts import verify_receipt


class Front(unittest.TestCase):
    def setUp(self):
        self.liar = Liar()
        self.addCleanup(self.liar.close)

    def venue(self, **options) -> Venue:
        opened = self.liar.venue(**options)
        self.addCleanup(opened.close)
        return opened

    def test_a_venue_that_is_away_for_a_moment_is_asked_again_at_the_opening(self):
        for code, status in (("lease_lost", 503), ("quote_busy", 429)):
            away = http({"code": code, "status": status, "applied": "no"}, status)
            answers = [away, {"place_nonce": "0", "cancel_nonce": "0"}]

            def lie(body, answers=answers):
                return answers.pop(0)

            lie.of_body = True
            self.liar.lies["GET /nonces"] = lie
            opened = Session(self.venue(), funded_wallet(), patience_s=5.0)
            self.addCleanup(opened.close)
            self.assertEqual(answers, [])
            self.liar.lies["GET /nonces"] = away
            with self.assertRaises(VenueProblem):
                Session(self.venue(), funded_wallet(), patience_s=0.1)

    def test_a_node_that_follows_shows_the_leading_one(self):
        front, leader = self.liar, Liar()
        self.addCleanup(leader.close)
        leader.settlement_seed, leader.statement_seed = sha256(b"leading"), sha256(b"leading statement")
        front.epoch, front.leader = 0, leader
        keys = {"tee_pubkey": front.info()["tee_pubkey"], "leader_pubkey": leader.info()["tee_pubkey"]}
        for venue in (self.venue(), self.venue(**keys)):
            self.assertEqual((venue.epoch, venue.info["epoch"]), (3, 3))
            verify_receipt(leader.receipt(b"c"), venue.identity(3), b"c")
            with self.assertRaises(ReceiptRefused):
                verify_receipt(front.receipt(b"c", 3), venue.identity(3), b"c")
            with self.assertRaises(ReceiptRefused):
                verify_receipt(front.receipt(b"c"), venue.identity(3), b"c")
        wrong = [
            {"tee_pubkey": keys["leader_pubkey"], "leader_pubkey": keys["tee_pubkey"]},
            {"tee_pubkey": keys["tee_pubkey"]},
            {**keys, "leader_pubkey": keys["tee_pubkey"]},
        ]
        for pinned in wrong:
            with self.assertRaises(BindingRefused):
                self.venue(**pinned)
        with self.assertRaises(ValueError):
            self.venue(leader_pubkey=keys["leader_pubkey"])
        judged = self.venue(**keys)
        # A nonce that callers share, and paths that lead to another one.
        front.siblings = leader.siblings = [sha256(b"another"), sha256(b"more")]
        for venue in (self.venue(), self.venue(**keys)):
            self.assertEqual(venue.epoch, 3)
        for path in ([], [sha256(b"another").hex()], [7], [{}], "ab", ["00" * 32] * 65):
            leader.shown_path = path
            with self.assertRaises(BindingRefused):
                self.venue()
        front.siblings = leader.siblings = []
        leader.shown_path = None
        # Its own keys, an answer for another nonce, another venue, none.
        for lie in (
            {"info": front.info(), "attestation": front.attestation(bytes(32))},
            {"info": leader.info(), "attestation": leader.attestation(bytes(32))},
            {"info": {**leader.info(), "venue": "11" * 32}, "attestation": leader.attestation(bytes(32))},
        ):
            front.lies["GET /attestation/leader"] = lie
            with self.assertRaises(BindingRefused):
                self.venue()
        del front.lies["GET /attestation/leader"]
        front.leader = front
        with self.assertRaises(BindingRefused):
            self.venue()
        # A takeover: the next leading node was not judged.
        front.leader, leader.epoch, leader.settlement_seed = leader, 4, sha256(b"next")
        with self.assertRaises(BindingRefused):
            judged.identify()
        self.assertEqual(self.venue().epoch, 4)

    def test_nothing_goes_through_a_node_that_follows_to_a_leading_one_that_is_not_judged(self):
        front, leader = self.liar, Liar()
        self.addCleanup(leader.close)
        leader.settlement_seed, leader.statement_seed = sha256(b"leading"), sha256(b"leading statement")
        front.epoch, front.leader = 0, leader
        pinned = self.venue(tee_pubkey=front.info()["tee_pubkey"], leader_pubkey=leader.info()["tee_pubkey"])
        any_leader = self.venue()
        for venue in (pinned, any_leader):
            venue.own("GET", "/nonces")
        self.assertEqual((front.judged, pinned.judged), ([3, 3], {"x-leader-epoch": "3"}))
        leader.epoch, leader.settlement_seed = 4, sha256(b"next")
        with self.assertRaises(BindingRefused):
            pinned.own("GET", "/nonces")
        any_leader.own("GET", "/nonces")
        self.assertEqual(front.judged, [3, 3, 4])
        # A command is settled by its sender, at the leading node that is judged by then.
        leader.epoch = 5
        with self.assertRaises(VenueProblem):
            any_leader.own("POST", "/nonces", {"a": 1})
        with contextlib.suppress(VenueProblem):
            any_leader.own("POST", "/nonces", {"a": 1})
        self.assertEqual(front.judged, [3, 3, 4, 5])
        # The next one cannot be judged: what ends orders goes to it, and nothing else.
        leader.epoch, front.lies["GET /attestation/leader"] = 6, http({"code": "quote_busy", "status": 429}, 429)
        front.lies["DELETE /orders/1"] = front.lies["POST /orders/cancel-all"] = {}
        with self.assertRaises(VenueProblem):
            any_leader.own("DELETE", "/orders/1", {})
        for method, path in (("DELETE", "/orders/1"), ("POST", "/orders/cancel-all")):
            self.assertEqual(any_leader.own(method, path, {}), {})
        for method, path in (("POST", "/orders"), ("GET", "/nonces")):
            with self.assertRaises(VenueProblem):
                any_leader.own(method, path)
        # A leading node takes no such name from a client that verified it.
        self.assertEqual(leader.venue().judged, {})


if __name__ == "__main__":
    unittest.main()
