/**
 * Rules between fields of the configuration: what a single field's schema can't see. They guard the trust
 * model (architecture §8): without certificates nothing leaves the machine unless the user says so.
 * Pure; run on validated parts, also when other parts are wrong.
 */
import { BlockList, isIP } from 'node:net'
import { isLoopbackHost } from '../loopback.ts'
import { showValue, type Problem } from './problem.ts'
import type { ParsedPeers, ParsedSideChannel } from './schema.ts'

const insecureRemedy =
  'use a loopback host such as 127.0.0.1, or set sideChannel.insecure: true on a network where ' +
  'everyone may read and write the memory of this process'

/** "Every address of this machine": fine for binding, but peers are told this address, and can't call it. */
const wildcards = new BlockList()
wildcards.addAddress('0.0.0.0', 'ipv4')
wildcards.addAddress('::', 'ipv6')
const isWildcard = (host: string): boolean =>
  isIP(host) !== 0 && wildcards.check(host, isIP(host) === 4 ? 'ipv4' : 'ipv6')

export function checkSideChannel(sideChannel: {
  readonly host: string
  readonly insecure: boolean
}): Problem[] {
  const { host, insecure } = sideChannel
  if (isWildcard(host)) {
    const remedy = 'use the one address under which peers reach this engine, for example 127.0.0.1'
    return [{ field: 'sideChannel.host', value: showValue(host), remedy }]
  }
  if (insecure || isLoopbackHost(host)) return []
  return [{ field: 'sideChannel.host', value: showValue(sideChannel.host), remedy: insecureRemedy }]
}

export function checkPeerHosts(
  peers: NonNullable<ParsedPeers>,
  sideChannel: ParsedSideChannel,
): Problem[] {
  if (sideChannel.insecure) return []
  return peers.flatMap(({ host }, index) =>
    isLoopbackHost(host)
      ? []
      : [{ field: `peers[${index}].host`, value: showValue(host), remedy: insecureRemedy }],
  )
}

export function checkPeerNames(
  peers: NonNullable<ParsedPeers>,
  ownEngineId: string | undefined,
): Problem[] {
  const seen = new Set<string>()
  return peers.flatMap(({ engineId }, index): Problem[] => {
    const field = `peers[${index}].engineId`
    const value = showValue(engineId)
    if (engineId === ownEngineId) {
      return [{ field, value, remedy: 'leave this entry out: it is the engine itself' }]
    }
    if (seen.has(engineId)) {
      return [{ field, value, remedy: 'list each engine once: names must be unique' }]
    }
    seen.add(engineId)
    return []
  })
}
