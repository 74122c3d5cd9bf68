/**
 * Room for one chunk of new blocks: finds slots, says which old blocks must first move to host memory, and
 * publishes the new ones once their bytes are there. Between these steps copies run; readers may come
 * meanwhile. Synchronous; touches no KV.
 *
 * A new block goes to the device. There the oldest unpinned block makes room: it moves to host memory (where
 * the oldest unpinned block goes), or goes itself when host memory is full of pinned ones, so that leases
 * there can't block the device. Without room on the device a new block goes to host memory, and without room
 * there the chunk ends before it. Blocks of the request that is being written may move but don't go: a
 * prefix is not displaced by its own continuation.
 */
import { noEntry } from '../store/key-table.ts'
import type { KeyWords } from '../store/key-words.ts'
import type { HistoryStore } from '../store/history-store.ts'
import { noSlot } from '../store/slot-pool.ts'
import type { HistoryPolicy } from './history-policy.ts'

/** A block on its way from the device to host memory; pinned until that is done. */
export interface Move {
  readonly id: number
  readonly fromDeviceSlot: number
  readonly toHostSlot: number
}

export interface StagedBlock {
  /** Position in the request. */
  readonly position: number
  /** `noSlot`: it goes to host memory only, or (with `move`) gets its slot when that is done. */
  readonly deviceSlot: number
  /** `noSlot`: it goes to the device only. */
  readonly hostSlot: number
  readonly move: Move | null
}

export interface Stage {
  readonly words: KeyWords
  readonly blocks: readonly StagedBlock[]
  readonly moves: readonly Move[]
  /** Positions that got no room, or lost it to a reader: they and all after them stay out. */
  readonly unplacedCount: number
}

export interface StageRequest {
  /** Of the whole request. */
  readonly words: KeyWords
  readonly blockCount: number
  /** Those of the chunk, ascending. */
  readonly positions: readonly number[]
}

/** What making room did to the blocks that were there. */
export interface StagingListener {
  onDemoted(): void
  onEvicted(): void
}

export class Staging {
  readonly #store: HistoryStore
  readonly #policy: HistoryPolicy
  readonly #listener: StagingListener
  /** 1 for entries of the request that is being staged. */
  readonly #isOwn: Uint8Array

  constructor(store: HistoryStore, policy: HistoryPolicy, listener: StagingListener) {
    this.#store = store
    this.#policy = policy
    this.#listener = listener
    this.#isOwn = new Uint8Array(store.capacity)
  }

  /** Slots for `positions` until there is no room. What is stored by now is left out. */
  stage({ words, blockCount, positions }: StageRequest): Stage {
    const own = this.#claim(words, blockCount)
    const blocks: StagedBlock[] = []
    const moves: Move[] = []
    let unplacedCount = 0
    for (const [index, position] of positions.entries()) {
      if (this.#store.find(words, position) !== noEntry) continue
      const block = this.#place(position)
      if (block === null) {
        unplacedCount = positions.length - index
        break
      }
      blocks.push(block)
      if (block.move !== null) moves.push(block.move)
    }
    for (const id of own) this.#isOwn[id] = 0
    return { words, blocks, moves, unplacedCount }
  }

  /**
   * All moves are copied: they take effect, but for those whose block a reader has pinned meanwhile. Where a
   * new block loses its slot by that, the stage ends before it.
   */
  settleMoves(stage: Stage): Stage {
    const store = this.#store
    const undone = new Set<Move>()
    for (const move of stage.moves) {
      store.unpin(move.id)
      if (store.pinCount(move.id) === 0) {
        store.demote(move.id, move.toHostSlot)
        this.#listener.onDemoted()
      } else {
        store.hostSlots.give(move.toHostSlot)
        undone.add(move)
      }
    }
    const lost = stage.blocks.findIndex(({ move }) => move !== null && undone.has(move))
    const end = lost === -1 ? stage.blocks.length : lost
    // Each demotion has freed one slot; every block that waited for one takes one.
    const blocks = stage.blocks
      .slice(0, end)
      .map((block) =>
        block.move === null
          ? block
          : { ...block, move: null, deviceSlot: store.deviceSlots.take() },
      )
    this.#giveBack(stage.blocks.slice(end))
    const unplacedCount = stage.unplacedCount + stage.blocks.length - end
    return { ...stage, blocks, moves: [], unplacedCount }
  }

  /** Their bytes are in place. @returns how many became entries: all whose key isn't there yet. */
  publish(stage: Stage): number {
    const isNew = ({ position }: StagedBlock): boolean => {
      return this.#store.find(stage.words, position) === noEntry
    }
    let count = 0
    for (const block of stage.blocks) {
      if (isNew(block)) {
        this.#store.insert(stage.words, block.position, block.deviceSlot, block.hostSlot)
        count += 1
      } else this.#giveBack([block])
    }
    return count
  }

  /** Nothing of it becomes an entry. Only when no copy touches its slots any more. */
  abandon(stage: Stage): void {
    for (const move of stage.moves) {
      this.#store.unpin(move.id)
      this.#store.hostSlots.give(move.toHostSlot)
    }
    this.#giveBack(stage.blocks)
  }

  #claim(words: KeyWords, blockCount: number): number[] {
    const own: number[] = []
    for (let index = 0; index < blockCount; index += 1) {
      const id = this.#store.find(words, index)
      if (id === noEntry) continue
      this.#isOwn[id] = 1
      own.push(id)
    }
    return own
  }

  #place(position: number): StagedBlock | null {
    const block = this.#placeOnDevice(position)
    const wantsHost = block === null || this.#policy.hostWrite === 'at-save'
    const hostSlot = wantsHost ? this.#takeHostSlot() : noSlot
    if (block !== null) return { ...block, hostSlot }
    return hostSlot === noSlot ? null : { position, deviceSlot: noSlot, hostSlot, move: null }
  }

  #placeOnDevice(position: number): Omit<StagedBlock, 'hostSlot'> | null {
    const store = this.#store
    const free = store.deviceSlots.take()
    if (free !== noSlot) return { position, deviceSlot: free, move: null }
    let isHostFull = false
    for (let id = store.deviceOrder.oldest(); id !== noEntry; id = store.deviceOrder.newer(id)) {
      if (store.pinCount(id) > 0) continue
      if (store.hostSlotOf(id) !== noSlot) {
        store.dropDeviceCopy(id)
        return { position, deviceSlot: store.deviceSlots.take(), move: null }
      }
      const toHostSlot = isHostFull ? noSlot : this.#takeHostSlot()
      if (toHostSlot !== noSlot) {
        store.pin(id)
        const move = { id, fromDeviceSlot: store.deviceSlotOf(id), toHostSlot }
        return { position, deviceSlot: noSlot, move }
      }
      isHostFull = true
      if (!this.#mayGo(id)) continue
      this.#evict(id)
      return { position, deviceSlot: store.deviceSlots.take(), move: null }
    }
    return null
  }

  #takeHostSlot(): number {
    const store = this.#store
    const free = store.hostSlots.take()
    if (free !== noSlot) return free
    for (let id = store.hostOrder.oldest(); id !== noEntry; id = store.hostOrder.newer(id)) {
      if (!this.#mayGo(id)) continue
      if (store.deviceSlotOf(id) !== noSlot) store.dropHostCopy(id)
      else this.#evict(id)
      return store.hostSlots.take()
    }
    return noSlot
  }

  #mayGo(id: number): boolean {
    return this.#store.pinCount(id) === 0 && this.#isOwn[id] === 0
  }

  #evict(id: number): void {
    this.#store.evict(id)
    this.#listener.onEvicted()
  }

  #giveBack(blocks: readonly StagedBlock[]): void {
    for (const { deviceSlot, hostSlot } of blocks) {
      if (deviceSlot !== noSlot) this.#store.deviceSlots.give(deviceSlot)
      if (hostSlot !== noSlot) this.#store.hostSlots.give(hostSlot)
    }
  }
}
