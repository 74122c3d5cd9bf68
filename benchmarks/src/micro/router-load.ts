/**
 * One window of the router's measurement: many streams at once to one address, and how long each token was
 * on its way while all of them ran. Called in turn for each address; the stamps of another process compare,
 * because the clock is the machine's.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { request, type Dispatcher } from 'undici'
import { createSseParser } from '../lib/sse.ts'
import { MachineError } from '../machine-error.ts'

export interface Window {
  /** Written by the engine → read here, of each token of the time in which all streams ran. */
  readonly tokenUs: readonly number[]
  /** Request → first token, of each stream. */
  readonly firstUs: readonly number[]
}

export interface WindowOptions {
  readonly streamCount: number
  readonly startsApartMs: number
  /** Of one stream. */
  readonly tokenCount: number
  /** Keeps the connections between windows, what is measured is not their making; has the deadlines. */
  readonly dispatcher: Dispatcher
  readonly signal: AbortSignal
}

interface Token {
  /** System-wide monotonic clock. */
  readonly sentAtNs: bigint
  readonly readAtNs: bigint
}

interface Stream {
  readonly startedAtNs: bigint
  readonly tokens: readonly Token[]
}

const stamp = /"sentAtNs":"(\d+)"/

/** @throws Error when it does not end as it should. */
async function readStream(
  url: string,
  { tokenCount, dispatcher, signal }: WindowOptions,
): Promise<Stream> {
  const startedAtNs = process.hrtime.bigint()
  const answer = await request(`${url}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'stream', prompt: 'x', max_tokens: tokenCount, stream: true }),
    signal,
    dispatcher,
  })
  if (answer.statusCode !== 200) {
    throw new Error(`${url} answered ${answer.statusCode}: ${await answer.body.text()}`)
  }
  const parser = createSseParser()
  const tokens: Token[] = []
  let isDone = false
  for await (const chunk of answer.body as AsyncIterable<Buffer>) {
    const readAtNs = process.hrtime.bigint()
    for (const data of parser.push(chunk)) {
      const sentAtNs = stamp.exec(data)?.[1]
      if (sentAtNs === undefined) isDone = data === '[DONE]'
      else tokens.push({ sentAtNs: BigInt(sentAtNs), readAtNs })
    }
  }
  if (!isDone || tokens.length !== tokenCount) {
    throw new Error(`${url}: a stream ended after ${tokens.length} of ${tokenCount} tokens`)
  }
  return { startedAtNs, tokens }
}

const toUs = (ns: bigint): number => Number(ns) / 1_000

/** Pure. @throws MachineError when there was no time at which all streams ran. */
export function windowOf(streams: readonly Stream[]): Window {
  const sentAt = streams.map(({ tokens }) => tokens.map(({ sentAtNs }) => sentAtNs))
  const from = sentAt.map((times) => times[0] ?? 0n).reduce((a, b) => (a > b ? a : b))
  const to = sentAt.map((times) => times.at(-1) ?? 0n).reduce((a, b) => (a < b ? a : b))
  const steady = streams
    .flatMap(({ tokens }) => tokens)
    .filter(({ sentAtNs }) => sentAtNs >= from && sentAtNs <= to)
  if (steady.length === 0) {
    const reason = `the ${streams.length} streams never ran all at once`
    throw new MachineError(
      `${reason}: the machine is too slow, or too busy; try again when it is idle`,
    )
  }
  return {
    tokenUs: steady.map(({ sentAtNs, readAtNs }) => toUs(readAtNs - sentAtNs)),
    firstUs: streams.flatMap(({ startedAtNs, tokens: [first] }) =>
      first === undefined ? [] : [toUs(first.readAtNs - startedAtNs)],
    ),
  }
}

/** @throws Error when a stream fails; MachineError as `windowOf`; the signal's reason. */
export async function runWindow(url: string, options: WindowOptions): Promise<Window> {
  const { streamCount, startsApartMs } = options
  const streams = await Promise.all(
    Array.from({ length: streamCount }, async (_, i) => {
      await sleep(i * startsApartMs)
      return readStream(url, options)
    }),
  )
  return windowOf(streams)
}
