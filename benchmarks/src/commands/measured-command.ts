/**
 * What the commands that measure connectors do around their measurement: look before they start, choose the
 * agent, keep progress on stderr, check the result against its schema, write it wherever it was asked for.
 */
import { availableParallelism } from 'node:os'
import { resolve } from 'node:path'
import type { Command } from 'commander'
import { createSystemClock } from '@kvferry/runtime'
import { resolveAgent, type ChosenAgent } from '../compare/agent-choice.ts'
import type { CompareDependencies } from '../compare/compare.ts'
import type { Devices } from '../compare/process-cluster.ts'
import type { CompareResult } from '../compare/result.ts'
import { headline } from '../compare/table.ts'
import { createProgress } from '../lib/progress.ts'
import { assertWritable, makeDirectory, writeResult } from '../lib/result-file.ts'
import { assertMatchesSchema, type SchemaName } from '../lib/result-schema.ts'
import type { CommandIo } from '../main.ts'
import { clusterMaker } from './shared.ts'

export interface MeasuredRequest {
  readonly agent: 'nixl' | 'memory' | 'auto'
  readonly json: string | null
  readonly html: string | null
  readonly logDirectory: string | null
  readonly engineBin: string | null
  readonly routerBin: string | null
  readonly debugEndpoints: boolean
  readonly devices: Devices | null
}

export interface MeasuredCommand<Result> {
  readonly schema: SchemaName
  readonly measure: (chosen: ChosenAgent, dependencies: CompareDependencies) => Promise<Result>
  readonly render: (result: Result) => string
  /** Writes the HTML report; loads what it needs for that itself. */
  readonly writeReport: (target: string, result: Result) => Promise<void>
}

/** Before anything is started, and before configurations are resolved. @throws UsageError. */
export function assertOutputs({ json, html }: Pick<MeasuredRequest, 'json' | 'html'>): void {
  if (json !== null) assertWritable('json', json)
  if (html !== null) assertWritable('html', html)
}

/** Resolves to the exit code: 0 = all checks passed, 1 = one failed. */
export async function runMeasured<Result extends Pick<CompareResult, 'verdict'>>(
  request: MeasuredRequest,
  io: CommandIo,
  command: MeasuredCommand<Result>,
): Promise<number> {
  // Fakes given by flags bring their own agents, so there is nothing to look for.
  const { devices, engineBin } = request
  const chosen = await resolveAgent(request.agent, { isAssumed: engineBin !== null, devices })
  if (request.logDirectory) makeDirectory('keep-logs', request.logDirectory)
  const progress = createProgress(io.stderr)
  progress.note(headline(chosen.kind, chosen.nixl?.version ?? null))
  if (chosen.reason) progress.note(chosen.reason)
  try {
    const result = await command.measure(chosen, {
      clock: createSystemClock(),
      progress,
      signal: io.signal,
      startCluster: await clusterMaker(request, chosen.kind),
      cores: availableParallelism(),
    })
    assertMatchesSchema(command.schema, result)
    if (request.json !== null) writeResult(request.json, result, io.stdout)
    if (request.html !== null) await command.writeReport(request.html, result)
    if (request.json !== '-') {
      io.stdout.write(command.render(result))
      if (request.html !== null) io.stdout.write(`report: ${resolve(request.html)}\n`)
    } else {
      const { warnings, failures } = result.verdict
      for (const text of [...warnings, ...failures]) io.stderr.write(`kvferry-bench: ${text}\n`)
    }
    return result.verdict.ok ? 0 : 1
  } finally {
    progress.end()
  }
}

/** Flags that the experiments share; `compare` and `sweep` have them with other words. */
export const addExperimentOptions = (command: Command): Command =>
  command
    .option('--seed <n>', 'of the requests', '1')
    .option('--agent <kind>', 'nixl (default) or memory: all roles in one process', 'nixl')
    .option('--model <name>', "the engines' model preset")
    .option('--kv-scale <n>', 'divides the head size, and nothing else')
    .option('--time-scale <n>', 'factor on every modelled time')
    .option('--num-blocks <n>', 'KV blocks of an engine; everything else follows by ratio')
    .option('--devices <list>', "where P's and D's KV lies: cpu or cuda:N, cuda:0,cuda:1")
    .option('--json <file>', 'write the result there; - = stdout, and nothing else')
    .option('--html <file>', 'a report with charts, in one file')
    .option('--keep-logs <dir>', "keep each process's log and who ran where")
    .option('--engine-bin <script>', 'run this instead of the installed kvferry-engine')
    .option('--router-bin <script>', 'run this instead of the installed kvferry-router')
