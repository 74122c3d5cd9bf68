/** Taking the router down: running requests end properly, late ones are ended, nothing is left. */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import type { ServerResponse } from 'node:http'
import { describe, expect, it } from 'vitest'
import { silentLogger } from '@kvferry/connector-api'
import { startRouter } from '../src/index.ts'
import {
  decodeAnswer,
  peerOf,
  prefillAnswer,
  sendJson,
  startFakeEngine,
} from './support/fake-engine.ts'
import { errorOf, open, prompt, setup } from './support/router-fixture.ts'

/** Local addresses of this process's listening TCP sockets, as hex from the kernel's tables. */
function listeners(): string[] {
  const inodes = new Set(
    readdirSync('/proc/self/fd').flatMap((fd) => {
      try {
        const inode = /^socket:\[(\d+)\]$/.exec(readlinkSync(`/proc/self/fd/${fd}`))?.[1]
        return inode === undefined ? [] : [inode]
      } catch {
        return []
      }
    }),
  )
  return ['tcp', 'tcp6'].flatMap((table) =>
    readFileSync(`/proc/self/net/${table}`, 'utf8')
      .trim()
      .split('\n')
      .slice(1)
      .map((line) => line.trim().split(/\s+/))
      .filter((fields) => fields[3] === '0A' && inodes.has(fields[9] ?? ''))
      .map((fields) => fields[1] ?? ''),
  )
}

const loopbackHex = '0100007F'

describe('shutdown', () => {
  it('lets a running request end and refuses new connections', async () => {
    let response!: ServerResponse
    const { router, d } = await setup({ decode: (_request, opened) => void (response = opened) })
    const asked = d.nextRequest()
    const request = open(router.url, prompt)
    const answer = request.read()
    await asked
    const closed = router.close()
    await expect(open(router.url, prompt).head).rejects.toThrow('ECONNREFUSED')
    sendJson(response, 200, { id: 'late' })
    expect((await answer).text).toBe('{"id":"late"}')
    await closed
  })

  it('ends what still runs at the drain deadline with a typed error', async () => {
    const config = { deadlines: { drainMs: 40 } }
    const { router, d } = await setup({ decode: () => {}, config })
    const asked = d.nextRequest()
    const request = open(router.url, prompt)
    const { aborted } = await asked
    const [answer] = await Promise.all([request.read(), router.close()])
    expect(answer.status).toBe(503)
    expect(errorOf(answer).code).toBe('ERR_KV_CLOSED')
    await aborted
  })

  it('ends streams at the drain deadline with an error event', async () => {
    const config = { deadlines: { drainMs: 40, clientStallMs: 80 } }
    const { router } = await setup({
      decode: (_request, response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' })
        response.write('data: 1\n\n')
      },
      config,
    })
    const request = open(router.url, { ...prompt, stream: true })
    await request.head
    const [answer] = await Promise.all([request.read(), router.close()])
    expect(answer.text).toContain('"code":"ERR_KV_CLOSED"')
    expect(answer.isBroken).toBe(false)
  })

  it('closes twice without harm, and leaves no listener', async () => {
    const before = listeners().length
    const p = await startFakeEngine(peerOf('producer'), prefillAnswer)
    const d = await startFakeEngine(peerOf('consumer'), decodeAnswer)
    const router = await startRouter(
      { prefill: [p.url], decode: [d.url], port: 0 },
      { logger: silentLogger },
    )
    expect(listeners()).toHaveLength(before + 3)
    await Promise.all([router.close(), router.close()])
    await p.kill()
    await d.kill()
    expect(listeners()).toHaveLength(before)
  })

  it('listens on loopback only unless told otherwise', async () => {
    const { router } = await setup()
    const port = Number(new URL(router.url).port).toString(16).toUpperCase().padStart(4, '0')
    const own = listeners().filter((address) => address.endsWith(`:${port}`))
    expect(own).toEqual([`${loopbackHex}:${port}`])
  })
})
