/**
 * `kvferry-bench trace`: replays a trace of requests through the history, under one policy after another.
 * Exit code 0, or 2 for wrong usage: there is nothing to fail.
 */
import { basename } from 'node:path'
import type { Command } from 'commander'
import { historyPolicyNames, type HistoryPolicyName } from '@kvferry/connector-api'
import { createProgress } from '../lib/progress.ts'
import { assertWritable, writeResult } from '../lib/result-file.ts'
import { assertMatchesSchema } from '../lib/result-schema.ts'
import { limits } from '../limits.ts'
import type { CommandIo } from '../main.ts'
import { readTrace } from '../trace/read-trace.ts'
import { runTrace } from '../trace/run-trace.ts'
import { createSyntheticTrace } from '../trace/synthetic-trace.ts'
import { renderTrace } from '../trace/table.ts'
import { UsageError } from '../usage-error.ts'
import { integerBetween, numberBetween, oneOf } from './flag-values.ts'

interface TraceFlags {
  readonly trace?: string
  readonly policy: string
  readonly capacity: string
  readonly requests: string
  readonly blockBytes: string
  readonly probation?: string
  readonly seed: string
  readonly json?: string
}

/** Where the path of a trace may be kept, so that scripts need not know it. */
const traceVariable = 'KVFERRY_TRACE'

const example = `
Examples:
  $ kvferry-bench trace --trace conversation_trace.jsonl --json trace.json
  $ kvferry-bench trace --policy observed-reuse,copy-on-eviction --capacity 5+20

A trace has one JSON object a line: timestamp (ms), input_length, output_length (tokens), hash_ids (one for each
block of 512 tokens; equal ids are equal blocks with equal prefixes). Without --trace and ${traceVariable} a synthetic
one is made from --seed.`

function parsePolicies(text: string): HistoryPolicyName[] {
  return text.split(',').map((name) => oneOf('policy', name, historyPolicyNames))
}

/** `1+5,2+10`: device and host tier in percent of the trace's different blocks. */
function parseCapacities(text: string) {
  const range = { min: 0, max: 100 }
  return text.split(',').map((pair) => {
    const [device, host, ...rest] = pair.split('+')
    if (device === undefined || host === undefined || rest.length > 0) {
      throw new UsageError(`--capacity ${pair}: use DEVICE+HOST in percent, for example 5+20`)
    }
    return {
      devicePercent: numberBetween('capacity', device, range),
      hostPercent: numberBetween('capacity', host, range),
    }
  })
}

async function trace(flags: TraceFlags, io: CommandIo): Promise<number> {
  const policies = parsePolicies(flags.policy)
  const capacities = parseCapacities(flags.capacity)
  const countRange = { min: 1, max: limits.requestsMax }
  const requestCount = integerBetween('requests', flags.requests, countRange)
  const blockBytes = integerBetween('block-bytes', flags.blockBytes, { min: 1, max: 2 ** 40 })
  const probationKeysMax =
    flags.probation === undefined
      ? null
      : integerBetween('probation', flags.probation, { min: 0, max: 2 ** 24 })
  const seed = integerBetween('seed', flags.seed, { min: 0, max: 2 ** 31 })
  if (flags.json !== undefined) assertWritable('json', flags.json)
  const path = flags.trace ?? process.env[traceVariable]
  const requests =
    path === undefined || path === ''
      ? createSyntheticTrace(requestCount, seed)
      : await readTrace(path)
  const file = path === undefined || path === '' ? null : basename(path)
  const progress = createProgress(io.stderr)
  try {
    const result = await runTrace({
      ...{ requests, file, policies, capacities, blockBytes, probationKeysMax, seed, progress },
      source: file === null ? 'synthetic' : 'file',
      signal: io.signal,
    })
    progress.end()
    assertMatchesSchema('trace', result)
    if (flags.json !== undefined) writeResult(flags.json, result, io.stdout)
    if (flags.json !== '-') io.stdout.write(renderTrace(result))
    return 0
  } finally {
    progress.end()
  }
}

/** Adds the command to `program`; `finish` receives its exit code. */
export function addTraceCommand(
  program: Command,
  io: CommandIo,
  finish: (exitCode: number) => void,
): void {
  program
    .command('trace')
    .description(
      'replay a trace of requests through the history: hits and bytes written, by policy',
    )
    .option('--trace <file>', `the trace (default: $${traceVariable}, else a synthetic one)`)
    .option('--policy <names>', 'comma-separated', historyPolicyNames.join(','))
    .option('--capacity <pairs>', 'DEVICE+HOST in percent of the different blocks', '1+5,2+10,5+20')
    .option('--requests <n>', 'length of a synthetic trace', '12031')
    .option('--block-bytes <n>', 'bytes of one block of the trace', String(512 * 12 * 1_024))
    .option(
      '--probation <keys>',
      "bound on the keys remembered of blocks that are not stored (default: twice both tiers' blocks)",
    )
    .option('--seed <n>', 'of a synthetic trace', '1')
    .option('--json <file>', 'write the result there; - = stdout, and nothing else')
    .allowExcessArguments(false)
    .addHelpText('after', example)
    .action(async (flags: TraceFlags) => finish(await trace(flags, io)))
}
