/** Program of the challenge test: two certificates come by TLS-ALPN-01 on a port under load; prints the load's counts. */
import { challengeCertificate, issueCertificate } from '../../../enclave/acme/issue_certificate'
import { listen } from '../../../server/tls/listen'
import { listeningApp, tlsMaterial } from '../../kit/server/harness'
import { openLoad } from '../../kit/server/steady_load'
import { openPebble, pebblePrograms } from './open_pebble'

const listener = listen(listeningApp(), { hostname: '127.0.0.1', port: 0, tls: tlsMaterial() })
const pebble = await openPebble(pebblePrograms()!, listener.port)
const load = await openLoad(listener)
for (let issued = 0; issued < 2; issued += 1) {
  const certificate = await issueCertificate({
    directory_url: pebble.directory_url,
    root_pem: pebble.root_pem,
    account_seed: new Uint8Array(32).fill(issued + 1),
    names: ['venue.example.org', 'api.example.org'],
    solver: {
      type: 'tls-alpn-01',
      present: ({ name, key_authorization }) =>
        listener.answerChallenge(challengeCertificate(name, key_authorization, Date.now())),
    },
    limits: { poll_ms: 50 },
  })
  listener.rotate(certificate)
  await load.sees(certificate.cert_pem)
}
const seen = await load.end()
await pebble.close()
console.log(JSON.stringify(seen))
process.exit(0)
