/** What may happen next in an explored history, and what it does: one act is one step of the explorer. */
import { instantPlus } from '@kvferry/connector-api'
import type { Model } from '@kvferry/connector-api/testing'
import { blockCopiesOf, moveCopies } from '../../src/writing/copy-plan.ts'
import type { BlockCopy } from '../../src/copies/block-copies.ts'
import { stepWriter, type WriterEvent } from '../../src/writing/writer-state.ts'
import { ExploredWorld, wordsOf, type Reader, type Rules, type Scope } from './explored-world.ts'

type Act = (world: ExploredWorld) => void

/** A state is how it was reached: the shipped classes can't be copied, but they can be led there again. */
interface Reached {
  readonly path: readonly string[]
  readonly key: string
  readonly problem: string | null
  readonly endProblem: string | null
  readonly next: readonly string[]
}

export function createHistoryModel(scope: Scope, rules: Rules): Model<Reached> {
  const reach = (path: readonly string[]): Reached => {
    const world = new ExploredWorld(scope, rules)
    for (const name of path) actsOf(world).get(name)!(world)
    const problem = world.judge()
    const next = problem === null ? [...actsOf(world).keys()] : []
    const endProblem = next.length === 0 ? world.judgeEnd() : null
    return { path, key: world.key(), problem, endProblem, next }
  }
  return {
    initial: reach([]),
    key: ({ key }) => key,
    judge: ({ problem }) => problem,
    judgeEnd: ({ endProblem }) => endProblem,
    *steps({ path, next }) {
      for (const name of next) yield { name, take: () => reach([...path, name]) }
    },
  }
}

function actsOf(world: ExploredWorld): Map<string, Act> {
  const acts = new Map<string, Act>()
  const { scope, offered, chunk, writer, readers } = world
  if (offered < scope.offers.length) acts.set(`offered: ${scope.offers[offered]}`, offer)
  if (world.isCheckDue && writer.kind === 'ready') acts.set('the writer looks', look)
  if (chunk !== null) {
    acts.set('the chunk’s copies end', endChunkCopies)
    if (world.faultsLeft > 0) acts.set('the chunk’s copies fail', failChunk)
    if (world.faultsLeft > 0 && writer.kind === 'copying') acts.set('the chunk is late', late)
  }
  if (world.strays.length > 0) acts.set('copies of a chunk that was given up end', endStrays)
  if (world.timesLeft > 0) acts.set('time passes', passTime)
  readers.forEach((reader, at) => {
    for (const [name, act] of readerActs(world, reader, at)) acts.set(`reader ${at}: ${name}`, act)
  })
  return acts
}

function* readerActs(world: ExploredWorld, reader: Reader, at: number): Iterable<[string, Act]> {
  const act =
    (of: (world: ExploredWorld, reader: Reader, at: number) => void): Act =>
    (next) =>
      of(next, next.readers[at]!, at)
  if (reader.kind === 'new') yield ['reserves', act(reserve)]
  if (reader.kind === 'reserved') {
    yield ['restores', act(restore)]
    yield ['gives up', act(giveUp)]
  }
  if (reader.kind !== 'reading') return
  yield ['has its blocks', act(endRestore)]
  if (world.faultsLeft === 0) return
  const fail = act((next, failed) => {
    next.faultsLeft -= 1
    failed.length = 0
    endRestore(next, failed, at)
  })
  yield ['its copies fail', fail]
}

const expire = ({ leases, now }: ExploredWorld): void => void leases.expire(now)

function offer(world: ExploredWorld): void {
  const at = world.offered
  world.offered += 1
  const candidates = world.admitted(world.scope.offers[at]!)
  if (candidates.length === 0 || world.writer.kind !== 'idle') return world.free(at)
  world.job = { offer: at, candidates, next: 0, isOver: false }
  writerStep(world, { kind: 'offered', candidateCount: candidates.length })
}

function writerStep(world: ExploredWorld, event: WriterEvent): void {
  const { chunk: chunkLength } = world.scope
  const context = { writerDeadlineMs: 1, writerRecheckMs: 1, chunkLengthMax: () => chunkLength }
  const { state, effects } = stepWriter(world.writer, event, world.now, context)
  world.writer = state
  for (const effect of effects) {
    if (effect.kind === 'check' || effect.kind === 'check-later') world.isCheckDue = true
    else if (effect.kind === 'copy-chunk') beginChunk(world, effect.blockCount)
    else if (effect.kind === 'end-job') endJob(world)
  }
}

function look(world: ExploredWorld): void {
  world.isCheckDue = false
  const isBusy = world.readers.some(({ kind }) => kind === 'reading')
  writerStep(world, { kind: 'checked', isBusy, isClosing: false })
}

function endJob(world: ExploredWorld): void {
  const job = world.job!
  world.job = null
  job.isOver = true
  if (!world.freed[job.offer]) world.free(job.offer)
}

function beginChunk(world: ExploredWorld, blockCount: number): void {
  const job = world.job!
  const names = world.scope.offers[job.offer]!
  const positions = job.candidates.slice(job.next, job.next + blockCount)
  job.next += blockCount
  expire(world)
  const stage = world.staging.stage({
    ...{ words: wordsOf(names), blockCount: names.length, positions },
  })
  world.chunk = { job, stage, copies: [] }
  if (stage.moves.length > 0) return beginCopies(world, moveCopies(stage, 1))
  beginBlocks(world)
}

/** Copies of one region, each block of them by itself. */
function beginCopies(world: ExploredWorld, copies: readonly BlockCopy[]): void {
  const { chunk } = world
  const place = (space: string, block: number): string =>
    space === 'engine' ? `engine ${chunk!.job.offer} ${block}` : `${space} ${block}`
  for (const { from, to, fromBlocks, toBlocks } of copies) {
    fromBlocks.forEach((block, index) => {
      chunk!.copies.push(world.begin(place(from, block), place(to, toBlocks[index]!)))
    })
  }
}

function beginBlocks(world: ExploredWorld): void {
  const chunk = world.chunk!
  const { job, stage } = chunk
  const names = world.scope.offers[job.offer]!
  // Given up meanwhile, or without room.
  if (job.isOver || stage.blocks.length === 0) return endChunk(world)
  const blockIds = Uint32Array.from(names, (_, index) => index)
  beginCopies(world, blockCopiesOf(stage, blockIds, 1))
  if (world.rules.publishesEarly) world.staging.publish(stage)
  if (world.rules.freesUnderCopy && !world.freed[job.offer]) world.free(job.offer)
}

function endChunkCopies(world: ExploredWorld): void {
  const chunk = world.chunk!
  for (const copy of chunk.copies) world.end(copy)
  chunk.copies = []
  if (chunk.stage.moves.length === 0) return endChunk(world)
  chunk.stage = world.staging.settleMoves(chunk.stage)
  beginBlocks(world)
}

function endChunk(world: ExploredWorld): void {
  const { job, stage } = world.chunk!
  world.chunk = null
  if (job.isOver) world.staging.abandon(stage)
  else if (!world.rules.publishesEarly) world.staging.publish(stage)
  writerStep(world, { kind: 'chunk-done', unplaced: stage.unplacedCount })
}

function failChunk(world: ExploredWorld): void {
  world.faultsLeft -= 1
  const { stage } = world.chunk!
  world.chunk = null
  world.staging.abandon(stage)
  writerStep(world, { kind: 'chunk-failed' })
}

/** It is given up on: its copies go on. */
function late(world: ExploredWorld): void {
  world.faultsLeft -= 1
  const { stage, copies } = world.chunk!
  writerStep(world, { kind: 'chunk-overdue' })
  if (!world.rules.abandonsAtOnce) return
  world.strays.push(...copies)
  world.chunk = null
  world.staging.abandon(stage)
  writerStep(world, { kind: 'chunk-failed' })
}

function endStrays(world: ExploredWorld): void {
  for (const copy of world.strays) world.end(copy)
  world.strays = []
}

function passTime(world: ExploredWorld): void {
  world.timesLeft -= 1
  world.now = instantPlus(world.now, 1)
  if (!world.rules.expiresUnderRead) return
  for (const reader of world.readers) {
    if (reader.kind !== 'reading' || reader.lease === null) continue
    world.leases.endReading(reader.lease)
    reader.lease = null
  }
}

function reserve(world: ExploredWorld, reader: Reader, at: number): void {
  expire(world)
  const ids = world.run(world.scope.readers[at]!)
  reader.length = ids.length
  reader.lease = ids.length === 0 ? null : world.leases.open(ids, world.now)
  reader.kind = reader.lease === null ? 'done' : 'reserved'
  if (reader.kind === 'reserved') for (const id of ids.toReversed()) world.store.touch(id)
}

function restore(world: ExploredWorld, reader: Reader, at: number): void {
  expire(world)
  const ids = reader.lease === null ? null : world.leases.startReading(reader.lease)
  reader.kind = ids === null ? 'done' : 'reading'
  if (ids === null) return
  const begin = (id: number, index: number) =>
    world.begin(world.placeOf(id), `reader ${at} ${index}`)
  reader.copies = Array.from(ids, begin)
  if (!world.rules.readsUnpinned) return
  world.leases.endReading(reader.lease!)
  reader.lease = null
}

function endRestore(world: ExploredWorld, reader: Reader, at: number): void {
  for (const copy of reader.copies) world.end(copy)
  reader.copies = []
  reader.kind = 'done'
  if (reader.lease !== null) world.leases.endReading(reader.lease)
  reader.lease = null
  const names = world.scope.readers[at]!
  for (let index = 0; index < reader.length; index += 1) {
    const content = world.memory.get(`reader ${at} ${index}`)
    if (content !== names[index]) world.fail(`S2: restored ${content} for ${names[index]}`)
  }
}

function giveUp(world: ExploredWorld, reader: Reader): void {
  world.leases.release(reader.lease!)
  reader.lease = null
  reader.kind = 'done'
}
