import { expect, test } from 'vitest'
import { createWorld, sizeBytes } from './fabric-world.ts'

test('a posted transfer touches what it may read and write until its final status', async () => {
  const { clock, fabric, local, post, remote } = await createWorld()
  const of = ({ memory }: typeof local) => ({ memory, offsetBytes: 0, lengthBytes: sizeBytes })
  expect(fabric.touching(of(local))).toEqual([])
  post('read')
  const names = { initiator: 'local', target: 'remote' }
  // From the post, though nothing moves yet.
  expect(fabric.touching(of(local))).toEqual([{ access: 'write', ...names }])
  expect(fabric.touching(of(remote))).toEqual([{ access: 'read', ...names }])
  await clock.advance(100)
  expect(local.completions.map(({ status }) => status)).toEqual(['done'])
  expect(fabric.touching(of(local))).toEqual([])
})

test('blocks that a transfer does not name are not touched', async () => {
  const { fabric, local, peer, remoteTable } = await createWorld()
  const blockIds = Uint32Array.of(1)
  local.agent.post([
    {
      direction: 'write',
      peer,
      local: { table: local.table, blockIds },
      remote: { table: remoteTable, blockIds },
    },
  ])
  const blockSizeBytes = sizeBytes / 8
  const countAt = (block: number): number =>
    fabric.touching({
      memory: local.memory,
      offsetBytes: block * blockSizeBytes,
      lengthBytes: blockSizeBytes,
    }).length
  expect([0, 1, 2].map(countAt)).toEqual([0, 1, 0])
})

test('the end of its initiator stops a transfer, the end of its target does not', async () => {
  const { clock, fabric, local, post } = await createWorld()
  post('read')
  await clock.advance(2)
  const { memory } = local
  const range = { memory, offsetBytes: 0, lengthBytes: sizeBytes }
  fabric.faults.kill('remote')
  expect(fabric.touching(range)).toHaveLength(1)
  fabric.faults.kill('local')
  expect(fabric.touching(range)).toEqual([])
})
