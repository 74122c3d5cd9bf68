/** One prefill and one decode engine in this process over the memory fabric, and a router's two calls. */
import { silentLogger } from '@kvferry/connector-api'
import type { MemoryFabric } from '@kvferry/connector-api/testing'
import {
  startEngine,
  type EngineOptions,
  type EngineStats,
  type RunningEngine,
} from '../../src/index.ts'
import { createFabric } from './test-core.ts'

export interface Pair {
  readonly prefill: RunningEngine
  readonly decode: RunningEngine
  readonly fabric: MemoryFabric
  close(): Promise<void>
}

export const inlineOptions = (fabric: MemoryFabric): EngineOptions => ({
  core: 'inline',
  fabric,
  logger: silentLogger,
  timeScale: 0,
  debugEndpoints: true,
})

export async function startPair(options: EngineOptions = {}): Promise<Pair> {
  const fabric = createFabric()
  const shared = { ...inlineOptions(fabric), connector: 'pull', ...options }
  const prefill = await startEngine({ ...shared, role: 'prefill', engineId: 'p0' })
  const decode = await startEngine({ ...shared, role: 'decode', engineId: 'd0' })
  return {
    prefill,
    decode,
    fabric,
    async close() {
      await decode.close()
      await prefill.close()
    },
  }
}

export interface CompletionAnswer {
  readonly text: string
  readonly kvTransferParams: Record<string, unknown> | null
  readonly kvferry: Record<string, unknown>
}

export async function post(
  engine: RunningEngine,
  body: Record<string, unknown>,
  headers: Readonly<Record<string, string>> = {},
): Promise<Response> {
  return fetch(`${engine.url}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-kvferry-timings': '1', ...headers },
    body: JSON.stringify(body),
  })
}

export async function complete(
  engine: RunningEngine,
  body: Record<string, unknown>,
  headers: Readonly<Record<string, string>> = {},
): Promise<CompletionAnswer> {
  const response = await post(engine, body, headers)
  const answer = (await response.json()) as {
    choices: { text: string }[]
    kv_transfer_params: Record<string, unknown> | null
    kvferry: Record<string, unknown>
  }
  if (response.status !== 200) throw new Error(JSON.stringify(answer))
  return {
    text: answer.choices[0]?.text ?? '',
    kvTransferParams: answer.kv_transfer_params,
    kvferry: answer.kvferry,
  }
}

/** What P hands over for this prompt. */
export async function prefillOf(
  pair: Pick<Pair, 'prefill'>,
  prompt: string,
  headers: Readonly<Record<string, string>> = {},
): Promise<Record<string, unknown>> {
  const body = {
    prompt,
    max_tokens: 1,
    kv_transfer_params: { do_remote_decode: true, do_remote_prefill: false },
  }
  const { kvTransferParams } = await complete(pair.prefill, body, headers)
  if (kvTransferParams === null) throw new Error('P handed nothing over')
  return kvTransferParams
}

export interface ErrorAnswer {
  readonly status: number
  readonly message: string
  readonly type: string
  readonly code: string
}

/** The error object of an answer, with its status. */
export async function errorOf(response: Response): Promise<ErrorAnswer> {
  const { error } = (await response.json()) as { error: Omit<ErrorAnswer, 'status'> }
  return { status: response.status, ...error }
}

export async function statsOf(engine: RunningEngine): Promise<EngineStats> {
  return (await (await fetch(`${engine.url}/kvferry/v1/stats`)).json()) as EngineStats
}
