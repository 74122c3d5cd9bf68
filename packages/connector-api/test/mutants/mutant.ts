/**
 * What a mutant is: the in-memory agent (or fabric) with one rule of the contract broken, and the clause
 * that must notice. Helpers to break it from outside, so that the agent itself holds no switches.
 */
import type { AgentClauseId, MemoryHarnessOptions } from '../../src/conformance/index.ts'
import type {
  AgentListener,
  BlockTableHandle,
  TransferAgent,
  TransferCompletion,
  TransferHandle,
  TransferSide,
  TransferTimes,
} from '../../src/index.ts'
import { decodeTable } from '../../src/testing/memory-fabric/wire.ts'

export type Mutation = Pick<MemoryHarnessOptions, 'wrapAgent' | 'wrapFabric'>

export interface Mutant extends Mutation {
  readonly name: string
  readonly clause: AgentClauseId
}

export const noTimes: TransferTimes = {
  queuedUs: 0,
  prepareUs: 0,
  postUs: 0,
  wireUs: 0,
  descriptorsBeforeMerge: 1,
  descriptorsAfterMerge: 1,
  bytes: 0,
}

export const doneAtOnce = (transfer: TransferHandle): TransferCompletion => ({
  transfer,
  status: 'done',
  times: noTimes,
})

/** Changes what the listener hears: each completion becomes none, one or several. */
export function mapCompletions(
  agent: TransferAgent,
  change: (completion: TransferCompletion) => readonly TransferCompletion[],
): TransferAgent {
  return {
    ...agent,
    setListener: (listener: AgentListener) =>
      agent.setListener({
        onCompletions(completions) {
          const changed = completions.flatMap(change)
          if (changed.length > 0) listener.onCompletions(changed)
        },
        onNotifications: (notifications) => listener.onNotifications(notifications),
        onBroken: (error) => listener.onBroken(error),
      }),
  }
}

export interface Layout {
  readonly blockSizeBytes: number
  readonly blockStrideBytes: number
}

/** Remembers the layout of every table, so that a mutant can speak of bytes. */
export function trackTables(agent: TransferAgent): {
  agent: TransferAgent
  layouts: ReadonlyMap<BlockTableHandle, readonly Layout[]>
} {
  const layouts = new Map<BlockTableHandle, readonly Layout[]>()
  const tracked: TransferAgent = {
    ...agent,
    declareBlockTable(regions) {
      const table = agent.declareBlockTable(regions)
      layouts.set(table, regions)
      return table
    },
    importBlockTable(peer, exported) {
      const table = agent.importBlockTable(peer, exported)
      layouts.set(table, decodeTable(exported).regions)
      return table
    },
  }
  return { agent: tracked, layouts }
}

export type Segments = Extract<TransferSide, { regions: Uint32Array }>

/** The same bytes as segments. */
export function segmentsOf(side: TransferSide, layouts: readonly Layout[]): Segments {
  if (!('blockIds' in side)) return side
  const ids = [...side.blockIds]
  const pieces = layouts.flatMap(({ blockSizeBytes, blockStrideBytes }, region) =>
    ids.map((id) => ({ region, offset: id * blockStrideBytes, length: blockSizeBytes })),
  )
  return {
    table: side.table,
    regions: Uint32Array.from(pieces, ({ region }) => region),
    offsets: Float64Array.from(pieces, ({ offset }) => offset),
    lengths: Float64Array.from(pieces, ({ length }) => length),
  }
}
