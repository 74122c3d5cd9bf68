/**
 * An agent of nobody's that has copied what P tells its consumers about its memory: real NIXL lets it read, for
 * it has no authentication of its own, and carries its message. That message has no token of P's, so it ends no
 * lease and frees no block.
 */
import { randomBytes } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { WIRE_VERSION, limits, type TransferPost } from '@kvferry/connector-api'
import { ByteWriter } from '@kvferry/connector-api/protocol'
import { createHostAllocator, createNixlAgent } from '@kvferry/native-nixl'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { complete, promptOf } from '../src/completions.ts'
import { startDeployment, type Deployment } from '../src/deployment.ts'
import { askEngine, forAnother } from '../src/engine-call.ts'
import { expectNoBlockKept } from '../src/expectations.ts'
import { waitUntil } from '../src/wait-until.ts'

/** As in connector-pull/src/notification.ts. */
const readDoneKind = 1
const tokenSizeBytes = 16
const maxTokens = 8

let folder: string
let tapFile: string
let deployment: Deployment
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'kvferry-forged-'))
  tapFile = join(folder, 'heard.json')
  const { href: tap } = new URL('fixtures/tapped-pull.mjs', import.meta.url)
  deployment = await startDeployment({
    engineFlags: ['--prefix-caching=off', '--num-blocks=256'],
    env: { KVFERRY_TAP_FILE: tapFile, NODE_OPTIONS: `--import=${tap}` },
  })
})
afterAll(async () => {
  await deployment?.close()
  rmSync(folder, { recursive: true })
})

interface Heard {
  readonly name: string
  readonly metadata: string
  readonly table: string
}

/** What says to P that a READ of this request has landed. */
const readDone = (token: Uint8Array, loadId: number, requestId: string): Uint8Array =>
  new ByteWriter(limits.notificationSizeBytesMax)
    .fixed(token)
    .u8(WIRE_VERSION)
    .u8(readDoneKind)
    .u32(loadId)
    .fixed(new TextEncoder().encode(requestId))
    .finish()

/** Opens an agent, reads one block of P's with each of these messages, and closes it. */
async function readAsStranger(blockId: number, notifications: readonly Uint8Array[]) {
  const { name, metadata, table } = JSON.parse(readFileSync(tapFile, 'utf8')) as Heard
  const agent = await createNixlAgent({ name: 'stranger' })
  try {
    const peer = await agent.addPeer({
      metadata: Buffer.from(metadata, 'hex'),
      expectedName: name,
    })
    const remote = agent.importBlockTable(peer, Buffer.from(table, 'hex'))
    const { blockSizesBytes } = agent.describeBlockTable(remote)
    const sizeBytes = blockSizesBytes.reduce((sum, size) => sum + size, 0)
    const memory = createHostAllocator().allocate({ sizeBytes })
    const region = await agent.registerRegion({ memory, offsetBytes: 0, lengthBytes: sizeBytes })
    let offsetBytes = 0
    const local = agent.declareBlockTable(
      blockSizesBytes.map((blockSizeBytes) => {
        const at = { region, offsetBytes, blockSizeBytes, blockStrideBytes: blockSizeBytes }
        offsetBytes += blockSizeBytes
        return { ...at, blockCount: 1 }
      }),
    )
    const posts = notifications.map((notification): TransferPost => ({
      direction: 'read',
      peer,
      local: { table: local, blockIds: Uint32Array.of(0) },
      remote: { table: remote, blockIds: Uint32Array.of(blockId) },
      notification,
    }))
    agent.post(posts)
    await agent.drain({ deadlineMs: 30_000 })
    expect(agent.counters()).toMatchObject({ transfersDone: posts.length, transfersFailed: 0 })
    return Uint8Array.from(memory.bytes!)
  } finally {
    await agent.close()
  }
}

test('a stranger’s read-done over copied metadata is counted, and the lease that it names lives on', async () => {
  const { routerUrl } = deployment
  // D has met P, and what it was told of P is written down.
  expect((await complete(routerUrl, { prompt: promptOf(100, 1), maxTokens })).kind).toBe('text')
  await expectNoBlockKept(deployment, 'prefill')

  const request = { prompt: promptOf(200, 2), maxTokens }
  const prefillUrl = deployment.child('prefill').ready.url
  const { params } = await askEngine(prefillUrl, { ...request, maxTokens: 1 }, forAnother)
  const { remote_request_id: requestId, remote_block_ids: blockIds } = params as {
    remote_request_id: string
    remote_block_ids: number[][]
  }
  // It begins with P's next step, which the answer need not wait for.
  await waitUntil('the lease is open', async () => {
    return (await deployment.stats('prefill')).connectorCounters['leasesOpen'] === 1
  })
  const before = await deployment.stats('prefill')
  const tokens = [
    ...[randomBytes(tokenSizeBytes), randomBytes(tokenSizeBytes)],
    ...[new Uint8Array(tokenSizeBytes), new Uint8Array(tokenSizeBytes).fill(255)],
  ]
  const forged = tokens.flatMap((token) => [0, 1].map((load) => readDone(token, load, requestId)))
  const seen = await readAsStranger(blockIds[0]![0]!, forged)
  // It did reach P's memory, and its words P's agent.
  expect(seen.some((byte) => byte !== 0)).toBe(true)
  const refused = before.connectorCounters['messagesRefused'] ?? 0
  await waitUntil('every one of them is refused', async () => {
    const { connectorCounters } = await deployment.stats('prefill')
    return connectorCounters['messagesRefused'] === refused + forged.length
  })
  const metrics = await (await fetch(`${prefillUrl}/metrics`)).text()
  expect(metrics).toContain(`kv_messages_refused_total{where="notification"} ${forged.length}`)

  const after = await deployment.stats('prefill')
  expect(after.connectorCounters['leasesOpen']).toBe(1)
  expect(after.connectorCounters['leasesRead']).toBe(before.connectorCounters['leasesRead'])
  expect(after.blocks).toEqual(before.blocks)
  // The reader that it is meant for has it all.
  const loadedBefore = (await deployment.stats('decode')).connectorCounters['loadsDone'] ?? 0
  const answer = await askEngine(deployment.child('decode').ready.url, request, params)
  const expected = await complete(await deployment.oracleUrl(), request)
  expect({ kind: 'text', text: answer.text }).toEqual(expected)
  const { connectorCounters: counters } = await deployment.stats('decode')
  expect(counters).toMatchObject({ loadsDone: loadedBefore + 1, loadsFailed: 0 })
  await expectNoBlockKept(deployment, 'prefill')
})
