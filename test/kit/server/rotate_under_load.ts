/** Program of the rotation test: certificates change again and again under load; prints the load's counts. */
import { listen } from '../../../server/tls/listen'
import { listeningApp, tlsMaterial } from './harness'
import { openLoad } from './steady_load'

const rotations = Number(process.argv[2])
const listener = listen(listeningApp(), { hostname: '127.0.0.1', port: 0, tls: tlsMaterial() })
const load = await openLoad(listener)
for (let done = 0; done < rotations; done += 1) {
  const next = tlsMaterial()
  listener.rotate(next)
  await load.sees(next.cert_pem)
}
console.log(JSON.stringify(await load.end()))
process.exit(0)
