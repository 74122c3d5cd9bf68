/**
 * `kvferry-bench compare`: from flags to exit code. Chooses the agent, runs the comparison, writes the
 * result file and the table. 0 = all checks passed, 1 = one failed.
 */
import type { Command } from 'commander'
import { runCompare } from '../compare/compare.ts'
import { besideBuild } from '../compare/configuration.ts'
import { readBuild } from '../compare/other-build.ts'
import { renderResult } from '../compare/table.ts'
import type { CommandIo } from '../main.ts'
import { parseCompareFlags, type CompareFlags } from './compare-options.ts'
import { assertOutputs, runMeasured } from './measured-command.ts'
import { collect, configurationsOf } from './shared.ts'

const example = `
Example:
  $ kvferry-bench compare --preset quick --json result.json
  $ kvferry-bench compare --connectors pull,pull:posting=inline --hooks both
  $ kvferry-bench compare --connectors push,push:progressive=true --qps 4 \\
      --input-tokens 2048 --max-num-batched-tokens 256

Exit code: 0 all checks passed, 1 a check failed (failed request, wrong byte, text that differs from the
oracle's, unverified KV; in "full" also a missed bar or a point outside the overrun guard), 2 wrong usage.`

async function compare(flags: CompareFlags, io: CommandIo): Promise<number> {
  const request = parseCompareFlags(flags)
  assertOutputs(request)
  const own = await configurationsOf(request)
  const configurations =
    request.against === null ? own : besideBuild(own, readBuild(request.against))
  const { preset, seed, prefixCaching } = request
  return runMeasured(request, io, {
    schema: 'compare',
    measure: ({ kind, nixl, deviceTier }, dependencies) => {
      const surroundings = { seed, prefixCaching, agent: kind, nixl, deviceTier }
      return runCompare({ ...surroundings, preset, configurations }, dependencies)
    },
    render: renderResult,
    writeReport: async (target, result) => {
      const { writeCompareReport } = await import('../report/compare-report.ts')
      writeCompareReport(target, result)
    },
  })
}

/** Adds the command to `program`; `finish` receives its exit code. */
export function addCompareCommand(
  program: Command,
  io: CommandIo,
  finish: (exitCode: number) => void,
): void {
  program
    .command('compare')
    .description('serve the same requests with each connector and with one engine alone; compare')
    .option(
      '--connectors <list>',
      'what to compare: NAME or NAME:key=value, with commas',
      'pull,push',
    )
    .option('--preset <name>', 'quick: about a minute; full: 3 trials in fresh processes', 'quick')
    .option('--posting <mode>', 'pull: both, background or inline', 'both')
    .option('--option <key=value>', 'option of all connectors, repeatable', collect, [])
    .option('--path <word>', 'how KV travels: auto (default), descriptors, slabs or ipc')
    .option('--hooks <place>', 'connector hooks: after-launch, additive or both', 'after-launch')
    .option('--seed <n>', 'of the request list and its arrival times', '1')
    .option('--requests <n>', 'measured requests of one trial')
    .option('--qps <n>', 'mean arrival rate')
    .option('--input-tokens <n>', 'all measured prompts of this length (default: all classes)')
    .option('--max-num-batched-tokens <n>', 'tokens of one step: longer prompts go in chunks')
    .option('--max-model-len <n>', 'prompt and output together; longer prompts raise it')
    .option('--agent <kind>', 'nixl (default) or memory: all roles in one process')
    .option('--demo', 'without NIXL go on with the in-memory agent (--agent auto)')
    .option('--prefix-caching <mode>', "engines' prefix cache: on or off", 'off')
    .option('--devices <list>', "where P's and D's KV lies: cpu or cuda:N, cuda:0,cuda:1")
    .option('--json <file>', 'write the result there; - = stdout, and nothing else')
    .option('--html <file>', 'a report with charts, in one file')
    .option('--keep-logs <dir>', "keep each process's log and who ran where")
    .option('--engine-bin <script>', 'run this instead of the installed kvferry-engine')
    .option('--router-bin <script>', 'run this instead of the installed kvferry-router')
    .option('--against <dir>', "another checkout, built: run its programs beside this one's")
    .option('--debug-endpoints', 'start the engines with their debug endpoints (tests)')
    .addHelpText('after', example)
    .action(async (flags: CompareFlags) => finish(await compare(flags, io)))
}
