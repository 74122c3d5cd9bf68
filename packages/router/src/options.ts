/**
 * The router's configuration: the same object from a file, from flags and in code. Strict: an unknown key
 * is an error that names the nearest known one. Pure; called by startRouter.
 */
import { z } from 'zod'
import { ConnectorError } from '@kvferry/connector-api'
import { nearestKey } from '@kvferry/runtime'
import type { DeclaredPrefill } from './handoff.ts'
import {
  defaultDeadlines,
  defaultPollIntervals,
  routerLimits,
  type Deadlines,
  type PollIntervals,
} from './limits.ts'

const engineUrl = z.url({ protocol: /^https?$/, error: 'write an http:// or https:// URL' })
const milliseconds = z.number().positive().max(86_400_000)

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

const engines = <T extends z.ZodType>(engine: T) =>
  z.array(engine).min(1, 'name at least one engine').max(routerLimits.engineCountPerRoleMax)

const overrides = (defaults: Readonly<Record<string, number>>) =>
  z.strictObject(
    Object.fromEntries(Object.keys(defaults).map((key) => [key, milliseconds.optional()])),
  )

const schema = z.strictObject({
  prefill: engines(z.union([engineUrl.transform((url) => ({ url })), prefillEngine])),
  decode: engines(engineUrl),
  host: z.string().min(1).default('127.0.0.1'),
  port: z.number().int().min(0).max(65_535).default(8_000),
  /** For engines that cannot describe themselves. */
  connector: z.literal('pull', { error: 'only pull can be declared' }).nullish(),
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
  readonly connector?: 'pull' | null
  readonly deadlines?: Partial<Deadlines>
  readonly poll?: Partial<PollIntervals>
}

export interface ParsedRouterConfig {
  readonly prefills: readonly { readonly url: string; readonly declared: DeclaredPrefill }[]
  readonly decodes: readonly string[]
  readonly host: string
  readonly port: number
  readonly connector: 'pull' | null
  readonly deadlines: Deadlines
  readonly poll: PollIntervals
}

const knownKeys = [
  ...Object.keys(schema.shape),
  ...Object.keys(prefillEngine.shape),
  ...Object.keys(defaultDeadlines),
  ...Object.keys(defaultPollIntervals),
]

function configError(issue: z.core.$ZodIssue): ConnectorError<'ERR_KV_CONFIG'> {
  const section = issue.path.map(String).join('.')
  if (issue.code === 'unrecognized_keys') {
    const key = issue.keys[0] ?? ''
    const nearest = nearestKey(key, knownKeys)
    const remedy = nearest === null ? 'leave it out' : `did you mean ${nearest}?`
    const field = section === '' ? key : `${section}.${key}`
    return new ConnectorError('ERR_KV_CONFIG', `configuration: unknown key ${field}: ${remedy}`, {
      field,
      value: key,
      remedy,
    })
  }
  // A prefill entry may be a URL or an object: the branch that went deepest says most.
  if (issue.code === 'invalid_union') {
    const inner = issue.errors.flat().toSorted((a, b) => b.path.length - a.path.length)[0]
    if (inner !== undefined) return configError({ ...inner, path: [...issue.path, ...inner.path] })
  }
  const field = section === '' ? 'configuration' : section
  return new ConnectorError('ERR_KV_CONFIG', `configuration: ${field}: ${issue.message}`, {
    field,
    value: String(issue.input ?? ''),
    remedy: issue.message,
  })
}

/** @throws ConnectorError ERR_KV_CONFIG naming the field and what to write instead. */
export function parseRouterConfig(input: unknown): ParsedRouterConfig {
  const parsed = schema.safeParse(input)
  if (!parsed.success) {
    const issue = parsed.error.issues[0]
    throw configError(issue ?? { code: 'custom', path: [], message: 'invalid', input })
  }
  const { prefill, decode, host, port, connector, deadlines, poll } = parsed.data
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
    deadlines: { ...defaultDeadlines, ...deadlines },
    poll: { ...defaultPollIntervals, ...poll },
  }
}

const withoutSlash = (url: string): string => url.replace(/\/+$/, '')
