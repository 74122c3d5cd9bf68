/** The path `ipc` between processes, where the agent suite can't look: what a writer leaves behind that is killed. */
import assert from 'node:assert/strict'
import { createDeviceAllocator, createNixlAgent } from '../../src/index.ts'
import { Fixture } from '../children.ts'
import type { WriterOrder } from '../fixtures/ipc-writer.ts'
import { identityOf } from '../process-identity.ts'
import type { GpuCheck, GpuScope } from './check.ts'

const blockBytes = 65_536
const stillMs = 300

export function ipcChecks(scope: GpuScope): GpuCheck[] {
  return [
    {
      name: 'of a process that was killed while it wrote by ipc, nothing appears after processEnded',
      async run() {
        const sizeBytes = scope.runCount * 8 * blockBytes
        const agent = await createNixlAgent({ name: `target-${process.pid}`, device: 0, ipc: {} })
        const memory = createDeviceAllocator({ device: 0 }).allocate({ sizeBytes })
        const layout = { blockSizeBytes: blockBytes, blockStrideBytes: blockBytes }
        const region = await agent.registerRegion({
          memory,
          offsetBytes: 0,
          lengthBytes: sizeBytes,
        })
        const table = agent.declareBlockTable([
          { region, offsetBytes: 0, ...layout, blockCount: sizeBytes / blockBytes },
        ])
        agent.expectNotifications(true)
        const writer = new Fixture('ipc-writer', { parameters: [String(scope.gpuCount - 1)] })
        try {
          assert.equal(await writer.message(), 'ready')
          const order: WriterOrder = {
            ...{ name: agent.name, metadata: await agent.localMetadata() },
            ...{ exported: agent.exportBlockTable(table), sizeBytes, blockBytes },
          }
          writer.process.send(order)
          assert.equal(await writer.message(), 'busy')
          const identity = identityOf(writer.process.pid!)
          await writer.kill()
          await agent.processEnded(identity)
          const found = new Uint8Array(sizeBytes)
          memory.read(0, found)
          assert.ok(found.every((byte) => byte === 1 || byte === 2))
          await new Promise((resolve) => setTimeout(resolve, stillMs))
          const later = new Uint8Array(sizeBytes)
          memory.read(0, later)
          assert.equal(Buffer.compare(found, later), 0)
        } finally {
          await writer.kill()
          await agent.close()
          memory.free()
        }
      },
    },
  ]
}
