/** What the failure of each check means for the trader, and what to do about it. */
import type { CheckName } from '../verify/transcript'

const ASK = 'Send nothing. Ask the operator, and another user, whether they see the same.'
const POLICY = 'Send nothing. Change your policy only after you judged the new value by yourself.'
const AGAIN = 'Try again: a fresh answer has fresh values. If it stays, send nothing.'

export const HELP: Readonly<Record<CheckName, readonly [meaning: string, remedy: string]>> = {
  collateral: ['What Intel says about its keys is missing, out of date or forged.', AGAIN],
  quote: ['No genuine TDX machine made this quote.', ASK],
  platform: [
    'Firmware or TDX module lack updates that your policy asks for; known attacks may work.',
    'Wait until the operator has updated the machine, or permit the advisory that you have read.',
  ],
  machine: ['The host can look into the machine, or move it elsewhere.', ASK],
  xfam: ['The machine uses a processor feature that your policy does not know.', POLICY],
  enclave: ['The venue calls itself hardware and shows a simulator, or the reverse.', ASK],
  registers: ['The log of what was started is not the one that was measured.', ASK],
  claims: ['Something more was measured than one app, or the venue names another.', ASK],
  mr_config_id: ['The manifest may have been exchanged after the machine had started.', ASK],
  app: ['It is another app than the one that you pinned.', POLICY],
  key_provider: ['Another service hands out the keys; who runs it could know them.', POLICY],
  compose_hash: [
    'The machine runs another build than the one that you pinned: an upgrade, or something else.',
    'Send nothing. Read what the operator published, reproduce the image, and pin the new hash only then.',
  ],
  manifest: [
    'The shown settings are not the measured ones, or leave room for code that nobody measured.',
    ASK,
  ],
  rpc_operators: ['Too few of the operators that you trust tell the venue what is on chain.', POLICY],
  os_image: ['The operating system below the venue is not one that you pinned.', POLICY],
  report_data: ['The quote was made for another question or another key: it may be old.', AGAIN],
  binding: ['The machine did not sign this epoch, venue and question.', AGAIN],
  tls_key: [
    'Somebody else ends your connection, and can read and change it.',
    'Send nothing, and change the network.',
  ],
  evidence: ['The files that accompany the certificate are of another machine or key.', AGAIN],
  settlement_signer: [
    'The vault does not pay on this key: another instance has replaced the one that answers.',
    'Wait a minute and verify again; a venue that just started opens its epoch first.',
  ],
  vault_state: [
    'The vault is paused or frozen, or its administrator has announced a change.',
    'Read the announcement on the market page. If you do not agree, withdraw or exit before it takes effect.',
  ],
  program: ['The code that holds the money is another one, or can be exchanged without notice.', ASK],
  kms: ['The contract over the keys does not permit this build.', ASK],
  kms_owner: ['Someone whom you did not pin can permit other builds, or faster than you asked for.', POLICY],
  exit_delay: ['A change could take effect before you can leave.', POLICY],
  admin: ['Someone whom you did not pin can announce changes of the vault.', POLICY],
  announced: [
    'The vault no longer admits this machine or build, or admits another one that you do not know, now or later.',
    'Read what is announced on the market page. If you do not agree, withdraw or exit before it takes effect.',
  ],
  machine_list: ['It is another physical machine than those of your list.', POLICY],
  location: ['No authority of your policy says where the machine is, or it says another place.', POLICY],
}
