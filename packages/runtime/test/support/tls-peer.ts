/** The other end of a TLS side channel as a stranger would write it: any certificate, or none. */
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { connect as connectTls, type TLSSocket } from 'node:tls'
import type { AnyConnectorError, TlsFiles } from '@kvferry/connector-api'
import { FrameReader } from '../../src/side-channel/frame-reader.ts'
import { decodeRefusal } from '../../src/side-channel/refusal.ts'
import type { TestEngine } from './side-channels.ts'

export async function rawTls(p: TestEngine, files: Partial<TlsFiles>): Promise<TLSSocket> {
  const { port } = p.channel.address
  const read = (path: string | undefined) => (path === undefined ? undefined : readFileSync(path))
  const [ca, cert, key] = [read(files.ca), read(files.cert), read(files.key)]
  const socket = connectTls({
    host: '127.0.0.1',
    port,
    rejectUnauthorized: false,
    ...(ca === undefined ? {} : { ca }),
    ...(cert === undefined ? {} : { cert }),
    ...(key === undefined ? {} : { key }),
  })
  socket.on('error', () => {})
  await once(socket, 'secureConnect')
  return socket
}

export async function firstRefusal(socket: TLSSocket): Promise<AnyConnectorError> {
  const reader = new FrameReader()
  for await (const chunk of socket) {
    for (const frame of reader.push(chunk as Buffer)) {
      if (frame.type === 'refusal') return decodeRefusal(frame.body)
    }
  }
  throw new Error('the connection ended without a refusal')
}
