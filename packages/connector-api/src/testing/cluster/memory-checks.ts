/**
 * What an auditor asks of an engine's memory: whose bytes are where, and who may still write there. Called
 * by the serving engine at the moments that matter: a load's end, a request's end, a block's release.
 */
import type { Auditor } from './auditor.ts'
import type { FreeMode } from './block-pool.ts'
import { wrongPositions } from './content.ts'
import type { EngineHost } from './engine-host.ts'
import { poisonBlock } from './poison.ts'
import type { ServedRequest } from './served-request.ts'

/** Positions of `start` … `end - 1` that hold other bytes than the request's, on any rank. */
export async function wrongTokens(
  host: EngineHost,
  request: ServedRequest,
  start: number,
  end: number,
): Promise<number[]> {
  const { kernels } = host.world.fabric
  const blocks = Uint32Array.from(request.blocks)
  const { prompt } = request
  const wrong = await Promise.all(
    host.ranks.map(({ content }) =>
      wrongPositions(kernels, content, { blocks, prompt, start, end }),
    ),
  )
  return [...new Set(wrong.flat())]
}

/** For the pool: a block that comes free must be nobody's target any more (S1). */
export function freedBlockCheck(
  host: EngineHost,
  auditor: Auditor,
  mode: FreeMode,
): (block: number) => void {
  return (block) => {
    for (const { caches } of host.ranks) {
      for (const { memory, offsetBytes, blockStrideBytes, blockSizeBytes } of caches.regions) {
        const start = offsetBytes + block * blockStrideBytes
        const range = { memory, offsetBytes: start, lengthBytes: blockSizeBytes }
        const writer = host.world.fabric.touching(range).find(({ access }) => access === 'write')
        if (writer === undefined) continue
        const text = `${host.engineId}: block ${block} is freed, ${writer.initiator} may write into it`
        auditor.violate('S1', text)
      }
      if (mode === 'poisoned') poisonBlock(caches, block)
    }
  }
}
