/** Prompts that may be in the history, as the worker half is asked about them. */
import { asRequestId, blockKeySizeBytes, type RequestView } from '@kvferry/connector-api'
import { createWorld, Engine } from '@kvferry/connector-api/testing'
import { expect, test } from 'vitest'
import { ReturningRequests } from '../src/history/returning-requests.ts'
import { xavier } from '../src/index.ts'
import { xavierLimits } from '../src/limits.ts'
import { createOutbox, decodeMetadata } from '../src/metadata.ts'

test('of a prompt with more blocks than one entry may name, its beginning is asked for', () => {
  const { world } = new Engine(createWorld({ factory: xavier }), { engineId: 'p0' })
  const components = { clock: world.clock, blockTokens: 2, requestStep() {} } as never
  const outbox = createOutbox()
  const returning = new ReturningRequests(components, outbox)
  const countMax = xavierLimits.entryKeyCountMax
  const [requestId, kept] = [asRequestId('long'), asRequestId('short')]
  const view = (id: typeof kept, promptTokenCount: number) =>
    ({
      ...{ requestId: id, promptTokenCount },
      blockKeysOf: (count: number) => {
        // What asks inside vLLM has the keys of just these.
        expect(count).toBe(promptTokenCount - 1)
        return new Uint8Array(blockKeySizeBytes * Math.ceil(count / 2))
      },
    }) as unknown as RequestView
  returning.add(view(kept, 9))
  returning.offer(kept)
  returning.add(view(requestId, 2 * countMax + 500))
  // The engine has the first block itself.
  expect(returning.matched(requestId, 2)).toBe(null)
  expect(decodeMetadata(outbox.drain())).toMatchObject([{ kind: 'ask', requestId }])
  returning.answered({ requestId, question: 1, blockCount: countMax - 1 })
  expect(returning.matched(requestId, 2)).toBe(2 * (countMax - 1))
  // What it has is all that there can be.
  expect(returning.matched(requestId, 2 * countMax)).toBe(0)
  expect(outbox.isEmpty).toBe(true)
})
