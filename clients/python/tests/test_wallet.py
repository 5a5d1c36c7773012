"""A wallet that was used stays with its vault."""

import unittest

from tacit_client import Wallet, WalletOfOtherVault
from tacit_client.absorb import join_venue

FIRST = {"genesis_hash": "first", "program_id": "program", "generation": 0}


class Vaults(unittest.TestCase):
    def test_a_fresh_wallet_goes_to_any_vault_and_a_used_one_to_its_own(self) -> None:
        wallet = Wallet(bytes(32))
        for info in ({**FIRST, "genesis_hash": "second"}, FIRST):
            join_venue(wallet, info)
        wallet.state["seq"] = 1
        join_venue(wallet, FIRST)
        for other in ("genesis_hash", "program_id"):
            with self.assertRaises(WalletOfOtherVault):
                join_venue(wallet, {**FIRST, other: "another"})
        self.assertEqual(wallet.state["vault"], {"genesis_hash": "first", "program_id": "program"})


if __name__ == "__main__":
    unittest.main()
