/**
 * `kvferry-bench load`: from flags to exit code. 0 = all checks passed, 1 = one failed.
 */
import type { Command } from 'commander'
import { traitsOf } from '../compare/configuration.ts'
import { limits } from '../limits.ts'
import { loadPresets, type LoadPreset, type LoadPresetName } from '../load/presets.ts'
import { runLoad } from '../load/run-load.ts'
import { loadRuns, type LoadChoice } from '../load/runs-of.ts'
import { renderLoad } from '../load/table.ts'
import type { CommandIo } from '../main.ts'
import { blockCountsFor } from './engine-flags.ts'
import {
  parseExperimentFlags,
  parseShape,
  type ExperimentFlags,
  type ExperimentRequest,
} from './experiment-options.ts'
import { integerBetween, oneOf } from './flag-values.ts'
import { addExperimentOptions, assertOutputs, runMeasured } from './measured-command.ts'
import { collect, configurationsOf } from './shared.ts'

interface LoadFlags extends ExperimentFlags {
  readonly requests?: string
}

/** All that the bars compare: the baseline, what is judged, and the published text's own baseline. */
const defaultConnectors = 'pull,push,xavier,xavier:staging=snapshot'

const example = `
Examples:
  $ kvferry-bench load --json load.json
  $ kvferry-bench load --preset full --connectors pull,xavier --html load.html

Exit code: 0 all checks passed, 1 a check failed (failed request, wrong byte, texts that differ, tickets that don't
add up, a cold arrival without decode beside it; in "full" also a missed bar or a point outside the overrun guard),
2 wrong usage.`

async function choicesOf(request: ExperimentRequest): Promise<LoadChoice[]> {
  const configurations = await configurationsOf(request.configurations)
  return Promise.all(
    configurations.map(async (configuration) => ({
      configuration,
      hasTickets: (await traitsOf(configuration.connector)).hasTickets,
    })),
  )
}

function presetOf(flags: LoadFlags): LoadPreset {
  const name = oneOf('preset', flags.preset, Object.keys(loadPresets) as LoadPresetName[])
  const { plan, engine, ...rest } = loadPresets[name]
  const requestCount =
    flags.requests === undefined
      ? plan.requestCount
      : integerBetween('requests', flags.requests, { min: 1, max: limits.requestsMax })
  const shape = parseShape(flags, engine, blockCountsFor(engine))
  return { ...rest, plan: { ...plan, requestCount }, engine: shape }
}

async function load(flags: LoadFlags, io: CommandIo): Promise<number> {
  const request = parseExperimentFlags(flags)
  const preset = presetOf(flags)
  assertOutputs(request)
  const runs = loadRuns(await choicesOf(request), preset.engine)
  return runMeasured(request, io, {
    schema: 'load',
    measure: ({ kind, nixl, deviceTier }, dependencies) => {
      const { seed } = request
      const surroundings = { seed, agent: kind, nixl, deviceTier, prefixCaching: 'on' as const }
      return runLoad({ ...surroundings, preset, runs }, dependencies)
    },
    render: renderLoad,
    writeReport: async (target, result) => {
      const { writeLoadReport } = await import('../report/load-report.ts')
      writeLoadReport(target, result)
    },
  })
}

/** Adds the command to `program`; `finish` receives its exit code. */
export function addLoadCommand(
  program: Command,
  io: CommandIo,
  finish: (exitCode: number) => void,
): void {
  const command = program
    .command('load')
    .description('16 and 32 callers, then cold arrivals during background decode')
    .option(
      '--connectors <list>',
      'what to run: NAME or NAME:key=value, with commas',
      defaultConnectors,
    )
    .option('--preset <name>', 'quick, or full: the published 652 requests in 3 trials', 'quick')
    .option('--requests <n>', 'of each of the two phases with 16 and 32 callers')
    .option('--option <key=value>', 'option of all connectors, repeatable', collect, [])
    .option('--hooks <place>', 'connector hooks: after-launch or additive', 'after-launch')
  addExperimentOptions(command)
    .addHelpText('after', example)
    .action(async (flags: LoadFlags) => finish(await load(flags, io)))
}
