/**
 * `kvferry-bench micro`: from flags to exit code. Runs the measurement, writes the result file and the
 * table. 0 = every bar held, 1 = one was missed or the machine is too noisy to judge.
 */
import type { Command } from 'commander'
import { createProgress } from '../lib/progress.ts'
import { writeResult } from '../lib/result-file.ts'
import { assertMatchesSchema } from '../lib/result-schema.ts'
import type { CommandIo } from '../main.ts'
import { micro } from '../micro/settings.ts'
import { UsageError } from '../usage-error.ts'

interface MicroFlags {
  readonly agent?: boolean
  readonly pairs: string
  readonly python?: string
  readonly json?: string
}

const pairsMax = 100_000

const example = `
Example:
  $ kvferry-bench micro --agent --json micro.json

Needs NIXL and a C++ compiler (for the baseline). Exit code: 0 every bar held, 1 one was missed, a byte was
wrong or the machine is too noisy to judge, 2 wrong usage.`

async function measure(flags: MicroFlags, io: CommandIo): Promise<number> {
  if (flags.agent !== true) throw new UsageError('micro: name what to measure: --agent')
  const pairs = Number(flags.pairs)
  if (!Number.isInteger(pairs) || pairs < 1 || pairs > pairsMax) {
    throw new UsageError(`--pairs ${flags.pairs}: use a whole number from 1 to ${pairsMax}`)
  }
  // Here, not above: commands that need no NIXL must start without it.
  const { runMicroAgent } = await import('../micro/agent.ts')
  const { renderMicro } = await import('../micro/table.ts')
  const progress = createProgress(io.stderr)
  try {
    const result = await runMicroAgent({
      pairs,
      progress,
      signal: io.signal,
      python: flags.python,
    })
    progress.end()
    assertMatchesSchema('micro', result)
    if (flags.json !== undefined) writeResult(flags.json, result, io.stdout)
    if (flags.json !== '-') io.stdout.write(renderMicro(result))
    else for (const text of result.verdict.failures) io.stderr.write(`kvferry-bench: ${text}\n`)
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
    .option('--pairs <n>', 'interleaved pairs per throughput case', String(micro.pairCount))
    .option(
      '--python <interpreter>',
      "also compare with NIXL's bindings in this Python (with numpy)",
    )
    .option('--json <file>', 'write the result there; - = stdout, and nothing else')
    .addHelpText('after', example)
    .action(async (flags: MicroFlags) => finish(await measure(flags, io)))
}
