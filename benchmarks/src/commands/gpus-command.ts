/**
 * `kvferry-bench gpus`: from flags to exit code. 0 = every byte right and no bar missed (what can't be judged is said), 1 = one was
 * missed, a byte was wrong or a process failed, 2 = wrong usage.
 */
import type { Command } from 'commander'
import { gpus, partNames, type PartName } from '../gpus/settings.ts'
import { createProgress } from '../lib/progress.ts'
import { assertWritable, writeResult } from '../lib/result-file.ts'
import { assertMatchesSchema } from '../lib/result-schema.ts'
import type { CommandIo } from '../main.ts'
import { UsageError } from '../usage-error.ts'
import { oneOf, parseDevices } from './flag-values.ts'

interface GpusFlags {
  readonly devices: string
  readonly parts: string
  readonly maxMib: string
  readonly json?: string
}

const example = `
Examples:
  $ kvferry-bench gpus --json gpus.json
  $ kvferry-bench gpus --devices cuda:0,cuda:0 --parts tiers,cost     one GPU, two processes
  $ kvferry-bench gpus --devices cpu --max-mib 16                     host memory: nothing is judged

Needs NIXL; the part descriptors needs a C++ compiler, or KVFERRY_BARE_LOOP. Exit code: 0 no bar missed, 1 one was, or a byte was
wrong, 2 wrong usage.`

function parse(flags: GpusFlags) {
  const { prefill, decode } = parseDevices(flags.devices)!
  if ((prefill === 'cpu') !== (decode === 'cpu')) {
    throw new UsageError(`--devices ${flags.devices}: no path moves between host and GPU memory`)
  }
  const totalMibMax = Number(flags.maxMib)
  if (!(gpus.totalsMib as readonly number[]).includes(totalMibMax) || totalMibMax < 4) {
    const known = gpus.totalsMib.filter((total) => total >= 4).join(', ')
    throw new UsageError(`--max-mib ${flags.maxMib}: use one of ${known}`)
  }
  const parts = flags.parts.split(',').map((word) => oneOf('parts', word.trim(), partNames))
  return { devices: [prefill, decode] as const, parts: [...new Set<PartName>(parts)], totalMibMax }
}

async function measure(flags: GpusFlags, io: CommandIo): Promise<number> {
  const request = parse(flags)
  if (flags.json !== undefined) assertWritable('json', flags.json)
  // Loaded here: commands that need no NIXL must start without it.
  const { runGpus } = await import('../gpus/run-gpus.ts')
  const { renderGpus } = await import('../gpus/table.ts')
  const progress = createProgress(io.stderr)
  try {
    const result = await runGpus({ ...request, progress, signal: io.signal })
    progress.end()
    assertMatchesSchema('gpus', result)
    if (flags.json !== undefined) writeResult(flags.json, result, io.stdout)
    if (flags.json !== '-') io.stdout.write(renderGpus(result))
    else
      for (const failure of result.verdict.failures) io.stderr.write(`kvferry-bench: ${failure}\n`)
    return result.verdict.ok ? 0 : 1
  } finally {
    progress.end()
  }
}

/** Adds the command to `program`; `finish` receives its exit code. */
export function addGpusCommand(
  program: Command,
  io: CommandIo,
  finish: (exitCode: number) => void,
): void {
  program
    .command('gpus')
    .description('what each path reaches between two GPUs, and what it costs, against the bars')
    .option('--devices <list>', 'of initiator and target: cuda:N or cpu', 'cuda:0,cuda:1')
    .option('--parts <list>', 'what to measure', partNames.join(','))
    .option('--max-mib <n>', 'largest transfer', String(Math.max(...gpus.totalsMib)))
    .option('--json <file>', 'write the result there; - = stdout, and nothing else')
    .allowExcessArguments(false)
    .addHelpText('after', example)
    .action(async (flags: GpusFlags) => finish(await measure(flags, io)))
}
