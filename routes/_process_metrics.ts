/** What the runtime itself uses: memory, processor time and the delay of its event loop. */
import { monitorEventLoopDelay } from 'node:perf_hooks'
import type { Metric } from './_meters'

const delay = monitorEventLoopDelay({ resolution: 10 })
delay.enable()

/** The largest delay counts since the last reading. */
export function processMetrics(): Metric[] {
  const { user, system } = process.cpuUsage()
  const gauge = (name: string, help: string, value: number): Metric => ({ name, help, type: 'gauge', value })
  const longest_s = delay.max > 0 ? delay.max / 1e9 : 0
  delay.reset()
  return [
    {
      name: 'process_cpu_seconds_total',
      help: 'Processor time of the process.',
      type: 'counter',
      value: (user + system) / 1e6,
    },
    gauge('process_resident_memory_bytes', 'Resident memory.', process.memoryUsage.rss()),
    gauge('process_uptime_seconds', 'Time since the process began.', process.uptime()),
    gauge(
      'tacit_event_loop_delay_max_seconds',
      'Longest delay of the event loop since the last reading.',
      longest_s,
    ),
  ]
}
