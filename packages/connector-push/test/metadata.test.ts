import { asRequestId, limits } from '@kvferry/connector-api'
import { createWorld, Engine, until } from '@kvferry/connector-api/testing'
import { expect, test } from 'vitest'
import { push } from '../src/index.ts'
import { decodeMetadata, encodeMetadata, type MetadataEntry } from '../src/metadata.ts'

const requestId = asRequestId('r')
const blockIds = Uint32Array.from({ length: limits.blocksPerPostMax + 1 }, (_, id) => id)

test('blocks that one transfer can’t have reach the worker, with all else of the step', () => {
  const entries: MetadataEntry[] = [
    { kind: 'load', requestId, tokenEnd: blockIds.length, localBlockIds: [blockIds] },
    {
      ...{ kind: 'computed', requestId, tokenEnd: blockIds.length, isLast: true },
      ...{ firstBlock: 0, blockIds },
    },
    { kind: 'release', requestId },
  ]
  expect(decodeMetadata(encodeMetadata(entries))).toEqual(entries)
})

test('a step without news has bytes of its own, whatever became of the last one’s', () => {
  encodeMetadata([]).fill(0xff)
  expect(decodeMetadata(encodeMetadata([]))).toEqual([])
})

test('a load of more blocks than one transfer can have fails by name, and nothing else with it', async () => {
  const world = createWorld({ factory: push })
  const d = await Engine.start(world, {
    ...{ engineId: 'd0', blockTokens: 1, blockCount: blockIds.length + 4 },
  })
  const params = {
    ...{ do_remote_prefill: true, transfer_id: 't', tp_size: 1, remote_engine_id: 'p0' },
    ...{ remote_host: '127.0.0.1', remote_port: 1, remote_request_id: 'x' },
  }
  const load = d.admit('d-1', blockIds.length, params)
  const other = d.admit('d-2', 4, { ...params, transfer_id: 'u' })
  d.step()
  await until(world, () => load.outcome !== 'loading' && other.outcome !== 'loading')
  expect([load.errorCode, other.errorCode]).toEqual(['ERR_KV_LIMIT', 'ERR_KV_PEER_UNAVAILABLE'])
})
