/**
 * What the shim and its host say to each other. The shim's messages are checked here once, at the boundary;
 * what does not pass ends the host, because the two belong to one package and must not guess.
 *
 * Protocol 3: a step may say that what its forward computes is to leave with it. It never leaves the machine,
 * so it is no part of WIRE_VERSION.
 */
import { ConnectorError, limits } from '@kvferry/connector-api'
import { z } from 'zod'
import { bridgeLimits } from './limits.ts'

export const bridgeProtocol = 3

const count = z.int().min(0)
const id = z.string()
const ids = z.array(id).max(limits.requestCountMax)
const blocks = z.array(z.array(z.int().min(0).max(0xffff_ffff)).max(4 * limits.blocksPerPostMax))
const params = z.record(z.string(), z.unknown())
/** As a client sent them, in JSON of their own: no text of theirs can spoil the message around them. */
const paramsText = z.string().transform((text, context) => {
  try {
    const parsed = params.safeParse(JSON.parse(text))
    if (parsed.success) return parsed.data
  } catch {
    // Reported below, like JSON that is no object.
  }
  context.addIssue({ code: 'custom', message: 'is no JSON object' })
  return z.NEVER
})
/** `digestTokens` of the prompt, hexadecimal. The ids themselves stay in vLLM. */
const digest = z
  .string()
  .regex(/^[0-9a-f]{64}$/)
  .transform((hex): Uint8Array => Uint8Array.from(Buffer.from(hex, 'hex')))
const end = z.enum(['stopped', 'length-capped', 'aborted', 'failed'])

const region = z.strictObject({
  name: z.string(),
  /** Index into `memories`. */
  memory: count,
  offsetBytes: count,
  blockSizeBytes: count,
  blockStrideBytes: count,
})

const start = z.strictObject({
  t: z.literal('start'),
  protocol: z.literal(bridgeProtocol),
  /** Checked by `parseConfig`. */
  config: z.unknown(),
  logLevel: z.enum(['debug', 'info', 'warn', 'error', 'silent']),
  /** To be mapped for as long as this process lives: how the shim sees that its memory is gone. */
  life: z.strictObject({ fd: count, sizeBytes: count.min(1) }),
  caches: z.strictObject({
    model: z.string(),
    dtype: z.string(),
    layout: z.string(),
    kvHeadCount: count,
    headSize: count,
    blockTokens: count.min(1),
    blockCount: count.min(1),
    memories: z
      .array(z.strictObject({ fd: count, sizeBytes: count }))
      .max(bridgeLimits.memoryCountMax),
    regions: z.array(region).max(limits.regionCountMax),
  }),
})

/** One hook call of vLLM's, with what the shim answered in the connector's place. */
const event = z.discriminatedUnion('k', [
  z.strictObject({ k: z.literal('new'), id, prompt: count, digest, params: paramsText }),
  z.strictObject({ k: z.literal('match'), id, computed: count, answer: count }),
  z.strictObject({
    k: z.literal('alloc'),
    id,
    computed: count,
    blocks,
    external: count,
    /** Those that the load fills, for the shim's own accounts. */
    fill: z.array(count).optional(),
  }),
  z.strictObject({
    k: z.literal('finish'),
    id,
    computed: count,
    end,
    blocks,
    delayFree: z.boolean(),
    params: params.nullable(),
  }),
  z.strictObject({ k: z.literal('output'), sent: ids, received: ids }),
])

/** Of a request that takes part in a transfer; `blocks`: those that no event has named. */
const scheduled = z.strictObject({ id, computed: count, blocks })

const step = z.strictObject({
  t: z.literal('step'),
  index: count,
  scheduled: z.array(scheduled).max(limits.requestCountMax),
  preempted: ids,
  events: z.array(event).max(bridgeLimits.eventCountMax),
  /** The engine waits until nothing touches the preempted requests' blocks. */
  settle: z.boolean(),
  /** Its forward computes what leaves with it; `saved` follows when that has ended. */
  save: z.boolean(),
})

/** The forward of that step has ended. */
const saved = z.strictObject({ t: z.literal('saved'), index: count })

const shimMessage = z.discriminatedUnion('t', [
  start,
  step,
  saved,
  z.strictObject({ t: z.literal('ping') }),
])

export type StartMessage = z.output<typeof start>
export type StepMessage = z.output<typeof step>
export type SavedMessage = z.output<typeof saved>
export type HookEvent = z.output<typeof event>
export type ShimMessage = z.output<typeof shimMessage>

export interface FailureReport {
  readonly id: string
  readonly code: string
  readonly message: string
}

export type HostMessage =
  | {
      readonly t: 'ready'
      readonly incarnation: string
      /** Whose rules the shim answers by. */
      readonly connector: string
      readonly sideChannel: { readonly host: string; readonly port: number }
      /** The worker half's handshake metadata, hexadecimal; it stays inside the engine. */
      readonly metadata: string
      readonly leaseMs: number
      readonly recomputeThreshold: number
      readonly isProgressive: boolean
      /** How long a load may wait for its producer to begin; 0 where it begins by itself. */
      readonly registrationTimeoutMs: number
    }
  | { readonly t: 'refused'; readonly code: string; readonly message: string }
  | {
      readonly t: 'results'
      readonly sent: readonly string[]
      readonly received: readonly string[]
      readonly failed: readonly FailureReport[]
    }
  | { readonly t: 'settled' }
  | { readonly t: 'pong'; readonly counters: Readonly<Record<string, number>> }

/** @throws ConnectorError ERR_KV_MESSAGE_INVALID naming the first field that is wrong. */
export function parseShimMessage(input: unknown): ShimMessage {
  const parsed = shimMessage.safeParse(input)
  if (parsed.success) return parsed.data
  const [issue] = parsed.error.issues
  const reason = `${issue?.path.map(String).join('.') ?? ''}: ${issue?.message ?? 'unreadable'}`
  throw new ConnectorError('ERR_KV_MESSAGE_INVALID', `from the engine: ${reason}`, {
    where: 'engine',
    reason,
  })
}
