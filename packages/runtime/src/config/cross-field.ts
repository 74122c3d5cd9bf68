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
  'set sideChannel.tls (kvferry certs makes certificates), use a loopback host such as 127.0.0.1, or set ' +
  'sideChannel.insecure: true on a network where everyone may read and write the memory of this process'

/** "Every address of this machine": fine for binding, but peers are told this address, and can't call it. */
const wildcards = new BlockList()
wildcards.addAddress('0.0.0.0', 'ipv4')
wildcards.addAddress('::', 'ipv6')
const isWildcard = (host: string): boolean =>
  isIP(host) !== 0 && wildcards.check(host, isIP(host) === 4 ? 'ipv4' : 'ipv6')

export function checkSideChannel(sideChannel: {
  readonly host: string
  readonly insecure: boolean
  readonly tls: object | null
}): Problem[] {
  const { host, insecure, tls } = sideChannel
  const problems: Problem[] = []
  if (insecure && tls !== null) {
    const remedy = 'leave it out: with sideChannel.tls every connection is authenticated'
    problems.push({ field: 'sideChannel.insecure', value: 'true', remedy })
  }
  if (isWildcard(host)) {
    const remedy = 'use the one address under which peers reach this engine, for example 127.0.0.1'
    problems.push({ field: 'sideChannel.host', value: showValue(host), remedy })
  } else if (!insecure && tls === null && !isLoopbackHost(host)) {
    problems.push({ field: 'sideChannel.host', value: showValue(host), remedy: insecureRemedy })
  }
  return problems
}

/** Beyond this machine nobody is let in who isn't listed, so without a list nobody could be. */
export function checkPeersListed(peers: ParsedPeers, { host }: ParsedSideChannel): Problem[] {
  if (peers !== null || isLoopbackHost(host)) return []
  const remedy = `list the engines that may connect: sideChannel.host ${host} is beyond loopback`
  return [{ field: 'peers', value: showValue(peers), remedy }]
}

export function checkPeerHosts(
  peers: NonNullable<ParsedPeers>,
  sideChannel: ParsedSideChannel,
): Problem[] {
  if (sideChannel.insecure || sideChannel.tls !== null) return []
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
