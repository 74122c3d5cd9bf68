/** The copies of one chunk: first of what makes room, then of the new blocks. Pure. */
import type { BlockCopy, BlockSpace } from '../copies/block-copies.ts'
import { noSlot } from '../store/slot-pool.ts'
import type { Stage } from './staging.ts'

export function moveCopies(stage: Stage, regionCount: number): BlockCopy[] {
  const from = stage.moves.map((move) => move.fromDeviceSlot)
  const to = stage.moves.map((move) => move.toHostSlot)
  return wholeBlocks('device', 'host', from, to, regionCount)
}

/** @param blockIds the engine's, by position in the request. */
export function blockCopiesOf(
  stage: Stage,
  blockIds: Uint32Array,
  regionCount: number,
): BlockCopy[] {
  return (['device', 'host'] as const).flatMap((tier) => {
    const slotOf = tier === 'device' ? 'deviceSlot' : 'hostSlot'
    const blocks = stage.blocks.filter((block) => block[slotOf] !== noSlot)
    const from = blocks.map(({ position }) => blockIds[position]!)
    const to = blocks.map((block) => block[slotOf])
    return wholeBlocks('engine', tier, from, to, regionCount)
  })
}

function wholeBlocks(
  from: BlockSpace,
  to: BlockSpace,
  fromBlocks: readonly number[],
  toBlocks: readonly number[],
  regionCount: number,
): BlockCopy[] {
  if (fromBlocks.length === 0) return []
  return [
    {
      ...{ from, to, firstRegion: 0, endRegion: regionCount },
      fromBlocks: Uint32Array.from(fromBlocks),
      toBlocks: Uint32Array.from(toBlocks),
    },
  ]
}
