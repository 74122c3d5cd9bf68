/**
 * `kvferry-bench sweep`: from flags to exit code. Chooses the agent, runs what is missing in the results
 * directory, writes the report. 0 = all checks passed (points outside the guard are marked), 1 = one failed.
 */
import { availableParallelism } from 'node:os'
import type { Command } from 'commander'
import { createSystemClock } from '@kvferry/runtime'
import { resolveAgent, type ChosenAgent } from '../compare/agent-choice.ts'
import { headline } from '../compare/table.ts'
import { missedTexts } from '../experiments/bar.ts'
import { readEnvironment } from '../lib/environment.ts'
import { omit } from '../lib/omit.ts'
import { createProgress } from '../lib/progress.ts'
import { assertWritable, makeDirectory, writeResult } from '../lib/result-file.ts'
import type { CommandIo } from '../main.ts'
import type { SweepConditions } from '../sweep/conditions.ts'
import { assertContinuable } from '../sweep/continuation.ts'
import { findPointFiles } from '../sweep/point-file.ts'
import { requestsAt } from '../sweep/presets.ts'
import { runSweep, type SweepOutcome, type SweepTarget } from '../sweep/run-sweep.ts'
import { renderSummary, summaryOf } from '../sweep/summary.ts'
import { urlCluster } from '../sweep/url-cluster.ts'
import { judgeReality } from '../sweep/real-vllm.ts'
import { judgeSweep } from '../sweep/verdict.ts'
import { UsageError } from '../usage-error.ts'
import { assertModel } from './engine-flags.ts'
import { clusterMaker, collect, configurationsOf } from './shared.ts'
import { parseSweepFlags, type SweepFlags, type SweepRequest } from './sweep-options.ts'

const example = `
Examples:
  $ kvferry-bench sweep --preset quick --results-dir results
  $ kvferry-bench sweep --preset push-text --connectors pull,pull:posting=inline --html sweep.html
  $ kvferry-bench sweep --url push=http://127.0.0.1:8000 --qps 1,2 --input-lens 1k,2k

A second call with the same flags makes what is missing. Exit code: 0 all checks passed (points outside the
overrun guard are marked only), 1 a check failed, a bar was missed or a run could not be made, 2 wrong usage.`

async function targetsOf(request: SweepRequest): Promise<SweepTarget[]> {
  const configurations = request.connectors.length > 0 ? await configurationsOf(request) : []
  const startCluster = await clusterMaker(request, request.agent)
  const clock = createSystemClock()
  const { readyTimeoutMs } = request
  const targets = [
    ...configurations.map((configuration) => ({
      label: configuration.label,
      configuration,
      url: null,
      startCluster,
    })),
    ...request.urls.map(({ label, url }) => ({
      label,
      configuration: null,
      url,
      startCluster: urlCluster(url, { clock, readyTimeoutMs }),
    })),
  ]
  const labels = targets.map(({ label }) => label)
  const repeated = labels.find((label, index) => labels.indexOf(label) !== index)
  if (repeated === undefined) return targets
  throw new UsageError(`--url ${repeated}: that label is taken; give it another one`)
}

function conditionsFor(
  request: SweepRequest,
  chosen: ChosenAgent | null,
): { engine: SweepConditions; url: SweepConditions } {
  const { preset, seed, prefixCaching, agent } = request
  const known = {
    seed,
    nixl: chosen?.nixl?.version ?? null,
    ucx: chosen?.nixl?.ucxVersion ?? null,
    transports: [],
    deviceTier: chosen?.deviceTier ?? 'unknown',
  }
  const common = {
    seed,
    grid: preset.grid,
    requests: preset.requestCount,
    warmUp: preset.warmUpCount,
    prefixCaching,
    environment: omit(readEnvironment(known), 'transports', 'seed'),
  }
  return {
    engine: { ...common, agent, engine: omit(preset.engine, 'hooks') },
    url: { ...common, agent: null, engine: null },
  }
}

/** Before anything is started, not once in each run. @throws UsageError. */
function checkEngine({ preset, engineBin }: SweepRequest): void {
  // Another build's engine may know other models.
  if (engineBin === null) assertModel(preset.engine)
}

/** The least that it can take: the arrivals alone. */
function announce(request: SweepRequest, targetCount: number): string {
  const { grid, iterations } = request.preset
  const rounds = grid.inputTokens.length * grid.outputTokens.length * iterations * targetCount
  const seconds = grid.qps.reduce(
    (sum, qps) => sum + (requestsAt(request.preset, { qps }) * rounds) / qps,
    0,
  )
  const runs = rounds * grid.qps.length
  return `${runs} runs, at least ${Math.ceil(seconds / 60)} min if none is there yet`
}

async function report(
  request: SweepRequest,
  outcome: SweepOutcome,
  io: CommandIo,
): Promise<number> {
  const verdict = judgeSweep(outcome.files, outcome.failures)
  const bars = request.preset.name === 'vllm-load' ? judgeReality(outcome.files) : []
  const summary = summaryOf(request.resultsDirectory, outcome.files, verdict, bars)
  if (request.html !== null && outcome.files.length > 0) {
    const { toReportPoints, writeSweepReport } = await import('../report/sweep-report.ts')
    writeSweepReport(request.html, toReportPoints(outcome.files), verdict)
  }
  if (request.json !== null) writeResult(request.json, summary, io.stdout)
  if (request.json !== '-') io.stdout.write(renderSummary(summary))
  else
    for (const text of [...verdict.failures, ...missedTexts(bars)])
      io.stderr.write(`kvferry-bench: ${text}\n`)
  return verdict.ok && missedTexts(bars).length === 0 ? 0 : 1
}

async function sweep(flags: SweepFlags, io: CommandIo): Promise<number> {
  const request = parseSweepFlags(flags)
  if (request.json !== null) assertWritable('json', request.json)
  if (request.html !== null) assertWritable('html', request.html)
  if (request.connectors.length > 0) checkEngine(request)
  const targets = await targetsOf(request)
  const hasEngines = targets.some(({ configuration }) => configuration !== null)
  const chosen = hasEngines
    ? await resolveAgent(request.agent, {
        isAssumed: request.engineBin !== null,
        devices: request.devices,
      })
    : null
  const conditions = conditionsFor(request, chosen)
  makeDirectory('results-dir', request.resultsDirectory)
  if (request.logDirectory) makeDirectory('keep-logs', request.logDirectory)
  assertContinuable(findPointFiles(request.resultsDirectory), conditions)
  const progress = createProgress(io.stderr)
  if (chosen) progress.note(headline(chosen.kind, chosen.nixl?.version ?? null))
  progress.note(announce(request, targets.length))
  try {
    const outcome = await runSweep(
      {
        ...request,
        targets,
        conditionsOf: ({ configuration }) => (configuration ? conditions.engine : conditions.url),
      },
      {
        clock: createSystemClock(),
        progress,
        signal: io.signal,
        cores: availableParallelism(),
      },
    )
    progress.end()
    return await report(request, outcome, io)
  } finally {
    progress.end()
  }
}

/** Adds the command to `program`; `finish` receives its exit code. */
export function addSweepCommand(
  program: Command,
  io: CommandIo,
  finish: (exitCode: number) => void,
): void {
  program
    .command('sweep')
    .description('measure a grid of rates and lengths; one file a point, as `vllm bench serve` has')
    .option('--connectors <list>', 'NAME or NAME:key=value, with commas (default pull,push)')
    .option('--url <label=url>', 'a server that is there already; repeatable', collect, [])
    .option(
      '--preset <name>',
      'quick, push-text: the published grid, or vllm-load: what real vLLM was measured with',
      'quick',
    )
    .option('--results-dir <dir>', 'where the files go; a sweep goes on there', 'results')
    .option('--qps <list>', 'arrival rates')
    .option('--input-lens <list>', 'prompt tokens; 4k is 4096')
    .option('--output-lens <list>', 'output tokens')
    .option('--iterations <n>', 'times that the grid is gone through')
    .option('--requests <n>', 'measured requests of one run')
    .option('--warm-up <n>', 'requests before them')
    .option('--seed <n>', 'of prompts and arrival times', '1')
    .option('--posting <mode>', 'pull: both, background or inline', 'both')
    .option('--option <key=value>', 'option of all connectors, repeatable', collect, [])
    .option(
      '--hooks <place>',
      "connector hooks: after-launch, additive or both (default: the preset's)",
    )
    .option('--model <preset>', "the engine's model preset")
    .option('--kv-scale <n>', 'divide the head size by this, so that the machine carries it')
    .option('--time-scale <x>', 'multiply every modelled time by this')
    .option('--block-size <tokens>', 'tokens per KV block')
    .option('--num-blocks <n>', 'KV blocks of one engine')
    .option(
      '--block-order <word>',
      'scattered: nothing merges, as after hours of service; or sequential',
    )
    .option('--max-num-seqs <n>', 'sequences per step')
    .option('--max-num-batched-tokens <tokens>', 'of one step: longer prompts go in chunks')
    .option('--max-model-len <tokens>', 'prompt and output together')
    .option('--prefix-caching <mode>', "engines' prefix cache: on or off", 'off')
    .option('--agent <kind>', 'nixl, or memory: all roles in one process', 'nixl')
    .option('--ready-timeout <s>', 'for servers given by --url')
    .option('--redo-invalid', 'make points again that were outside the overrun guard')
    .option('--save-detailed', 'each request in the files, too')
    .option('--devices <list>', "where P's and D's KV lies: cpu or cuda:N, cuda:0,cuda:1")
    .option('--json <file>', 'a summary; - = stdout, and nothing else')
    .option('--html <file>', 'a report with charts, in one file')
    .option('--keep-logs <dir>', "keep each process's log and who ran where")
    .option('--engine-bin <script>', 'run this instead of the installed kvferry-engine')
    .option('--router-bin <script>', 'run this instead of the installed kvferry-router')
    .addHelpText('after', example)
    .action(async (flags: SweepFlags) => finish(await sweep(flags, io)))
}
