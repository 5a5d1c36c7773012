/** Sends bytes over a socket as they are and reads the answer. */
import { connect } from 'node:net'

/** Code of the status line. */
export function rawStatus(port: number, request: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1', () => socket.write(request))
    let answer = ''
    socket.on('data', (bytes) => {
      answer += bytes.toString('latin1')
      const match = /^HTTP\/1\.1 ([0-9]{3})/.exec(answer)
      if (match === null) return
      socket.destroy()
      resolve(Number(match[1]))
    })
    socket.on('error', reject)
    socket.on('close', () => reject(new Error('closed without an answer')))
  })
}

/** Head and body of the answer, once the venue has closed the connection. */
export function answered(port: number, request: string): Promise<string[]> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1', () => socket.write(request))
    let answer = ''
    socket.on('data', (bytes) => {
      answer += bytes.toString('latin1')
    })
    socket.on('error', reject)
    socket.on('end', () => resolve(answer.split('\r\n\r\n')))
  })
}
