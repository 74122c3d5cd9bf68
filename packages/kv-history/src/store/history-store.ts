/**
 * What is stored where: entries by key, one order of use over all of them, and per tier the same order of
 * those that are in it, so that a victim on the device is found without looking at host entries. Holds no
 * KV, copies nothing and decides nothing; every method is a few steps in typed arrays. Only blocks whose
 * bytes are in place have an entry.
 *
 * An entry is in the device tier, the host tier, or (write-through) in both; where both, the device counts.
 * Pinned entries neither move nor go: `demote`, `drop…` and `evict` assert it.
 */
import { assert, type Random } from '@kvferry/connector-api'
import { KeyTable, noEntry } from './key-table.ts'
import type { KeyWords } from './key-words.ts'
import { LinkedOrder } from './linked-order.ts'
import { SlotPool, noSlot } from './slot-pool.ts'

export class HistoryStore {
  readonly capacity: number
  readonly deviceSlots: SlotPool
  readonly hostSlots: SlotPool
  /** All entries, then those with a device slot, then those with a host slot; oldest use first. */
  readonly order: LinkedOrder
  readonly deviceOrder: LinkedOrder
  readonly hostOrder: LinkedOrder
  readonly #table: KeyTable
  /** By id, 1 more than the slot; 0: not in that tier. */
  readonly #deviceSlotOf: Uint32Array
  readonly #hostSlotOf: Uint32Array
  readonly #pins: Uint32Array
  #deviceEntryCount = 0

  constructor(deviceBlockCapacity: number, hostBlockCapacity: number, random: Random) {
    const capacity = deviceBlockCapacity + hostBlockCapacity
    this.capacity = capacity
    this.deviceSlots = new SlotPool(deviceBlockCapacity)
    this.hostSlots = new SlotPool(hostBlockCapacity)
    this.order = new LinkedOrder(capacity)
    this.deviceOrder = new LinkedOrder(capacity)
    this.hostOrder = new LinkedOrder(capacity)
    this.#table = new KeyTable(capacity, random)
    this.#deviceSlotOf = new Uint32Array(capacity)
    this.#hostSlotOf = new Uint32Array(capacity)
    this.#pins = new Uint32Array(capacity)
  }

  get entryCount(): number {
    return this.#table.count
  }

  get deviceEntryCount(): number {
    return this.#deviceEntryCount
  }

  /** The entry of key `index`, or `noEntry`. */
  find(words: KeyWords, index: number): number {
    return this.#table.find(words, index)
  }

  keyOf(id: number): KeyWords {
    return this.#table.keyOf(id)
  }

  /** `noSlot`: not on the device. */
  deviceSlotOf(id: number): number {
    return this.#deviceSlotOf[id]! - 1
  }

  /** `noSlot`: not in host memory. */
  hostSlotOf(id: number): number {
    return this.#hostSlotOf[id]! - 1
  }

  pinCount(id: number): number {
    return this.#pins[id]!
  }

  pin(id: number): void {
    this.#pins[id]! += 1
  }

  unpin(id: number): void {
    assert(this.#pins[id]! > 0, 'unpinned more often than pinned')
    this.#pins[id]! -= 1
  }

  /** Makes `id` the most recently used of its tiers and of all. */
  touch(id: number): void {
    this.order.moveToNewest(id)
    if (this.#deviceSlotOf[id] !== 0) this.deviceOrder.moveToNewest(id)
    if (this.#hostSlotOf[id] !== 0) this.hostOrder.moveToNewest(id)
  }

  /** A block whose bytes are in these slots, at least one of them; the newest of all. */
  insert(words: KeyWords, index: number, deviceSlot: number, hostSlot: number): number {
    assert(deviceSlot !== noSlot || hostSlot !== noSlot, 'an entry without a slot')
    const id = this.#table.insert(words, index)
    this.#deviceSlotOf[id] = deviceSlot + 1
    this.#hostSlotOf[id] = hostSlot + 1
    this.#pins[id] = 0
    this.order.append(id)
    if (deviceSlot !== noSlot) {
      this.deviceOrder.append(id)
      this.#deviceEntryCount += 1
    }
    if (hostSlot !== noSlot) this.hostOrder.append(id)
    return id
  }

  /** Its bytes are in `hostSlot` now: leaves the device, keeps its place in the order. Frees the device slot. */
  demote(id: number, hostSlot: number): void {
    assert(this.hostSlotOf(id) === noSlot, 'demoted into a second host slot')
    this.#hostSlotOf[id] = hostSlot + 1
    // Only older entries that are pinned on the device lie between a victim and its neighbour in host memory.
    let older = this.order.older(id)
    while (older !== noEntry && this.#hostSlotOf[older] === 0) older = this.order.older(older)
    this.hostOrder.insertAfter(older, id)
    this.dropDeviceCopy(id)
  }

  dropDeviceCopy(id: number): void {
    assert(this.#pins[id] === 0, 'a pinned block leaves the device')
    assert(this.#hostSlotOf[id] !== 0, 'the only copy is dropped')
    this.#freeDeviceSlot(id)
  }

  dropHostCopy(id: number): void {
    assert(this.#pins[id] === 0, 'a pinned block leaves host memory')
    assert(this.#deviceSlotOf[id] !== 0, 'the only copy is dropped')
    this.#freeHostSlot(id)
  }

  /** Forgets the block. */
  evict(id: number): void {
    assert(this.#pins[id] === 0, 'a pinned block is evicted')
    if (this.#deviceSlotOf[id] !== 0) this.#freeDeviceSlot(id)
    if (this.#hostSlotOf[id] !== 0) this.#freeHostSlot(id)
    this.order.remove(id)
    this.#table.delete(id)
  }

  #freeDeviceSlot(id: number): void {
    this.deviceSlots.give(this.deviceSlotOf(id))
    this.#deviceSlotOf[id] = 0
    this.deviceOrder.remove(id)
    this.#deviceEntryCount -= 1
  }

  #freeHostSlot(id: number): void {
    this.hostSlots.give(this.hostSlotOf(id))
    this.#hostSlotOf[id] = 0
    this.hostOrder.remove(id)
  }
}
