import { afterEach, expect, test } from 'vitest'
import { describeWithNixl } from './nixl-availability.ts'
import { blockSizeBytes, openPair, type Pair } from './peer-loss.ts'

const environment = { UCX_TLS: 'tcp' }
let pair: Pair | null = null

afterEach(async () => {
  await pair?.close()
  pair = null
})

/** The first bytes are there and the last are not: in the middle of a read. */
async function untilInTheMiddle({ bytes, until }: Pair): Promise<void> {
  await until(() => bytes[64] !== 0)
  expect(bytes[blockSizeBytes - 1]).toBe(0)
}

async function openReadable(): Promise<Pair> {
  pair = await openPair(environment)
  const source = new Uint8Array(blockSizeBytes + 4_096).fill(7)
  await pair.remote.writeMemory(1, 0, source)
  return pair
}

describeWithNixl(() => {
  test.each(['read', 'write'] as const)(
    'SIGKILL of the peer in the middle of a %s over TCP: failed, once',
    { timeout: 120_000 },
    async (direction) => {
      const open = await openReadable()
      open.post(direction)
      if (direction === 'read') await untilInTheMiddle(open)
      expect(open.agent.counters().transfersOpen).toBe(1)
      await open.child.kill()
      await open.until(() => open.completions.length > 0)
      expect(open.completions).toMatchObject([
        { status: 'failed', error: { code: 'ERR_KV_TRANSFER_FAILED' } },
      ])
      open.post('read')
      await open.until(() => open.completions.length > 1)
      expect(open.completions[1]).toMatchObject({ status: 'failed' })
      expect(open.agent.counters()).toMatchObject({ transfersOpen: 0, transfersDraining: 0 })
    },
  )

  test(
    'SIGSTOP of the peer in the middle of a read over TCP: overdue, then done after SIGCONT',
    { timeout: 120_000 },
    async () => {
      const open = await openReadable()
      open.post('read', 1_000)
      await untilInTheMiddle(open)
      open.child.signal('SIGSTOP')
      await open.until(() => open.completions.length > 0)
      expect(open.completions).toMatchObject([
        { status: 'overdue', error: { code: 'ERR_KV_DEADLINE' } },
      ])
      expect(open.agent.counters()).toMatchObject({ transfersOpen: 1, transfersDraining: 1 })
      open.child.signal('SIGCONT')
      await open.until(() => open.completions.length > 1)
      expect(open.completions[1]).toMatchObject({ status: 'done' })
      expect(open.bytes[blockSizeBytes - 1]).toBe(7)
      expect(open.agent.counters()).toMatchObject({ transfersOpen: 0, transfersDraining: 0 })
    },
  )
})
