/** What the harness and its children say to each other: a command with a JSON word, and a JSON word as the answer. */
import type { AgentPath } from '@kvferry/connector-api'
import type { Side } from './blocks.ts'

/** Blocks of one size over the whole pool, or the KV of a prompt in its many regions. */
export type TableName = number | 'kv'

export interface Hello {
  readonly name: string
  /** Hex, as the tables. */
  readonly metadata: string
  readonly tables: readonly (readonly [TableName, string])[]
}

export interface Blocks {
  readonly table: TableName
  readonly count: number
}

export interface RoundOrder extends Blocks {
  readonly path: AgentPath | 'auto'
  readonly direction: 'read' | 'write'
}

export interface Round {
  /** In the JavaScript thread: from the first post to the last callback. */
  readonly wallUs: number
  /** As the agent's thread sees it, from taking it up to its final status; where there were several posts, the wall's. */
  readonly agentUs: number
  /** The JavaScript thread at work for it: choosing the path, posting, hearing of the end. */
  readonly threadUs: number
  /** CPU time of the whole process. */
  readonly cpuUs: number
  /** Which path it took. */
  readonly path: AgentPath
}

export interface Content extends Blocks {
  readonly side: Side
  readonly seed: number
}

/** Sent with a space before the JSON, which has none inside. */
export const encode = (value: unknown): string => JSON.stringify(value).replaceAll(' ', '\\u0020')

export const decode = <T>(words: readonly string[]): T => JSON.parse(words[0] ?? 'null') as T
