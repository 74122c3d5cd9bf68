/**
 * `kvferry-bench micro`: from flags to exit code. Runs the measurement, writes the result file and the
 * table. 0 = every bar held, 1 = one was missed or the machine is too noisy to judge.
 */
import type { Command } from 'commander'
import { createProgress, type Progress } from '../lib/progress.ts'
import { assertWritable, writeResult } from '../lib/result-file.ts'
import { assertMatchesSchema } from '../lib/result-schema.ts'
import type { CommandIo } from '../main.ts'
import type {
  MicroHistoryResult,
  MicroPathsResult,
  MicroResult,
  MicroRouterResult,
} from '../micro/result.ts'
import { paths } from '../micro/paths-settings.ts'
import { micro } from '../micro/settings.ts'
import { UsageError } from '../usage-error.ts'

interface MicroFlags {
  readonly agent?: boolean
  readonly router?: boolean
  readonly history?: boolean
  readonly paths?: boolean
  readonly pairs?: string
  readonly python?: string
  readonly json?: string
}

const pairsMax = 100_000
const defaults = [
  `${micro.pairCount} with --agent`,
  `${micro.router.roundCount} with --router`,
  `${micro.history.roundCount} with --history`,
  `${paths.roundCount} with --paths`,
].join(', ')

const example = `
Examples:
  $ kvferry-bench micro --agent --json micro.json
  $ kvferry-bench micro --router
  $ kvferry-bench micro --history
  $ kvferry-bench micro --paths --json paths.json

--agent needs NIXL and a C++ compiler (for the baseline), --paths needs NIXL. Exit code: 0 every bar held, 1 one was missed, a byte was
wrong or the machine is too noisy to judge, 2 wrong usage.`

/** One part's measurement, and how its result looks on the screen. */
interface Measured {
  readonly result: MicroResult | MicroRouterResult | MicroHistoryResult | MicroPathsResult
  readonly text: string
}

/** The default is each part's own. @throws UsageError. */
function countOf({ pairs }: MicroFlags): number | undefined {
  if (pairs === undefined) return undefined
  const count = Number(pairs)
  if (Number.isInteger(count) && count >= 1 && count <= pairsMax) return count
  throw new UsageError(`--pairs ${pairs}: use a whole number from 1 to ${pairsMax}`)
}

// What a part needs is loaded here, not above: commands that need no NIXL must start without it.
async function measureAgent(flags: MicroFlags, io: CommandIo, progress: Progress) {
  const pairs = countOf(flags) ?? micro.pairCount
  const { runMicroAgent } = await import('../micro/agent.ts')
  const { renderMicro } = await import('../micro/table.ts')
  const { python } = flags
  const result = await runMicroAgent({ pairs, progress, signal: io.signal, python })
  return { result, text: renderMicro(result) }
}

async function measureRouter(flags: MicroFlags, io: CommandIo, progress: Progress) {
  const rounds = countOf(flags) ?? micro.router.roundCount
  const { runMicroRouter } = await import('../micro/router.ts')
  const { renderMicroRouter } = await import('../micro/router-table.ts')
  const result = await runMicroRouter({ rounds, progress, signal: io.signal })
  return { result, text: renderMicroRouter(result) }
}

async function measureHistory(flags: MicroFlags, io: CommandIo, progress: Progress) {
  const rounds = countOf(flags) ?? micro.history.roundCount
  const { runMicroHistory } = await import('../micro/history.ts')
  const { renderMicroHistory } = await import('../micro/history-table.ts')
  const result = await runMicroHistory({ rounds, progress, signal: io.signal })
  return { result, text: renderMicroHistory(result) }
}

async function measurePaths(flags: MicroFlags, io: CommandIo, progress: Progress) {
  const rounds = countOf(flags) ?? paths.roundCount
  const { runMicroPaths } = await import('../micro/paths.ts')
  const { renderMicroPaths } = await import('../micro/paths-table.ts')
  const result = await runMicroPaths({ rounds, progress, signal: io.signal })
  return { result, text: renderMicroPaths(result) }
}

const parts = {
  agent: measureAgent,
  router: measureRouter,
  history: measureHistory,
  paths: measurePaths,
} as const
const partNames = Object.keys(parts) as readonly (keyof typeof parts)[]

async function measure(flags: MicroFlags, io: CommandIo): Promise<number> {
  const [part, ...others] = partNames.filter((name) => flags[name] === true)
  if (part === undefined || others.length > 0) {
    const names = partNames.map((name) => `--${name}`).join(', ')
    throw new UsageError(`micro: name what to measure, one of: ${names}`)
  }
  if (flags.json !== undefined) assertWritable('json', flags.json)
  const progress = createProgress(io.stderr)
  try {
    const { result, text }: Measured = await parts[part](flags, io, progress)
    progress.end()
    assertMatchesSchema('micro', result)
    if (flags.json !== undefined) writeResult(flags.json, result, io.stdout)
    if (flags.json !== '-') io.stdout.write(text)
    else
      for (const failure of result.verdict.failures) io.stderr.write(`kvferry-bench: ${failure}\n`)
    return result.verdict.ok ? 0 : 1
  } finally {
    progress.end()
  }
}

/** Adds the command to `program`; `finish` receives its exit code. */
export function addMicroCommand(
  program: Command,
  io: CommandIo,
  finish: (exitCode: number) => void,
): void {
  program
    .command('micro')
    .description('measure one part alone, against the plainest code that does the same')
    .option('--agent', 'the NIXL agent against a bare loop over the C API')
    .option('--router', 'what the router adds to a token of 100 streams, against no router')
    .option('--history', "the history's index: a block's lookup, by how many it holds")
    .option('--paths', 'the same blocks by descriptors and by slabs')
    .option('--pairs <n>', `interleaved pairs of each case (default: ${defaults})`)
    .option(
      '--python <interpreter>',
      "also compare with NIXL's bindings in this Python (with numpy)",
    )
    .option('--json <file>', 'write the result there; - = stdout, and nothing else')
    .allowExcessArguments(false)
    .addHelpText('after', example)
    .action(async (flags: MicroFlags) => finish(await measure(flags, io)))
}
