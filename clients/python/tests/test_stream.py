"""Attacks on the stream of events by a venue that lies on a real socket: no event is made up, skipped or taken twice."""

import json
import ssl
import tempfile
import threading
import unittest
from pathlib import Path
from types import SimpleNamespace

from liar import LOGIN, certificate_files
from websockets.exceptions import ConnectionClosed
from websockets.sync.server import serve

from tacit_client import BindingRefused, EventsMissing, PinMismatch
from tacit_client.stream import follow_events
from tacit_client.venue import pinned_context, spki_sha256_of

HELLO = {"type": "hello", "heartbeat_ms": 5000, "unix_ms": 1}


def event(seq, **other):
    return {"type": "event", "seq": seq, "kind": "order.accepted", "slot": 7, "unix_ms": 1, "data": {}, **other}


def without(name, seq=1):
    return {key: value for key, value in event(seq).items() if key != name}


MALFORMED = {
    "no JSON": "{",
    "equal keys": '{"type": "event", "seq": 1, "seq": 2, "kind": "x", "slot": 7, "unix_ms": 1, "data": {}}',
    "depth": "[" * 100_000,
    "a list": [],
    "null": None,
    "bytes that are no text": b"\xff\xfe",
    "no type": {"seq": 1},
    "a type that is no text": {"type": 1},
    "no seq": without("seq"),
    "a seq that is a text": event("1"),
    "a seq that is true": event(True),
    "a seq below zero": event(-1),
    "a seq that no number holds": '{"type": "event", "seq": 18446744073709551617, "kind": "x", "data": {}}',
    "no kind": without("kind"),
    "a kind that is a list": event(1, kind=["order.accepted"]),
    "no data": without("data"),
    "data that are a text": event(1, data="x"),
    "no slot": without("slot"),
    "a slot below zero": event(1, slot=-1),
    "no time": without("unix_ms"),
    "a time that is a fraction": event(1, unix_ms=1.5),
    "a heartbeat below zero": {**HELLO, "heartbeat_ms": -1},
    "a heartbeat of a day": {**HELLO, "heartbeat_ms": 86_400_000},
    "a gap that is a text": {"type": "gap", "seq_to": "9"},
}


class Stream(unittest.TestCase):
    def setUp(self):
        self.sockets, self.asked, self.closes, self.leads = [], [], False, []
        folder = tempfile.mkdtemp()
        certificate, key = certificate_files(folder)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        server = serve(self._serve, "127.0.0.1", 0, ssl=context, process_request=self._lead)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.shutdown)
        self.certificate = Path(certificate).read_text()
        spki = spki_sha256_of(ssl.PEM_cert_to_DER_cert(self.certificate))
        self.venue = SimpleNamespace(
            **{"host": "localhost", "port": server.socket.getsockname()[1], "timeout_s": 5.0, "judged": {}},
            **{"context": pinned_context(spki, self.certificate), "token": lambda: LOGIN["api_key"], "forget": lambda token: None},
        )

    def _lead(self, socket, request):
        """Each of `leads` answers one upgrade with a redirect to it. A socket for another leading node than that of epoch 4 is refused."""
        if request.headers.get("x-leader-epoch", "4") != "4":
            return socket.respond(503, "")
        if self.leads and request.path.startswith("/ws/trading?after=4"):
            answer = socket.respond(302, "")
            answer.headers["Location"] = self.leads.pop()
            return answer

    def _serve(self, socket):
        """One list of frames for each connection, the last one for all further ones."""
        self.asked.append(socket.request.path)
        frames = self.sockets.pop(0) if len(self.sockets) > 1 else self.sockets[0]
        try:
            for frame in frames:
                socket.send(frame if isinstance(frame, str | bytes) else json.dumps(frame))
            if not self.closes:
                socket.recv()
        except ConnectionClosed:
            pass

    def follow(self, *sockets, after=0):
        self.sockets, self.asked = list(sockets), []
        ended = threading.Event()
        self.addCleanup(ended.set)
        return follow_events(self.venue, after, ended)

    def test_a_frame_of_another_form_is_no_event_and_the_stream_goes_on_behind_the_last_one(self):
        for name, frame in MALFORMED.items():
            with self.subTest(name):
                if isinstance(frame, dict) and frame.get("seq") == 1:
                    frame = {**frame, "seq": 6 if frame["seq"] is not True else True}
                events = self.follow([HELLO, event(5), frame, event(6, data={"made": "up"})], [HELLO, event(6)], after=4)
                self.assertEqual([next(events)["seq"], next(events)["data"]], [5, {}])
                self.assertEqual(self.asked, ["/ws/trading?after=4", "/ws/trading?after=5"])
                events.close()

    def test_a_redirect_is_not_followed_and_a_socket_to_another_key_carries_nothing(self):
        for lead in ("/elsewhere", f"wss://127.0.0.1:{self.venue.port}/elsewhere", "ws://localhost:1/", "x:y", ""):
            with self.subTest(lead):
                self.leads = [lead]
                events = self.follow([HELLO, event(5)], after=4)
                self.assertEqual(next(events)["seq"], 5)
                self.assertEqual((self.asked, self.leads), (["/ws/trading?after=4"], []))
                events.close()
        self.asked, self.venue.context = [], pinned_context(bytes(32), self.certificate)
        with self.assertRaises(PinMismatch):
            next(follow_events(self.venue, 4))
        self.assertEqual(self.asked, [])

    def test_an_event_that_was_taken_is_not_taken_again(self):
        events = self.follow([HELLO, event(1), event(1, data={"again": 1}), event(0), event(2)])
        self.assertEqual([next(events)["data"], next(events)["seq"]], [{}, 2])

    def test_a_socket_is_opened_once_the_next_leading_node_is_verified_and_never_to_one_that_is_not(self):
        def moved():
            self.venue.judged = {"x-leader-epoch": "4"}

        self.venue.judged, self.venue.moved = {"x-leader-epoch": "3"}, moved
        self.assertEqual(next(self.follow([HELLO, event(1)]))["seq"], 1)

        def refused():
            raise BindingRefused("no key that was judged")

        self.venue.judged, self.venue.moved = {"x-leader-epoch": "3"}, refused
        with self.assertRaises(BindingRefused):
            next(self.follow([HELLO, event(1)]))
        self.assertEqual(self.asked, [])

    def test_what_is_left_out_ends_the_stream(self):
        for frame in (event(3), event(2**53 - 1), {"type": "gap", "seq_to": 2}, {"type": "gap", "seq_to": 2**53 - 1}):
            with self.subTest(frame):
                events = self.follow([HELLO, event(1), frame])
                self.assertEqual(next(events)["seq"], 1)
                with self.assertRaises(EventsMissing):
                    next(events)

    def test_a_venue_that_closes_each_socket_is_asked_less_and_less(self):
        waits = []

        class Ended(threading.Event):
            def wait(self, timeout=None):
                waits.append(timeout)
                if len(waits) == 6:
                    self.set()
                return True

        self.sockets, self.asked, self.closes = [[HELLO]], [], True
        self.assertEqual(list(follow_events(self.venue, 0, Ended())), [])
        self.assertEqual(waits, [0.2, 0.4, 0.8, 1.6, 3.2, 5.0])
        # A stream that makes progress is opened again at once.
        waits.clear()
        self.sockets = [[HELLO], [HELLO], [HELLO, event(1)], [HELLO]]
        self.assertEqual([one["seq"] for one in follow_events(self.venue, 0, Ended())], [1])
        self.assertEqual(waits, [0.2, 0.4, 0.2, 0.4, 0.8, 1.6])


if __name__ == "__main__":
    unittest.main()
