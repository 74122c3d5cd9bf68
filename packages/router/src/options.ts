/**
 * The router's configuration: the same object from a file, from flags and in code. Strict: an unknown key
 * is an error that names the nearest known one. Pure; called by startRouter.
 */
import { z } from 'zod'
import { assert } from '@kvferry/connector-api'
import {
  configError,
  fieldName,
  nearestKey,
  plainWords,
  showValue,
  valueAt,
  type Problem,
} from '@kvferry/runtime'
import { declarable, type DeclarableConnector } from './engine-peer.ts'
import type { DeclaredPrefill } from './handoff.ts'
import {
  defaultDeadlines,
  defaultPollIntervals,
  routerLimits,
  type Deadlines,
  type PollIntervals,
} from './limits.ts'
import { policyNames, type PolicyName } from './policy.ts'

const engineUrl = z.url({ protocol: /^https?$/, error: 'write an http:// or https:// URL' })
const msRemedy = 'use milliseconds, more than 0 and at most 86400000'
const milliseconds = z
  .number({ error: msRemedy })
  .positive({ error: msRemedy })
  .max(86_400_000, { error: msRemedy })

const hostPort = z.string().transform((text, context) => {
  const match = /^(?<host>\[[0-9a-fA-F:]+\]|[^:]+):(?<port>\d{1,5})$/.exec(text)
  const port = Number(match?.groups?.['port'])
  const host = match?.groups?.['host']
  if (host === undefined || port < 1 || port > 65_535) {
    context.addIssue({ code: 'custom', message: 'write it as host:port' })
    return z.NEVER
  }
  return { host: host.replace(/^\[|\]$/g, ''), port }
})

const prefillEngine = z.strictObject({
  url: engineUrl,
  engineId: z.string().min(1).max(256).optional(),
  sideChannel: hostPort.optional(),
  tp: z.number().int().positive().optional(),
})

const enginesRemedy = `name 1 to ${routerLimits.engineCountPerRoleMax} engines, as a list of http:// URLs`
const engines = <T extends z.ZodType>(engine: T) =>
  z
    .array(engine, { error: enginesRemedy })
    .min(1, { error: enginesRemedy })
    .max(routerLimits.engineCountPerRoleMax, { error: enginesRemedy })

const overrides = (defaults: Readonly<Record<string, number>>) =>
  z.strictObject(
    Object.fromEntries(Object.keys(defaults).map((key) => [key, milliseconds.optional()])),
  )

const connectorNames = Object.keys(declarable) as DeclarableConnector[]

const portRemedy = 'use an integer from 0 to 65535 (0 = any free port)'
const schema = z.strictObject({
  prefill: engines(z.union([engineUrl.transform((url) => ({ url })), prefillEngine])),
  decode: engines(engineUrl),
  host: z.string().min(1).default('127.0.0.1'),
  port: z
    .int({ error: portRemedy })
    .min(0, { error: portRemedy })
    .max(65_535, { error: portRemedy })
    .default(8_000),
  /** For engines that cannot describe themselves. */
  connector: z.enum(connectorNames, { error: `use one of ${connectorNames.join(', ')}` }).nullish(),
  policy: z.enum(policyNames, { error: `use ${policyNames.join(' or ')}` }).default('round-robin'),
  deadlines: overrides({ ...defaultDeadlines }).default({}),
  poll: overrides({ ...defaultPollIntervals }).default({}),
})

/** A prefill engine, with what it cannot say itself when it has no `/kvferry/v1/peer`. */
export interface PrefillConfig {
  readonly url: string
  readonly engineId?: string
  /** `host:port` where decode engines reach its side channel. */
  readonly sideChannel?: string
  readonly tp?: number
}

/** As written by a user; README.md describes each key. */
export interface RouterConfig {
  readonly prefill: readonly (string | PrefillConfig)[]
  readonly decode: readonly string[]
  /** Default 127.0.0.1. */
  readonly host?: string
  /** Default 8000; 0 = any free port. */
  readonly port?: number
  /** What engines without `/kvferry/v1/peer` run. */
  readonly connector?: DeclarableConnector | null
  /** Which of several engines gets the next request. Default `round-robin`. */
  readonly policy?: PolicyName
  readonly deadlines?: Partial<Deadlines>
  readonly poll?: Partial<PollIntervals>
}

export interface ParsedRouterConfig {
  readonly prefills: readonly { readonly url: string; readonly declared: DeclaredPrefill }[]
  readonly decodes: readonly string[]
  readonly host: string
  readonly port: number
  readonly connector: DeclarableConnector | null
  readonly policy: PolicyName
  readonly deadlines: Deadlines
  readonly poll: PollIntervals
}

const knownKeys = [
  ...Object.keys(schema.shape),
  ...Object.keys(prefillEngine.shape),
  ...Object.keys(defaultDeadlines),
  ...Object.keys(defaultPollIntervals),
]

/** What is wrong at one place; several for several unknown keys. */
function problemsOf(issue: z.core.$ZodIssue, input: unknown): Problem[] {
  if (issue.code === 'unrecognized_keys') {
    return issue.keys.map((key) => {
      const nearest = nearestKey(key, knownKeys)
      const remedy = nearest === null ? 'unknown key; leave it out' : `did you mean ${nearest}?`
      const path = [...issue.path, key]
      return { field: fieldName(path), value: showValue(valueAt(input, path)), remedy }
    })
  }
  // A prefill entry may be a URL or an object: the branch that went deepest says most.
  if (issue.code === 'invalid_union') {
    const [inner] = issue.errors.flat().toSorted((a, b) => b.path.length - a.path.length)
    if (inner !== undefined) {
      return problemsOf({ ...inner, path: [...issue.path, ...inner.path] }, input)
    }
  }
  const value = showValue(valueAt(input, issue.path))
  const field = fieldName(issue.path)
  return [{ field: field === '' ? 'configuration' : field, value, remedy: issue.message }]
}

/** @throws ConnectorError ERR_KV_CONFIG naming every wrong field and what to write instead. */
export function parseRouterConfig(input: unknown): ParsedRouterConfig {
  const parsed = schema.safeParse(input, { error: plainWords })
  if (!parsed.success) {
    const [first, ...others] = parsed.error.issues.flatMap((issue) => problemsOf(issue, input))
    assert(first !== undefined, 'a refused configuration has no problem')
    throw configError([first, ...others])
  }
  const { prefill, decode, host, port, connector, policy, deadlines, poll } = parsed.data
  return {
    prefills: prefill.map((engine) => ({
      url: withoutSlash(engine.url),
      declared:
        'tp' in engine || 'engineId' in engine || 'sideChannel' in engine
          ? { engineId: engine.engineId, sideChannel: engine.sideChannel, tpSize: engine.tp }
          : {},
    })),
    decodes: decode.map(withoutSlash),
    host,
    port,
    connector: connector ?? null,
    policy,
    deadlines: { ...defaultDeadlines, ...deadlines },
    poll: { ...defaultPollIntervals, ...poll },
  }
}

const withoutSlash = (url: string): string => url.replace(/\/+$/, '')
