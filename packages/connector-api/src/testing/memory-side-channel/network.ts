/**
 * What the engines of one in-memory control network share: who listens where, how long messages take,
 * and what is partitioned or stopped. Knows no messages.
 */
import type { Clock } from '../../clock.ts'
import type { EngineId } from '../../ids.ts'
import type { Random } from '../../random.ts'
import type { MemoryChannel } from './memory-channel.ts'
import { Pipe } from './pipe.ts'

export interface MemorySideChannelsOptions {
  readonly clock: Clock
  readonly random: Random
  /** One way. Default 0.04. */
  readonly latencyMs?: number
}

export const host = '127.0.0.1'
/** One place has several names, and an engine is one engine under each of them. */
export const placeOf = (name: string): string => (name === 'localhost' ? host : name)
const firstPort = 5_600
export const pairKey = (a: EngineId, b: EngineId): string => [a, b].sort().join(' ')

export class Network {
  readonly clock: Clock
  readonly random: Random
  readonly latencyMs: number
  readonly listening = new Map<number, MemoryChannel>()
  readonly partitioned = new Set<string>()
  readonly stopped = new Set<EngineId>()
  /** Both directions of every open association. */
  readonly pipes = new Map<Pipe, string>()
  /** Calls that wait for a partition or a stopped listener. */
  readonly calls = new Set<() => void>()
  extraDelayMs = 0
  nextPort = firstPort

  constructor({ clock, random, latencyMs = 0.04 }: MemorySideChannelsOptions) {
    this.clock = clock
    this.random = random
    this.latencyMs = latencyMs
  }

  delayMs(): number {
    return this.latencyMs * (1 + this.random.uniform()) + this.extraDelayMs * this.random.uniform()
  }

  isBlocked(from: EngineId, to: EngineId): boolean {
    return this.stopped.has(to) || this.partitioned.has(pairKey(from, to))
  }

  createPipe(from: EngineId, to: EngineId): Pipe {
    const pipe = new Pipe({
      clock: this.clock,
      delayMs: () => this.delayMs(),
      isBlocked: () => this.isBlocked(from, to),
    })
    this.pipes.set(pipe, pairKey(from, to))
    return pipe
  }

  resume(): void {
    for (const pipe of this.pipes.keys()) pipe.resume()
    for (const call of [...this.calls]) call()
  }

  channelsOf(engineId: EngineId): MemoryChannel[] {
    return [...this.listening.values()].filter(({ identity }) => identity.engineId === engineId)
  }
}
