/**
 * A router between fake engines, taken down after each test whatever happened; and a raw HTTP client that
 * sees bytes and can hang up.
 */
import { request as httpRequest, type IncomingMessage } from 'node:http'
import { onTestFinished } from 'vitest'
import type { LogFields, Logger } from '@kvferry/connector-api'
import { startRouter, type RouterConfig, type RunningRouter } from '../../src/index.ts'
import {
  decodeAnswer,
  peerOf,
  prefillAnswer,
  startFakeEngine,
  type Behaviour,
  type FakeEngine,
} from './fake-engine.ts'
import { createLoopClock } from './loop-clock.ts'

export interface LogLine extends LogFields {
  readonly message: string
}

export interface Setup {
  readonly router: RunningRouter
  readonly prefills: FakeEngine[]
  readonly decodes: FakeEngine[]
  readonly p: FakeEngine
  readonly d: FakeEngine
  readonly log: LogLine[]
}

export function recordingLogger(log: LogLine[]): Logger {
  const record = (message: string, fields: LogFields = {}) => void log.push({ message, ...fields })
  return {
    debug: record,
    info: record,
    warn: record,
    error: record,
    child: () => recordingLogger(log),
  }
}

export async function engine(
  role: 'producer' | 'consumer',
  behaviour: Behaviour,
  overrides?: Record<string, unknown> | null,
): Promise<FakeEngine> {
  const started = await startFakeEngine(
    overrides === null ? null : peerOf(role, overrides),
    behaviour,
  )
  onTestFinished(() => started.kill())
  return started
}

export async function setup(
  options: {
    readonly prefill?: Behaviour
    readonly decode?: Behaviour
    readonly prefills?: FakeEngine[]
    readonly decodes?: FakeEngine[]
    readonly config?: Partial<RouterConfig>
  } = {},
): Promise<Setup> {
  const prefills = options.prefills ?? [await engine('producer', options.prefill ?? prefillAnswer)]
  const decodes = options.decodes ?? [await engine('consumer', options.decode ?? decodeAnswer)]
  const log: LogLine[] = []
  const router = await startRouter(
    {
      prefill: prefills.map(({ url }) => url),
      decode: decodes.map(({ url }) => url),
      port: 0,
      ...options.config,
    },
    { logger: recordingLogger(log), clock: createLoopClock() },
  )
  onTestFinished(() => router.close())
  return { router, prefills, decodes, p: prefills[0]!, d: decodes[0]!, log }
}

export interface Answer {
  readonly status: number
  readonly headers: IncomingMessage['headers']
  readonly text: string
  /** The connection broke before the answer's end. */
  readonly isBroken: boolean
}

export const errorOf = (answer: Answer) =>
  (JSON.parse(answer.text) as { error: { message: string; type: string; code: string } }).error

export interface OpenRequest {
  /** Head of the answer. */
  readonly head: Promise<IncomingMessage>
  /** Reads the whole body; not to be mixed with reading `head` directly. */
  read(): Promise<Answer>
  hangUp(): void
}

export function open(
  url: string,
  body: unknown,
  headers: Record<string, string | string[]> = {},
  path = '/v1/completions',
): OpenRequest {
  const raw = typeof body === 'string' ? body : JSON.stringify(body)
  const request = httpRequest(`${url}${path}`, {
    method: 'POST',
    agent: false,
    headers: { 'content-type': 'application/json', ...headers },
  })
  const head = new Promise<IncomingMessage>((resolve, reject) => {
    request.once('response', resolve)
    request.on('error', reject)
  })
  const read = async (): Promise<Answer> => {
    const message = await head
    const chunks: Buffer[] = []
    let isBroken = false
    try {
      for await (const chunk of message) chunks.push(chunk as Buffer)
    } catch {
      isBroken = true
    }
    const text = Buffer.concat(chunks).toString()
    return { status: message.statusCode ?? 0, headers: message.headers, text, isBroken }
  }
  head.catch(() => {})
  onTestFinished(() => void request.destroy())
  request.end(raw)
  return { head, read, hangUp: () => request.destroy() }
}

export const post = (...args: Parameters<typeof open>): Promise<Answer> => open(...args).read()

export async function get(url: string): Promise<{ status: number; text: string }> {
  const response = await fetch(url)
  return { status: response.status, text: await response.text() }
}

/** Value of one metric line, 0 when absent. */
export async function metric(router: RunningRouter, line: string): Promise<number> {
  const { text } = await get(`${router.url}/metrics`)
  const found = text.split('\n').find((candidate) => candidate.startsWith(`${line} `))
  return found === undefined ? 0 : Number(found.slice(line.length + 1))
}

/** Lets the event loop go round as often as it takes for everybody to have done what is under way. */
export async function loopTurns(count = 20): Promise<void> {
  for (let turn = 0; turn < count; turn++) await new Promise((resolve) => setTimeout(resolve, 1))
}

/** Polls a condition that another process or the event loop brings about; the test's timeout bounds it. */
export async function eventually(condition: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await condition())) await new Promise((resolve) => setTimeout(resolve, 5))
}

export const prompt = { model: 'tiny', prompt: 'once upon a time', max_tokens: 8 }
