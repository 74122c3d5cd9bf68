/**
 * What the shim and its host say to each other. The shim's messages are checked here once, at the boundary;
 * what does not pass ends the host, because the two belong to one package and must not guess.
 *
 * Protocol 4: prompts that may be in a history bring their keys, an answer may be "ask again", and calls whose answer
 * depends on the time say when they were made. It never leaves the machine, so it is no part of WIRE_VERSION.
 */
import { ConnectorError, blockKeySizeBytes, limits } from '@kvferry/connector-api'
import { z } from 'zod'
import { bridgeLimits } from './limits.ts'

export const bridgeProtocol = 4

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
/** `chainBlockKeys` of the prompt without its last token, base64: hexadecimal would be half as long again. */
const keys = z.base64().transform((text, context): Uint8Array => {
  const bytes = Uint8Array.from(Buffer.from(text, 'base64'))
  if (bytes.length % blockKeySizeBytes === 0) return bytes
  context.addIssue({ code: 'custom', message: 'has half a key' })
  return z.NEVER
})
/** A reading of the machine's monotonic clock, in ms. */
const at = z.number().min(0).optional()
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

/** How much of a prompt the history has (`MatchedBlocks`). */
const matched = z.strictObject({ id, question: count, blocks: count })

/** One hook call of vLLM's, with what the shim answered in the connector's place. */
const event = z.discriminatedUnion('k', [
  z.strictObject({
    k: z.literal('new'),
    id,
    prompt: count,
    digest,
    params: paramsText,
    /** Only of a prompt that the connector may keep. */
    keys: keys.optional(),
  }),
  /** `answer` null: ask again. */
  z.strictObject({ k: z.literal('match'), id, computed: count, answer: count.nullable(), at }),
  z.strictObject({
    k: z.literal('alloc'),
    id,
    computed: count,
    blocks,
    external: count,
    /** For the shim's own accounts: the blocks that the load fills, and whether out of the history. */
    fill: z.array(count).optional(),
    isRestore: z.boolean().optional(),
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
  z.strictObject({
    k: z.literal('output'),
    sent: ids,
    received: ids,
    /** Answers that the engine's scheduler half has taken. */
    matched: z.array(matched).max(limits.requestCountMax).optional(),
    at,
  }),
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
export type MatchedReport = z.output<typeof matched>
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
      readonly matched: readonly MatchedReport[]
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
