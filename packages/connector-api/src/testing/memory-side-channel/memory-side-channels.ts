/**
 * The SideChannel port for many engines of one process, on any clock: a network of listeners and
 * associations with latency, and the faults of a real one. As over TCP, messages of one direction stay
 * in order, a partition only delays, and a lost connection loses what was in flight.
 */
import type { EngineId } from '../../ids.ts'
import type { PeerIdentity, SideChannel } from '../../side-channel.ts'
import { unavailable } from './association.ts'
import type { MemoryAssociation } from './association.ts'
import { MemoryChannel } from './memory-channel.ts'
import { Network, pairKey } from './network.ts'
import type { MemorySideChannelsOptions } from './network.ts'

export type { MemorySideChannelsOptions }

export interface MemorySideChannelFaults {
  /** Connections between the two are lost with everything in flight; each end hears by itself, later. */
  breakAssociations(a: EngineId, b: EngineId): void
  /** Nothing arrives and nobody is told, until `heal`; then what waited arrives. */
  partition(a: EngineId, b: EngineId): void
  heal(a: EngineId, b: EngineId): void
  /** SIGKILL: it hears nothing more; its peers lose their connections, each a little later. */
  kill(engineId: EngineId): void
  /** SIGSTOP: what is sent to it waits until `resume`. */
  stop(engineId: EngineId): void
  resume(engineId: EngineId): void
  /** Added to every message, at random up to this. */
  extraDelayMs: number
}

export interface MemorySideChannels {
  /**
   * A side channel that listens; the ranks of one life of an engine may have one each.
   * @throws RangeError when the port is taken, TypeError when another life of the engine lives.
   */
  open(identity: PeerIdentity, options?: { readonly port?: number }): SideChannel
  readonly faults: MemorySideChannelFaults
}

export function createMemorySideChannels(options: MemorySideChannelsOptions): MemorySideChannels {
  const network = new Network(options)

  /** Each of these ends loses its connection, at a time of its own. */
  function loseLater(associations: readonly MemoryAssociation[]): void {
    for (const association of associations) {
      const error = unavailable(association.peer.engineId, 'connection lost')
      network.clock.after(network.delayMs(), () => association.end(error))
    }
  }

  const endsOf = (owner: EngineId, peer: EngineId): MemoryAssociation[] =>
    network
      .channelsOf(owner)
      .flatMap(({ open }) => [...open].filter((end) => end.peer.engineId === peer))

  return {
    open(identity, { port } = {}) {
      const isOther = ({ identity: { incarnation } }: MemoryChannel): boolean =>
        incarnation !== identity.incarnation
      if (network.channelsOf(identity.engineId).some(isOther)) {
        throw new TypeError(`engine ${identity.engineId} is alive`)
      }
      const chosen = port ?? network.nextPort++
      if (network.listening.has(chosen)) throw new RangeError(`port ${chosen} is taken`)
      const channel = new MemoryChannel(network, identity, chosen)
      network.listening.set(chosen, channel)
      return channel
    },
    faults: {
      breakAssociations(a, b) {
        for (const [pipe, pair] of network.pipes) if (pair === pairKey(a, b)) pipe.cut()
        loseLater([...endsOf(a, b), ...endsOf(b, a)])
      },
      partition(a, b) {
        network.partitioned.add(pairKey(a, b))
      },
      heal(a, b) {
        network.partitioned.delete(pairKey(a, b))
        network.resume()
      },
      kill(engineId) {
        const channels = network.channelsOf(engineId)
        if (channels.length === 0) throw new RangeError(`no engine ${engineId} lives`)
        for (const channel of channels) {
          for (const { peer } of channel.open) loseLater(endsOf(peer.engineId, engineId))
          channel.die()
        }
      },
      stop(engineId) {
        network.stopped.add(engineId)
      },
      resume(engineId) {
        network.stopped.delete(engineId)
        network.resume()
      },
      get extraDelayMs() {
        return network.extraDelayMs
      },
      set extraDelayMs(value) {
        network.extraDelayMs = value
      },
    },
  }
}
