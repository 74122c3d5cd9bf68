import { afterEach, expect, test } from 'vitest'
import { describeWithNixl } from './nixl-availability.ts'
import { openPair, type Pair } from './peer-loss.ts'

const environment = { UCX_TLS: 'sm,self,tcp' }
let pair: Pair | null = null

afterEach(async () => {
  await pair?.close()
  pair = null
})

describeWithNixl(() => {
  test.each(['read', 'write'] as const)(
    'SIGKILL of the peer in the middle of a %s over CMA: failed, once',
    { timeout: 120_000 },
    async (direction) => {
      const open = (pair = await openPair(environment))
      // Several, so that some are still to come when the peer dies: one copy takes tens of ms.
      for (let index = 0; index < 8; index++) open.post(direction)
      await open.until(() => open.completions.length > 0)
      expect(open.completions[0]).toMatchObject({ status: 'done' })
      expect(open.agent.counters().transfersOpen).toBeGreaterThan(1)
      await open.child.kill()
      await open.until(() => open.completions.length === 8)
      expect(open.completions.at(-1)).toMatchObject({
        status: 'failed',
        error: { code: 'ERR_KV_TRANSFER_FAILED' },
      })
      expect(new Set(open.completions.map(({ transfer }) => transfer)).size).toBe(8)
      expect(open.agent.counters()).toMatchObject({ transfersOpen: 0, transfersDraining: 0 })
    },
  )

  test(
    'SIGSTOP of the peer in the middle of a read over CMA: done all the same',
    { timeout: 120_000 },
    async () => {
      const open = (pair = await openPair(environment))
      for (let index = 0; index < 4; index++) open.post('read')
      await open.until(() => open.completions.length > 0)
      open.child.signal('SIGSTOP')
      await open.until(() => open.completions.length === 4)
      for (const { status } of open.completions) expect(status).toBe('done')
      open.child.signal('SIGCONT')
    },
  )
})
