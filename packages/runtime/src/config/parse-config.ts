/**
 * Turns unknown input into a KvferryConfig or one error that lists everything wrong with it. Called with
 * a file's content, with an object from code, and with vLLM's `kv_connector_extra_config`. Nothing is
 * ignored: an unknown key is an error, because a misspelt one would otherwise be a silent default.
 */
import type { z } from 'zod'
import { asEngineId, assert, type KvferryConfig } from '@kvferry/connector-api'
import { createSystemRandom } from '../system-random.ts'
import {
  checkPeerHosts,
  checkPeerNames,
  checkPeersListed,
  checkSideChannel,
} from './cross-field.ts'
import { ownNameOfKey } from './foreign-names.ts'
import { nearestKey } from './nearest-key.ts'
import { plainWords } from './plain-words.ts'
import { configError, fieldName, showValue, valueAt, type Problem } from './problem.ts'
import { configSchema, knownKeys, peers, sideChannel } from './schema.ts'
import type { ParsedFields } from './schema.ts'

/** What to do about a key that doesn't exist where it stands. */
function unknownKeyRemedy(key: string, section: string): string {
  const own = ownNameOfKey(key)
  if (own !== null) return `that is another system's name; ours: ${own}`
  const known = knownKeys[section] ?? []
  const nearest = nearestKey(key, known)
  if (nearest !== null) return `unknown key; did you mean ${nearest}?`
  const elsewhere = Object.entries(knownKeys).find(([, keys]) => keys.includes(key))
  if (elsewhere !== undefined) {
    return `unknown key here; did you mean ${elsewhere[0] === '' ? '' : `${elsewhere[0]}.`}${key}?`
  }
  return `unknown key; known here: ${known.join(', ')}`
}

function problemsOfIssue(input: unknown, issue: z.core.$ZodIssue): Problem[] {
  if (issue.code !== 'unrecognized_keys') {
    const value = showValue(valueAt(input, issue.path))
    return [{ field: fieldName(issue.path), value, remedy: issue.message }]
  }
  const section = issue.path.filter((part) => typeof part === 'string').join('.')
  return issue.keys.map((key) => ({
    field: fieldName([...issue.path, key]),
    value: showValue(valueAt(input, [...issue.path, key])),
    remedy: unknownKeyRemedy(key, section),
  }))
}

function crossFieldProblems(input: unknown): Problem[] {
  const channel = sideChannel.safeParse(valueAt(input, ['sideChannel']))
  const list = peers.safeParse(valueAt(input, ['peers']))
  const engineId = valueAt(input, ['engineId'])
  const problems = channel.success ? checkSideChannel(channel.data) : []
  if (list.success && channel.success) problems.push(...checkPeersListed(list.data, channel.data))
  if (!list.success || list.data === null) return problems
  if (channel.success) problems.push(...checkPeerHosts(list.data, channel.data))
  const ownEngineId = typeof engineId === 'string' ? engineId : undefined
  return [...problems, ...checkPeerNames(list.data, ownEngineId)]
}

/** Names from other systems among the connector's options, which only the connector itself knows. */
function foreignOptionProblems(input: unknown): Problem[] {
  const options = valueAt(input, ['options'])
  if (typeof options !== 'object' || options === null) return []
  return Object.entries(options).flatMap(([key, value]) => {
    const own = ownNameOfKey(key)
    const remedy = `that is another system's name; ours: ${own}`
    return own === null ? [] : [{ field: `options.${key}`, value: showValue(value), remedy }]
  })
}

const randomEngineId = (): string =>
  `engine-${Buffer.from(createSystemRandom().bytes(4)).toString('hex')}`

function complete(fields: ParsedFields): KvferryConfig {
  return {
    ...fields,
    engineId: asEngineId(fields.engineId ?? randomEngineId()),
    peers: fields.peers?.map((peer) => ({ ...peer, engineId: asEngineId(peer.engineId) })) ?? null,
  }
}

/** @throws ConnectorError ERR_KV_CONFIG naming every wrong field, its value and the remedy. */
export function parseConfig(input: unknown): KvferryConfig {
  const parsed = configSchema.safeParse(input, { error: plainWords })
  const issues = parsed.success ? [] : parsed.error.issues
  const [first, ...others] = [
    ...issues.flatMap((issue) => problemsOfIssue(input, issue)),
    ...foreignOptionProblems(input),
    ...crossFieldProblems(input),
  ]
  if (first !== undefined) throw configError([first, ...others])
  assert(parsed.success, 'a refused configuration has no problem')
  return complete(parsed.data)
}
